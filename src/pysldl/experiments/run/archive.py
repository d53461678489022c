"""A results folder reduced to small text files that a repository can keep, and read back for tables and figures.

=================  ======================================================================================
``settings.json``  protocol, data sets, folds, and the title, grid and parameters of every method
``folds.csv``      a line for each method, data set and fold: the configuration chosen, metrics, seconds
``grid.csv``       means over the folds along the grid, through the configuration that validation prefers
``times.csv``      seconds and memory of each fold with the largest c_hat, number of steps and k
``runs.csv``       date, versions, processor and thread settings of each run that a line refers to
=================  ======================================================================================

Metrics are in [0, 1] in ``folds.csv`` and in percent in ``grid.csv``. A column such as ``P@1 drop`` has the metric with
test labels that no training row carries taken out of the truth; it is empty where that changes nothing.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from pysldl._utils.files import write_atomically
from pysldl.exceptions import DataError
from pysldl.experiments.report import Measurements
from pysldl.experiments.run.evaluation import Configuration
from pysldl.experiments.run.folder import Run, open_run
from pysldl.experiments.run.journal import Record
from pysldl.experiments.run.methods import ABLATION, AXES, REFERENCE, Method, stored_method
from pysldl.experiments.run.protocol import Protocol
from pysldl.experiments.run.scoring import PAPER_METRICS, mean_metric
from pysldl.experiments.run.selection import ByFold, finished_folds, fold_records, select, terms_of
from pysldl.experiments.stats.results import ErrorBoundTerms, FoldRecord, Selection, Summary, Unseen, summarize

__all__ = ["Archive", "Results", "export_results", "read_export", "unseen_as_in_the_paper"]

FORMAT = 1
CURVE_METRICS = ("P@1", "P@5", "PSP@5")
# The paper's propensity-scored figures for this set can only be reached without unseen labels.
DROPPED_IN_THE_PAPER = ("stackex-coffee",)
SELECTIONS: tuple[Selection, ...] = ("nested", "as-published")
TREATMENTS: tuple[Unseen, ...] = ("keep", "drop")
TERMS = ("embedding_error", "regression_error", "b")

Metrics = dict[str, dict[str, float]]
Key = tuple[str, str]  # method and data set


@dataclass(frozen=True)
class Results:
    """Measured results of a run, one configuration a fold.

    Parameters
    ----------
    selection : {"nested", "as-published"}
        How the configurations were chosen.
    measurements : Measurements
    summaries : list of Summary
        Of the methods with all their folds.
    """

    selection: Selection
    measurements: Measurements
    summaries: list[Summary]


@dataclass(frozen=True)
class GridPoint:
    """Means over the folds of one configuration, in percent; ``preferred`` by the validation rows of all folds."""

    configuration: Configuration
    n_folds: int
    preferred: bool
    test: Metrics


@dataclass(frozen=True)
class Archive:
    """What is kept of a run.

    Parameters
    ----------
    protocol : Protocol
    methods : list of Method
    parameters : dict
        By name of the method.
    datasets : list of str
    folds : tuple of int
        That were run.
    chosen : dict
        ``{selection: {(method, data set): {fold: Record}}}``; a method with a single configuration is under "nested".
    grid : dict
        ``{(method, data set): list of GridPoint}``, of methods with a grid and all folds.
    times : dict
        ``{(method, data set): {fold: Record}}`` with the largest configuration of the grid; metrics are left out.
    runs : dict
        Environments by run id.
    """

    protocol: Protocol
    methods: list[Method]
    parameters: dict[str, Any]
    datasets: list[str]
    folds: tuple[int, ...]
    chosen: dict[Selection, dict[Key, dict[int, Record]]]
    grid: dict[Key, list[GridPoint]]
    times: dict[Key, dict[int, Record]]
    runs: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of_run(cls, run: Run) -> "Archive":
        """Reduce the records of a run; only folds of which every configuration is finished count."""
        chosen: dict[Selection, dict[Key, dict[int, Record]]] = {selection: {} for selection in SELECTIONS}
        grid: dict[Key, list[GridPoint]] = {}
        times: dict[Key, dict[int, Record]] = {}
        protocol = run.folder.protocol
        for dataset in run.datasets:
            of_dataset = [record for record in run.folder.records(dataset) if record.fold in run.folds]
            for method in run.methods:
                folds = finished_folds(of_dataset, method, protocol)
                if not folds:
                    continue
                key = (method.name, dataset)
                axes = method.axes
                for selection in SELECTIONS if axes else SELECTIONS[:1]:
                    chosen[selection][key] = select(folds, selection, unseen_as_in_the_paper(dataset))
                largest = tuple((axis, max(protocol.values(axis))) for axis in axes)
                times[key] = {fold: found[largest] for fold, found in folds.items()}
                if axes and len(folds) == len(run.folds):
                    grid[key] = _along_the_grid(folds)
        noted = run.folder.settings() or {}
        parameters = {method.name: noted.get("methods", {}).get(method.name, {}) for method in run.methods}
        return cls(
            protocol, run.methods, parameters, run.datasets, run.folds, chosen, grid, times, noted.get("runs", {})
        )

    def results(
        self,
        selection: Selection = "nested",
        unseen: Callable[[str], Unseen] | None = None,
        metrics: Sequence[str] = PAPER_METRICS,
    ) -> Results:
        """What tables and figures show.

        Parameters
        ----------
        selection : {"nested", "as-published"}
        unseen : callable, optional
            From the name of a data set to ``"keep"`` or ``"drop"``; default :func:`unseen_as_in_the_paper`.
        metrics : sequence of str
            The ones to show; configurations are chosen by all eight.
        """
        treatment = unseen or unseen_as_in_the_paper
        n_folds = len(self.folds)
        records: list[FoldRecord] = []
        timed: list[FoldRecord] = []
        terms: list[ErrorBoundTerms] = []
        curves: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
        for dataset in self.datasets:
            mode = treatment(dataset)
            for method in self.methods:
                chosen = self._chosen(selection, (method.name, dataset))
                shown = fold_records(chosen, method.title, selection, mode)
                records += (replace(record, metrics={m: record.metrics[m] for m in metrics}) for record in shown)
                whole = len(chosen) == n_folds
                measured = terms_of(chosen, method.title) if whole else None
                terms += [measured] if measured is not None else []
                largest = self.times.get((method.name, dataset), {})
                if len(largest) == n_folds:
                    timed += (
                        replace(record, metrics={}) for record in fold_records(largest, method.title, selection, mode)
                    )
                points = self.grid.get((method.name, dataset), []) if method.title == REFERENCE and whole else []
                for parameter in AXES:
                    for metric in CURVE_METRICS:
                        if curve := _curve(points, parameter, metric, mode):
                            curves.setdefault((parameter, metric), {})[dataset] = curve
        present = {record.method for record in records}
        measurements = Measurements(
            records,
            n_folds,
            [title for title in ABLATION if title in present],
            terms,
            curves,
            {method.title: method.shown_as for method in self.methods if method.shown_as != method.title},
            of_folds=self.protocol.n_folds,
            timed=timed,
        )
        return Results(selection, measurements, [row for row in summarize(records) if row.n_folds == n_folds])

    def _chosen(self, selection: Selection, key: Key) -> dict[int, Record]:
        """A method with a single configuration has nothing to choose, whichever way."""
        of_selection = self.chosen[selection]
        return of_selection[key] if key in of_selection else self._only(key)

    def _only(self, key: Key) -> dict[int, Record]:
        method = next(method for method in self.methods if method.name == key[0])
        return {} if method.axes else self.chosen["nested"].get(key, {})

    def only(self, methods: Sequence[str] | None = None, datasets: Sequence[str] | None = None) -> "Archive":
        """This archive with some methods, by name or title, and some data sets, in the order given; all by default.

        Raises
        ------
        DataError
            A name is not among its methods or data sets.
        """
        by_name = {key.lower(): method for method in self.methods for key in (method.title, method.name)}
        for what, wanted, known in (("method", methods, by_name), ("data set", datasets, self.datasets)):
            for name in wanted or ():
                if (name.lower() if what == "method" else name) not in known:
                    raise DataError(f"there are no results of {what} {name!r}: choose from {', '.join(known)}.")
        chosen = self.methods if methods is None else [by_name[name.lower()] for name in dict.fromkeys(methods)]
        return replace(self, methods=chosen, datasets=self.datasets if datasets is None else list(datasets))

    def updated(self, newer: "Archive") -> "Archive":
        """This archive with the methods and data sets of a newer one, which replace those it has already.

        Raises
        ------
        DataError
            The two are of other protocols or folds.
        """
        if self.protocol != newer.protocol or self.folds != newer.folds:
            raise DataError(
                "the export already there is of another protocol or of other folds: export to another folder."
            )
        methods = {method.name: method for method in (*self.methods, *newer.methods)}
        chosen = {selection: self.chosen[selection] | newer.chosen[selection] for selection in SELECTIONS}
        times = self.times | newer.times
        kept = [by_fold for keyed in (*chosen.values(), times) for by_fold in keyed.values()]
        used = {record.run for by_fold in kept for record in by_fold.values()}
        runs = {run: noted for run, noted in (self.runs | newer.runs).items() if run in used}
        return Archive(
            self.protocol,
            list(methods.values()),
            self.parameters | newer.parameters,
            list(dict.fromkeys((*self.datasets, *newer.datasets))),
            self.folds,
            chosen,
            self.grid | newer.grid,
            times,
            runs,
        )

    def write(self, folder: Path) -> list[Path]:
        """Write the files; their paths."""
        settings = {
            "format": FORMAT,
            "protocol": self.protocol.as_json(),
            "datasets": self.datasets,
            "folds": list(self.folds),
            "methods": {
                method.name: {
                    "title": method.title,
                    "reconstruction": method.reconstruction,
                    "grid": list(method.axes),
                    "parameters": self.parameters.get(method.name, {}),
                }
                for method in self.methods
            },
        }
        tables = {
            "folds.csv": (_FOLD_COLUMNS, self._fold_rows()),
            "grid.csv": (_GRID_COLUMNS, self._grid_rows()),
            "times.csv": (_TIME_COLUMNS, self._time_rows()),
            "runs.csv": (_run_columns(self.runs), ({"run": run, **noted} for run, noted in self.runs.items())),
        }
        text = json.dumps(settings, indent=1)
        return [
            write_atomically(folder / "settings.json", text + "\n"),
            *(write_atomically(folder / name, _csv(columns, rows)) for name, (columns, rows) in tables.items()),
        ]

    def _keys(self) -> Iterable[Key]:
        return ((method.name, dataset) for method in self.methods for dataset in self.datasets)

    def _fold_rows(self) -> Iterable[dict[str, Any]]:
        for key in self._keys():
            for selection in SELECTIONS:
                for fold, record in self.chosen[selection].get(key, {}).items():
                    yield {
                        "selection": selection,
                        **_identity(key, fold),
                        **record.parameters,
                        **_metric_cells(record.test),
                        **_cost_cells(record),
                        **(record.terms or {}),
                        "seed": record.seed,
                        "run": record.run,
                    }

    def _grid_rows(self) -> Iterable[dict[str, Any]]:
        for key in self._keys():
            for point in self.grid.get(key, []):
                yield {
                    "method": key[0],
                    "dataset": key[1],
                    **dict(point.configuration),
                    "n_folds": point.n_folds,
                    "preferred": "yes" if point.preferred else "",
                    **_metric_cells(point.test),
                }

    def _time_rows(self) -> Iterable[dict[str, Any]]:
        for key in self._keys():
            for fold, record in self.times.get(key, {}).items():
                yield {**_identity(key, fold), **record.parameters, **_cost_cells(record), "run": record.run}

    @classmethod
    def read(cls, folder: Path) -> "Archive":
        """Read what :meth:`write` wrote.

        Raises
        ------
        DataError
            Naming the file and the line that cannot be read.
        """
        settings = _read_settings(folder / "settings.json")
        protocol = Protocol.from_json(settings["protocol"], str(folder))
        noted = settings["methods"]
        methods = [stored_method(name, described) for name, described in noted.items()]
        runs = {row.pop("run"): {k: v for k, v in row.items() if v} for _, row in _rows(folder / "runs.csv")}
        chosen: dict[Selection, dict[Key, dict[int, Record]]] = {selection: {} for selection in SELECTIONS}
        for where, row in _rows(folder / "folds.csv"):
            with _explained(where):
                record = _record(row, runs)
                chosen[row["selection"]].setdefault((record.method, record.dataset), {})[record.fold] = record  # type: ignore[index]
        times: dict[Key, dict[int, Record]] = {}
        for where, row in _rows(folder / "times.csv"):
            with _explained(where):
                record = _record(row, runs)
                times.setdefault((record.method, record.dataset), {})[record.fold] = record
        grid: dict[Key, list[GridPoint]] = {}
        for where, row in _rows(folder / "grid.csv"):
            with _explained(where):
                point = GridPoint(
                    tuple(_parameters(row).items()), int(row["n_folds"]), row["preferred"] == "yes", _metrics(row)
                )
                grid.setdefault((row["method"], row["dataset"]), []).append(point)
        return cls(
            protocol,
            methods,
            {name: described["parameters"] for name, described in noted.items()},
            settings["datasets"],
            tuple(settings["folds"]),
            chosen,
            grid,
            times,
            runs,
        )


def unseen_as_in_the_paper(dataset: str) -> Unseen:
    """What the paper must have done with test labels that no training row carries."""
    return "drop" if dataset in DROPPED_IN_THE_PAPER else "keep"


def export_results(run_folder: Path, folder: Path) -> list[Path]:
    """Reduce a results folder to a few small text files; see :mod:`pysldl.experiments.run.archive`.

    Where ``folder`` holds an export already, methods and data sets of this run are added to it, or replace their
    earlier lines; the protocol must be the same.

    Parameters
    ----------
    run_folder : Path
        The ``--out`` of `sldl reproduce`.
    folder : Path
        Made where it does not exist.

    Returns
    -------
    list of Path
        The files written.
    """
    archive = Archive.of_run(open_run(run_folder))
    if (folder / "settings.json").is_file():
        archive = Archive.read(folder).updated(archive)
    return archive.write(folder)


def read_export(
    folder: Path,
    selection: Selection = "nested",
    unseen: Callable[[str], Unseen] | None = None,
    metrics: Sequence[str] = PAPER_METRICS,
) -> Results:
    """The results in a folder of :func:`export_results`, equal to those of the run itself.

    Parameters
    ----------
    folder : Path
    selection, unseen, metrics
        As in :meth:`Archive.results`.
    """
    return Archive.read(folder).results(selection, unseen, metrics)


# Along the grid


def _along_the_grid(folds: ByFold) -> list[GridPoint]:
    """Every c_hat and number of steps at the preferred k, and every k at the preferred c_hat and number of steps."""
    everywhere = list(folds[min(folds)])

    def validation(configuration: Configuration) -> float:
        scores = (found[configuration].validation for found in folds.values())
        return fmean(0.0 if score is None else mean_metric(score["keep"]) for score in scores)

    preferred: Configuration = max(everywhere, key=validation)
    best = dict(preferred)
    points = []
    for configuration in everywhere:
        off = {axis for axis, value in configuration if value != best[axis]}
        if off <= {"c_hat", "n_steps"} or off <= {"k"}:
            means: Metrics = {
                unseen: {
                    name: round(100 * fmean(found[configuration].test[unseen][name] for found in folds.values()), 4)
                    for name in PAPER_METRICS
                }
                for unseen in TREATMENTS
            }
            points.append(GridPoint(configuration, len(folds), configuration == preferred, means))
    return points


def _curve(points: Sequence[GridPoint], parameter: str, metric: str, unseen: Unseen) -> list[tuple[float, float]]:
    """A metric over one parameter, the others as validation prefers them."""
    best = next((dict(point.configuration) for point in points if point.preferred), {})
    if parameter not in best:
        return []
    found = []
    for point in points:
        values = dict(point.configuration)
        if all(values[axis] == best[axis] for axis in best if axis != parameter):
            found.append((float(values[parameter]), point.test[unseen][metric]))
    return found


# Lines of the files

_DROPPED = {f"{metric} drop": metric for metric in PAPER_METRICS}
_COST = ("fit_seconds", "predict_seconds", "peak_mb")
_IDENTITY = ("method", "dataset", "fold", *AXES)
_FOLD_COLUMNS = ("selection", *_IDENTITY, *PAPER_METRICS, *_DROPPED, *_COST, *TERMS, "seed", "run")
_GRID_COLUMNS = ("method", "dataset", *AXES, "n_folds", "preferred", *PAPER_METRICS, *_DROPPED)
_TIME_COLUMNS = (*_IDENTITY, *_COST, "run")


def _run_columns(runs: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(["run", *(name for noted in runs.values() for name in noted)]))


def _identity(key: Key, fold: int) -> dict[str, Any]:
    return {"method": key[0], "dataset": key[1], "fold": fold}


def _metric_cells(test: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    kept, dropped = test["keep"], test["drop"]
    cells: dict[str, Any] = {metric: kept[metric] for metric in PAPER_METRICS}
    if dropped != kept:
        cells |= {column: dropped[metric] for column, metric in _DROPPED.items()}
    return cells


def _cost_cells(record: Record) -> dict[str, str]:
    return {
        "fit_seconds": f"{record.fit_seconds:.4f}",
        "predict_seconds": f"{record.predict_seconds:.4f}",
        "peak_mb": f"{record.peak_mb:.1f}",
    }


def _csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _rows(path: Path) -> Iterable[tuple[str, dict[str, str]]]:
    """Place and cells of each line."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}.") from error
    reader = csv.DictReader(io.StringIO(text, newline=""))
    for row in reader:
        yield f"{path}, line {reader.line_num}", row


@contextmanager
def _explained(where: str) -> Iterator[None]:
    """Turn what goes wrong in reading a line into one error that names it."""
    try:
        yield
    except (KeyError, ValueError, TypeError) as error:
        raise DataError(f"{where}: not a line of an export ({error}). Export the results again.") from error


def _parameters(row: Mapping[str, str]) -> dict[str, int]:
    return {axis: int(row[axis]) for axis in AXES if row[axis]}


def _metrics(row: Mapping[str, str]) -> Metrics:
    kept = {metric: float(row[metric]) for metric in PAPER_METRICS}
    dropped = {metric: float(row[column]) if row[column] else kept[metric] for column, metric in _DROPPED.items()}
    return {"keep": kept, "drop": dropped}


def _record(row: Mapping[str, str], runs: Mapping[str, Mapping[str, str]]) -> Record:
    """A line of ``folds.csv`` or ``times.csv``."""
    fit, predict, peak = (float(row[name]) for name in _COST)
    return Record(
        row["dataset"],
        row["method"],
        int(row["fold"]),
        _parameters(row),
        _metrics(row) if "P@1" in row else {"keep": {}, "drop": {}},
        None,
        fit,
        predict,
        peak,
        {name: float(row[name]) for name in TERMS} if row.get(TERMS[0]) else None,
        int(row.get("seed") or 0),
        dict(runs.get(row["run"], {})),
        row["run"],
    )


def _read_settings(path: Path) -> Any:
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        format_ = settings["format"]
    except OSError as error:
        raise DataError(f"{path.parent} holds no exported results: cannot read {path.name}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: export the results again.") from error
    if format_ != FORMAT:
        raise DataError(f"{path} has format {format_!r}, but this version reads {FORMAT}: export the results again.")
    return settings
