"""Read the paper's published results from CSV files and compare measured means with them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from pysldl.datasets.files import csv_rows, write_csv_rows
from pysldl.exceptions import DataError
from pysldl.experiments.stats.results import Summary, read_summaries

ABLATION_FILE = "ablation_p_at_5.csv"
ABLATION_METRIC = "P@5"
LARGEST_SHORTFALL = 1.5


@dataclass(frozen=True, slots=True)
class Published:
    """What the paper printed: Tables III to X, and the ablation with the metric filled in."""

    results: Sequence[Summary] = ()
    ablation: Sequence[Summary] = ()


@dataclass(frozen=True, slots=True)
class Agreement:
    """One measured mean beside the published one of the reference method, both in percent."""

    dataset: str
    metric: str
    method: str
    measured: float
    measured_std: float
    published: float
    published_std: float

    @property
    def deviations(self) -> float:
        """Measured minus published, in units of the published standard deviation."""
        return (self.measured - self.published) / self.published_std


def read_published(path: Path) -> Published:
    """Read the paper's tables from a CSV file with the columns metric, dataset, method, mean and std.

    ``path`` may also be the folder that holds it as ``results.csv``. If ``ablation_p_at_5.csv`` (dataset, case, mean,
    std) is beside it, that is read, too.
    """
    results = path / "results.csv" if path.is_dir() else path
    ablation = results.parent / ABLATION_FILE
    return Published(read_summaries(results), _read_ablation(ablation) if ablation.is_file() else ())


def _read_ablation(path: Path) -> list[Summary]:
    """The ablation table, which says "case" for method and leaves out the metric."""
    rows = []
    for line, cells in csv_rows(path, ("dataset", "case", "mean", "std")):
        try:
            mean, std = float(cells["mean"]), float(cells["std"])
        except ValueError as error:
            raise DataError(f"{path}, line {line}: mean and std must be numbers ({error}).") from error
        rows.append(Summary(ABLATION_METRIC, cells["dataset"], cells["case"], mean, std))
    return rows


def agreements(published: Sequence[Summary], measured: Sequence[Summary], reference: str) -> list[Agreement]:
    """Put the measured means of every method beside the published ones of the reference."""
    printed = {(row.metric, row.dataset): row for row in published if row.method == reference and row.std}
    found = []
    for row in measured:
        there = printed.get((row.metric, row.dataset))
        if there is not None and there.std:
            std = row.std or 0.0
            found.append(Agreement(row.dataset, row.metric, row.method, row.mean, std, there.mean, there.std))
    return found


def verdict(found: Sequence[Agreement]) -> tuple[bool, str]:
    """Whether no mean falls 1.5 published deviations short and the average is not below the paper's; in words."""
    if not found:
        return False, "nothing was measured that the paper printed too"
    worst = min(found, key=lambda agreement: agreement.deviations)
    average = fmean(agreement.deviations for agreement in found)
    holds = worst.deviations > -LARGEST_SHORTFALL and average >= 0
    return holds, (
        f"{len(found)} means; lowest {worst.deviations:+.2f} published deviations ({worst.metric} on {worst.dataset}; "
        f"must be above {-LARGEST_SHORTFALL}), average {average:+.3f} (must be at least 0): "
        f"{'holds' if holds else 'does not hold'}"
    )


def write_comparison(found: Sequence[Agreement], path: Path) -> Path:
    """Write measured and published means side by side, as CSV."""
    names = ("measured", "measured_std", "published", "published_std", "deviations")
    rows = (asdict(row) | {name: f"{getattr(row, name):.6f}" for name in names} for row in found)
    return write_csv_rows(path, ("dataset", "metric", "method", *names), rows)
