"""Made-up records for the tests of this folder."""

from pysldl.experiments.stats.results import FoldRecord


def make_record(dataset: str, method: str, fold: int, score: float, **changes: object) -> FoldRecord:
    """A record with a score for two metrics and plausible values for the rest."""
    values: dict[str, object] = {
        "parameters": {"c_hat": 64, "k": 30},
        "metrics": {"P@1": score, "P@5": score / 2},
        "fit_seconds": 1.0,
    }
    return FoldRecord(dataset=dataset, method=method, fold=fold, **(values | changes))  # type: ignore[arg-type]
