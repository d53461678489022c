"""The two shapes of a result: one record a fold, and one summary row a metric, data set and method.

Records hold metrics as the library computes them, in [0, 1]. Summaries hold them in per cent, as papers
print them. Higher is better in both.
"""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pysldl._utils.files import write_atomically
from pysldl.datasets.files import open_text
from pysldl.exceptions import DataError

__all__ = [
    "ErrorBoundTerms",
    "FoldRecord",
    "Scores",
    "Summary",
    "complete_part",
    "fold_scores",
    "mean_fit_seconds",
    "metrics_of",
    "rankable_part",
    "read_summaries",
    "scores_by_metric",
    "summarize",
    "write_summaries",
]

Selection = Literal["nested", "as-published"]
Unseen = Literal["keep", "drop"]

_REQUIRED_COLUMNS = ("metric", "dataset", "method", "mean")
_OPTIONAL_COLUMNS = ("std", "n_folds")


@dataclass(frozen=True, slots=True)
class Summary:
    """Mean and standard deviation of one metric, data set and method.

    Parameters
    ----------
    metric, dataset, method : str
        What was measured, on what, with what.
    mean : float
        In per cent.
    std : float or None, default=None
        Standard deviation over the folds, in per cent; None where it is not known.
    n_folds : int or None, default=None
        How many folds the mean is over; None where it is not known.
    """

    metric: str
    dataset: str
    method: str
    mean: float
    std: float | None = None
    n_folds: int | None = None


@dataclass(frozen=True, slots=True)
class FoldRecord:
    """What one method did on one fold of one data set, with the configuration chosen there.

    Parameters
    ----------
    dataset, method : str
        Names of the catalog and of the method registry.
    fold : int
        Counted from 0.
    parameters : dict
        The configuration.
    metrics : dict of str to float
        Scores on the test rows, in [0, 1].
    fit_seconds, predict_seconds : float
        Wall-clock time.
    peak_mb : float
        Highest resident memory, in MiB.
    seed : int
        Seed of the folds and of the method.
    versions : dict of str to str
        Of the library and of what it stands on.
    selection : {"nested", "as-published"}
        How the parameters were chosen: on validation parts of the training rows, or on the test fold.
    unseen : {"keep", "drop"}
        What scoring did with test labels that never occur in the training rows.
    """

    dataset: str
    method: str
    fold: int
    parameters: dict[str, Any]
    metrics: dict[str, float]
    fit_seconds: float
    predict_seconds: float
    peak_mb: float
    seed: int
    versions: dict[str, str]
    selection: Selection = "nested"
    unseen: Unseen = "keep"

    def __post_init__(self) -> None:
        where = f"record of {self.method} on {self.dataset}, fold {self.fold}"
        if self.selection not in ("nested", "as-published"):
            raise DataError(f"{where}: selection is {self.selection!r}; it must be 'nested' or 'as-published'.")
        if self.unseen not in ("keep", "drop"):
            raise DataError(f"{where}: unseen is {self.unseen!r}; it must be 'keep' or 'drop'.")
        for name, value in self.metrics.items():
            if not isinstance(value, int | float) or not 0 <= value <= 1:
                raise DataError(f"{where}: {name} is {value!r}; a metric must be a number from 0 to 1.")


@dataclass(frozen=True, slots=True)
class ErrorBoundTerms:
    """The two terms of Theorem 1 for one method on one data set, as means over the test rows.

    Parameters
    ----------
    dataset, method : str
        Where they were measured.
    embedding_error : float
        Mean of ``(E(z, z_tilde) - C(y, y_hat)**0.5)**2``: what the embedding loses.
    regression_error : float
        Mean of ``E(z, z_hat)**2``: what the mapping loses.
    b : float
        The constant of the theorem as observed: the smallest one for which the bound holds on every row.
    """

    dataset: str
    method: str
    embedding_error: float
    regression_error: float
    b: float


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """One metric as a complete matrix, which is what ranks and rank tests need.

    Parameters
    ----------
    metric : str
        Its name.
    datasets : tuple of str
        The rows.
    methods : tuple of str
        The columns.
    values : ndarray of shape (n_datasets, n_methods)
        Means; higher is better.
    """

    metric: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    values: NDArray[np.float64]


def read_summaries(path: Path) -> list[Summary]:
    """Read a CSV file with the columns metric, dataset, method, mean and, optionally, std and n_folds.

    Other columns are left aside. Rows keep the order of the file.

    Raises
    ------
    DataError
        Naming the file, and the line where there is one, and what is wrong there.
    """
    rows: list[Summary] = []
    line_of: dict[tuple[str, str, str], int] = {}
    for line, cells in _csv_rows(path):
        row = _parse_summary(cells, f"{path}, line {line}")
        key = (row.metric, row.dataset, row.method)
        if key in line_of:
            raise DataError(
                f"{path}, line {line}: {row.metric} of {row.method} on {row.dataset} "
                f"was already given in line {line_of[key]}. Keep one of them."
            )
        line_of[key] = line
        rows.append(row)
    if not rows:
        raise DataError(f"{path} has a header but no results below it.")
    return rows


def write_summaries(path: Path, rows: Iterable[Summary]) -> Path:
    """Write rows as the CSV file that :func:`read_summaries` reads, so that `sldl stats` takes it."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_REQUIRED_COLUMNS, *_OPTIONAL_COLUMNS])
    for row in rows:
        writer.writerow(
            [
                row.metric,
                row.dataset,
                row.method,
                repr(row.mean),
                "" if row.std is None else repr(row.std),
                "" if row.n_folds is None else row.n_folds,
            ]
        )
    return write_atomically(path, text.getvalue())


def summarize(records: Iterable[FoldRecord]) -> list[Summary]:
    """Reduce fold records to one row a metric, data set and method, in per cent.

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
    """Return ``{(dataset, method): {fold: score in per cent}}`` of one metric."""
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


def complete_part(rows: Sequence[Summary]) -> list[Summary]:
    """Keep, for each metric, the data sets on which every method of that metric was run."""
    methods: dict[str, set[str]] = {}
    methods_on: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        methods.setdefault(row.metric, set()).add(row.method)
        methods_on.setdefault((row.metric, row.dataset), set()).add(row.method)
    return [row for row in rows if methods_on[row.metric, row.dataset] == methods[row.metric]]


def rankable_part(rows: Sequence[Summary]) -> list[Summary]:
    """Keep, for each metric, a complete part: every method that is kept on every data set that is kept.

    Either the data sets on which every method was run, or the methods that were run on every data set, whichever
    part has more cells: one method that was run on few data sets shall not take all others down with it.
    """
    kept: list[Summary] = []
    for metric in metrics_of(rows):
        of_metric = [row for row in rows if row.metric == metric]
        datasets = {row.dataset for row in of_metric}
        datasets_of: dict[str, set[str]] = {}
        for row in of_metric:
            datasets_of.setdefault(row.method, set()).add(row.dataset)
        by_dataset = complete_part(of_metric)
        by_method = [row for row in of_metric if datasets_of[row.method] == datasets]
        parts = [part if len({row.method for row in part}) >= 2 else [] for part in (by_dataset, by_method)]
        kept += parts[0] if len(parts[0]) >= len(parts[1]) else parts[1]
    return kept


def scores_by_metric(rows: Sequence[Summary], source: str = "the results") -> dict[str, Scores]:
    """Arrange rows as one complete matrix a metric.

    Parameters
    ----------
    rows : sequence of Summary
        In any order; data sets and methods keep the order of their first appearance.
    source : str, default="the results"
        Name for the error.

    Raises
    ------
    DataError
        A cell is missing, or there are fewer than two methods or two data sets, so nothing can be ranked.
    """
    matrices = {}
    for metric in metrics_of(rows):
        means = {(row.dataset, row.method): row.mean for row in rows if row.metric == metric}
        datasets = tuple(dict.fromkeys(dataset for dataset, _ in means))
        methods = tuple(dict.fromkeys(method for _, method in means))
        for names, what in ((methods, "method"), (datasets, "data set")):
            if len(names) < 2:
                raise DataError(f"{source}: {metric} has only one {what} ({names[0]}); ranks need at least two.")
        missing = [(d, m) for d in datasets for m in methods if (d, m) not in means]
        if missing:
            dataset, method = missing[0]
            others = f" ({len(missing) - 1} more cells are missing too)" if len(missing) > 1 else ""
            raise DataError(
                f"{source}: {metric} of {method} on {dataset} is missing{others}. "
                "Ranks need every method on every data set: add the row, or leave out the method or the set."
            )
        values = np.array([[means[dataset, method] for method in methods] for dataset in datasets])
        matrices[metric] = Scores(metric, datasets, methods, values)
    return matrices


def _by_dataset_and_method(
    records: Iterable[FoldRecord],
) -> dict[tuple[str, str], dict[int, FoldRecord]]:
    """Group records, refusing two of the same fold and folds that measured different metrics."""
    groups: dict[tuple[str, str], dict[int, FoldRecord]] = {}
    for record in records:
        per_fold = groups.setdefault((record.dataset, record.method), {})
        where = f"{record.method} on {record.dataset}, fold {record.fold}"
        if record.fold in per_fold:
            raise DataError(f"{where}: two records of the same fold. Choose one configuration a fold first.")
        for other in per_fold.values():
            if other.metrics.keys() != record.metrics.keys():
                raise DataError(f"{where}: its metrics differ from those of fold {other.fold}.")
            break
        per_fold[record.fold] = record
    return groups


def _csv_rows(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield the line number and the named cells of each row that is not blank."""
    with open_text(path) as stream:
        reader = csv.reader(stream, strict=True)
        header: list[str] | None = None
        try:
            for cells in reader:
                where = f"{path}, line {reader.line_num}"
                if not any(cell.strip() for cell in cells):
                    continue
                if header is None:
                    header = _check_header([cell.strip() for cell in cells], where)
                    continue
                if len(cells) != len(header):
                    raise DataError(f"{where}: {len(cells)} cells where the header has {len(header)}.")
                yield reader.line_num, dict(zip(header, (cell.strip() for cell in cells), strict=True))
        except csv.Error as error:
            raise DataError(f"{path}, line {reader.line_num}: not valid CSV ({error}).") from error
    if header is None:
        raise DataError(f"{path} has no header; it must hold the columns {', '.join(_REQUIRED_COLUMNS)}.")


def _check_header(header: list[str], where: str) -> list[str]:
    missing = [name for name in _REQUIRED_COLUMNS if name not in header]
    if missing:
        raise DataError(
            f"{where}: the header has no column {', '.join(missing)}. "
            f"It must have {', '.join(_REQUIRED_COLUMNS)} and may have {', '.join(_OPTIONAL_COLUMNS)}."
        )
    for name in (*_REQUIRED_COLUMNS, *_OPTIONAL_COLUMNS):
        if header.count(name) > 1:
            raise DataError(f"{where}: the column {name} appears twice.")
    return header


def _parse_summary(cells: Mapping[str, str], where: str) -> Summary:
    for name in ("metric", "dataset", "method"):
        if not cells[name]:
            raise DataError(f"{where}: {name} is empty.")
    mean = _number(cells["mean"], "mean", where)
    std = _number(cells["std"], "std", where) if cells.get("std") else None
    if std is not None and std < 0:
        raise DataError(f"{where}: std is {cells['std']}; a standard deviation is not negative.")
    n_folds = None
    if cells.get("n_folds"):
        n_folds = int(cells["n_folds"]) if cells["n_folds"].isdecimal() else 0
        if n_folds < 1:
            raise DataError(f"{where}: n_folds is {cells['n_folds']!r}; it must be a whole number from 1.")
    return Summary(cells["metric"], cells["dataset"], cells["method"], mean, std, n_folds)


def _number(text: str, name: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise DataError(f"{where}: {name} is {text!r}, which is not a number.") from None
    if not math.isfinite(value):
        raise DataError(f"{where}: {name} is {text!r}; it must be finite.")
    return value
