"""Results in two shapes: one record per fold, and one summary row per metric, data set and method.

Records hold metrics as the library computes them, in [0, 1]; summaries hold them in percent, as papers print them.
Higher is better in both.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pysldl.datasets.files import csv_rows, write_csv_rows
from pysldl.exceptions import DataError
from pysldl.experiments.stats.error_bound import ErrorBoundTerms

Selection = Literal["nested", "as-published"]
Unseen = Literal["keep", "drop"]
Curves = Mapping[tuple[str, str], Mapping[str, Sequence[tuple[float, float]]]]

REQUIRED_COLUMNS = ("metric", "dataset", "method", "mean")

ABLATION_FILE = "ablation_p_at_5.csv"
ABLATION_METRIC = "P@5"
LARGEST_SHORTFALL = 1.5


@dataclass(frozen=True, slots=True)
class Summary:
    """Mean and standard deviation over the folds of one metric, data set and method, in percent; None: not known."""

    metric: str
    dataset: str
    method: str
    mean: float
    std: float | None = None
    n_folds: int | None = None


@dataclass(frozen=True, slots=True)
class FoldRecord:
    """What one method did on one fold of one data set, with the configuration chosen there."""

    dataset: str
    method: str
    fold: int  # counted from 0
    parameters: dict[str, int]  # the configuration
    metrics: dict[str, float]  # on the test rows, in [0, 1]
    fit_seconds: float
    selection: Selection = "nested"  # on validation parts of the training rows, or on the test folds
    unseen: Unseen = "keep"  # what scoring did with test labels that never occur in the training rows


@dataclass(frozen=True)
class Measurements:
    """What a run measured, with one configuration chosen for every fold: all that tables and figures show."""

    records: Sequence[FoldRecord]
    n_folds: int = 10  # that were run; tables leave a method with fewer of them out
    variants: Sequence[str] = ()  # the methods of the ablation, in the order of its columns
    terms: Sequence[ErrorBoundTerms] = ()
    curves: Curves = field(default_factory=dict)  # {(parameter, metric): {dataset: [(value, percent), ...]}}
    shown_as: Mapping[str, str] = field(default_factory=dict)  # what tables call a method, where that says more
    n_planned_folds: int | None = None  # of the cross-validation, where not all of them were run
    timed: Sequence[FoldRecord] = ()  # with the configuration whose training times are shown; default: records

    @cached_property
    def summaries(self) -> list[Summary]:
        """Means of the methods that have all their folds on a data set."""
        return [row for row in summarize(self.records) if row.n_folds == self.n_folds]


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """One metric as a complete matrix, which is what ranks and rank tests need."""

    metric: str
    datasets: tuple[str, ...]  # the rows
    methods: tuple[str, ...]  # the columns
    values: NDArray[np.float64]  # means, of shape (n_datasets, n_methods); higher is better


def read_summaries(path: Path) -> list[Summary]:
    """Read a CSV file with the columns metric, dataset, method, mean and, optionally, std and n_folds.

    Other columns are ignored. A :class:`DataError` names the file, the line and what is wrong there.
    """
    rows: dict[tuple[str, str, str], tuple[int, Summary]] = {}
    for line, cells in csv_rows(path, REQUIRED_COLUMNS):
        where = f"{path}, line {line}"
        row = _parse_summary(cells, where)
        key = (row.metric, row.dataset, row.method)
        if key in rows:
            what = f"{row.metric} of {row.method} on {row.dataset}"
            raise DataError(f"{where}: {what} was already given in line {rows[key][0]}. Keep one of them.")
        rows[key] = line, row
    if not rows:
        raise DataError(f"{path} has a header but no results below it.")
    return [row for _, row in rows.values()]


def write_summaries(path: Path, rows: Iterable[Summary]) -> Path:
    """Write rows as the CSV file that :func:`read_summaries` and `sldl stats` read."""
    return write_csv_rows(path, (*REQUIRED_COLUMNS, "std", "n_folds"), map(asdict, rows))


def summarize(records: Iterable[FoldRecord]) -> list[Summary]:
    """Reduce fold records to one row per metric, data set and method, in percent.

    The standard deviation is that of a sample (divisor n - 1), 0 for a single fold.
    """
    rows = []
    for (dataset, method), per_fold in _by_dataset_and_method(records).items():
        for metric in per_fold[min(per_fold)].metrics:
            values = 100 * np.array([per_fold[fold].metrics[metric] for fold in sorted(per_fold)])
            std = float(values.std(ddof=1)) if len(values) > 1 else 0.0
            rows.append(Summary(metric, dataset, method, float(values.mean()), std, len(values)))
    return rows


def fold_scores(records: Iterable[FoldRecord], metric: str) -> dict[tuple[str, str], dict[int, float]]:
    """Return ``{(dataset, method): {fold: score in percent}}`` of one metric."""
    return {
        key: {fold: 100 * per_fold[fold].metrics[metric] for fold in sorted(per_fold)}
        for key, per_fold in _by_dataset_and_method(records).items()
    }


def mean_fit_seconds(records: Iterable[FoldRecord]) -> dict[str, dict[str, float]]:
    """Return ``{dataset: {method: mean training time of a fold}}``."""
    seconds: dict[str, dict[str, float]] = {}
    for (dataset, method), per_fold in _by_dataset_and_method(records).items():
        times = [record.fit_seconds for record in per_fold.values()]
        seconds.setdefault(dataset, {})[method] = math.fsum(times) / len(times)
    return seconds


def metrics_of(rows: Iterable[Summary]) -> list[str]:
    """Return the metrics in the order in which they first appear."""
    return list(dict.fromkeys(row.metric for row in rows))


def rankable_part(rows: Sequence[Summary]) -> list[Summary]:
    """Keep, for each metric, a complete part: every method that is kept on every data set that is kept.

    Either the data sets that have every method, or the methods that have every data set, whichever part has more
    cells: one method that was run on few data sets must not remove all others.
    """
    kept: list[Summary] = []
    for metric in metrics_of(rows):
        of_metric = [row for row in rows if row.metric == metric]
        cells = {(row.dataset, row.method) for row in of_metric}
        datasets, methods = ({cell[axis] for cell in cells} for axis in (0, 1))
        full_sets = {d for d in datasets if all((d, m) in cells for m in methods)}
        full_methods = {m for m in methods if all((d, m) in cells for d in datasets)}
        by_dataset = [row for row in of_metric if row.dataset in full_sets]
        by_method = [row for row in of_metric if row.method in full_methods]
        parts: list[list[Summary]] = [
            part for part in (by_dataset, by_method) if len({row.method for row in part}) >= 2
        ]
        largest = max(parts, key=len, default=[])
        kept += largest
    return kept


def scores_by_metric(rows: Sequence[Summary], source: str = "the results") -> dict[str, Scores]:
    """Arrange rows as one complete matrix per metric; ``source`` names them in an error.

    A missing cell, a single method or a single data set is a :class:`DataError`: nothing can be ranked.
    """
    matrices = {}
    for metric in metrics_of(rows):
        means = {(row.dataset, row.method): row.mean for row in rows if row.metric == metric}
        datasets = tuple(dict.fromkeys(dataset for dataset, _ in means))
        methods = tuple(dict.fromkeys(method for _, method in means))
        for names, what in ((methods, "method"), (datasets, "data set")):
            if len(names) < 2:
                raise DataError(f"{source}: {metric} has only one {what} ({names[0]}); ranks need at least two.")
        if missing := [(d, m) for d in datasets for m in methods if (d, m) not in means]:
            dataset, method = missing[0]
            others = f" ({len(missing) - 1} more cells are missing too)" if len(missing) > 1 else ""
            raise DataError(
                f"{source}: {metric} of {method} on {dataset} is missing{others}. "
                "Ranks need every method on every data set: add the row, or leave out the method or the set."
            )
        values = np.array([[means[dataset, method] for method in methods] for dataset in datasets])
        matrices[metric] = Scores(metric, datasets, methods, values)
    return matrices


def _by_dataset_and_method(records: Iterable[FoldRecord]) -> dict[tuple[str, str], dict[int, FoldRecord]]:
    """Group records, refusing two of the same fold and folds that measured different metrics."""
    groups: dict[tuple[str, str], dict[int, FoldRecord]] = {}
    for record in records:
        per_fold = groups.setdefault((record.dataset, record.method), {})
        where = f"{record.method} on {record.dataset}, fold {record.fold}"
        if record.fold in per_fold:
            raise DataError(f"{where}: two records of the same fold. Choose one configuration per fold first.")
        first = next(iter(per_fold.values()), record)
        if first.metrics.keys() != record.metrics.keys():
            raise DataError(f"{where}: its metrics differ from those of fold {first.fold}.")
        per_fold[record.fold] = record
    return groups


def _parse_summary(cells: Mapping[str, str], where: str) -> Summary:
    for name in ("metric", "dataset", "method"):
        if not cells[name]:
            raise DataError(f"{where}: {name} is empty.")
    mean = _finite(cells["mean"], "mean", where)
    std = _finite(cells["std"], "std", where) if cells.get("std") else None
    if std is not None and std < 0:
        raise DataError(f"{where}: std is {cells['std']}; a standard deviation is not negative.")
    folds = cells.get("n_folds") or None
    if folds is not None and not (folds.isdecimal() and int(folds)):
        raise DataError(f"{where}: n_folds is {folds!r}; it must be a whole number from 1.")
    return Summary(cells["metric"], cells["dataset"], cells["method"], mean, std, None if folds is None else int(folds))


def _finite(text: str, name: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise DataError(f"{where}: {name} is {text!r}, which is not a number.") from None
    if not math.isfinite(value):
        raise DataError(f"{where}: {name} is {text!r}; it must be finite.")
    return value


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
    return [
        _parse_summary(cells | {"metric": ABLATION_METRIC, "method": cells["case"]}, f"{path}, line {line}")
        for line, cells in csv_rows(path, ("dataset", "case", "mean", "std"))
    ]


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
