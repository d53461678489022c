"""From the records of all configurations to one a fold: chosen on training rows, or as published on the test folds."""

from collections.abc import Iterable, Mapping
from statistics import fmean

from pysldl.experiments.run.evaluation import Configuration, configurations
from pysldl.experiments.run.journal import Record
from pysldl.experiments.run.methods import Method
from pysldl.experiments.run.protocol import Protocol
from pysldl.experiments.run.scoring import mean_metric
from pysldl.experiments.stats.results import ErrorBoundTerms, FoldRecord, Selection, Unseen

__all__ = ["ByFold", "finished_folds", "fold_records", "select", "terms_of"]

ByFold = dict[int, dict[Configuration, Record]]


def finished_folds(records: Iterable[Record], method: Method, protocol: Protocol) -> ByFold:
    """Records of one data set and method, for the folds of which every configuration is finished."""
    wanted = configurations(method, protocol)
    folds: ByFold = {}
    for record in records:
        if record.method == method.name:
            folds.setdefault(record.fold, {})[record.configuration] = record
    return {
        fold: {configuration: found[configuration] for configuration in wanted}
        for fold, found in sorted(folds.items())
        if found.keys() >= set(wanted)
    }


def select(folds: ByFold, selection: Selection, unseen: Unseen) -> dict[int, Record]:
    """Choose the configuration of every fold by the mean of the eight metrics.

    Ties go to the smaller c_hat, then to fewer steps, then to the smaller k.

    ``"nested"`` looks at the validation rows of each fold. ``"as-published"`` takes, for all folds, the configuration
    with the best mean over the test folds, which flatters it.
    """
    if selection == "nested":
        return {fold: max(found.values(), key=_validation_score) for fold, found in folds.items()}
    if not folds:
        return {}
    everywhere = list(folds[min(folds)])
    best = max(everywhere, key=lambda c: fmean(mean_metric(found[c].test[unseen]) for found in folds.values()))
    return {fold: found[best] for fold, found in folds.items()}


def fold_records(chosen: Mapping[int, Record], title: str, selection: Selection, unseen: Unseen) -> list[FoldRecord]:
    """The chosen records in the form of tables and statistics, under the name that tables use."""
    return [
        FoldRecord(
            record.dataset,
            title,
            fold,
            dict(record.parameters),
            record.test[unseen],
            record.fit_seconds,
            record.predict_seconds,
            record.peak_mb,
            record.seed,
            record.versions,
            selection,
            unseen,
        )
        for fold, record in chosen.items()
    ]


def terms_of(chosen: Mapping[int, Record], title: str) -> ErrorBoundTerms | None:
    """The terms of Theorem 1 over the folds: means, and the largest b; None for a method without latent space."""
    terms = [record.terms for record in chosen.values() if record.terms is not None]
    if not terms:
        return None
    return ErrorBoundTerms(
        next(iter(chosen.values())).dataset,
        title,
        fmean(term["embedding_error"] for term in terms),
        fmean(term["regression_error"] for term in terms),
        max(term["b"] for term in terms),
    )


def _validation_score(record: Record) -> float:
    return 0.0 if record.validation is None else mean_metric(record.validation["keep"])
