"""Export a results folder to small text files for a repository, and read them back for tables and figures.

=================  ======================================================================================
``settings.json``  protocol, data sets, folds, and the title, grid and parameters of every method
``folds.csv``      a line for each method, data set and fold: the configuration chosen, metrics, seconds
``grid.csv``       means over the folds along the grid, through the configuration that validation prefers
``times.csv``      seconds and memory of each fold with the largest c_hat, number of steps and k
``runs.csv``       date, versions, processor and thread settings of each run that a line refers to
=================  ======================================================================================

Metrics are in [0, 1] in ``folds.csv`` and in percent in ``grid.csv``. A column such as ``P@1 drop`` has the metric with
test labels that no training row carries taken out of the truth; it is empty if that changes nothing.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from pysldl._utils.files import write_atomically
from pysldl.datasets.files import csv_rows, write_csv_rows
from pysldl.exceptions import DataError
from pysldl.experiments.run.evaluation import PAPER_METRICS, Configuration, Metrics, configurations, mean_metric
from pysldl.experiments.run.methods import ABLATION, AXES, REFERENCE, Method, stored_method
from pysldl.experiments.run.protocol import Protocol
from pysldl.experiments.run.run_folder import Record, Run, open_run
from pysldl.experiments.stats.error_bound import mean_error_bound_terms
from pysldl.experiments.stats.results import FoldRecord, Measurements, Selection, Unseen

FORMAT = 1
CURVE_METRICS = ("P@1", "P@5", "PSP@5")
# The paper's propensity-scored figures for this set can only be reached without unseen labels.
DROPPED_IN_THE_PAPER = ("stackex-coffee",)
SELECTIONS: tuple[Selection, ...] = ("nested", "as-published")

DROPPED = {f"{metric} drop": metric for metric in PAPER_METRICS}
COSTS = {"fit_seconds": ".4f", "predict_seconds": ".4f", "peak_mb": ".1f"}
TERMS = ("embedding_error", "regression_error", "b")
TIME_COLUMNS = ("method", "dataset", "fold", *AXES, *COSTS, "run")
GRID_COLUMNS = ("method", "dataset", *AXES, "n_folds", "preferred", *PAPER_METRICS, *DROPPED)
FOLD_COLUMNS = (
    *("selection", "method", "dataset", "fold", *AXES),
    *(*PAPER_METRICS, *DROPPED, *COSTS, *TERMS, "seed", "run"),
)

Key = tuple[str, str]  # method and data set
Parsed = TypeVar("Parsed")
ByFold = dict[int, dict[Configuration, Record]]


def unseen_as_in_the_paper(dataset: str) -> Unseen:
    """Return what the paper must have done with test labels that no training row carries."""
    return "drop" if dataset in DROPPED_IN_THE_PAPER else "keep"


@dataclass(frozen=True)
class GridPoint:
    """Means over the folds of one configuration, in percent; ``preferred`` by the validation rows of all folds."""

    configuration: Configuration
    n_folds: int
    preferred: bool
    test: Metrics


@dataclass(frozen=True)
class Archive:
    """What an export keeps of a run.

    A method with a single configuration has the same records for both selections, and no grid.
    """

    protocol: Protocol
    methods: list[Method]
    parameters: dict[str, Any]  # by name of the method
    datasets: list[str]
    folds: tuple[int, ...]  # that were run
    chosen: dict[Selection, dict[Key, list[Record]]] = field(default_factory=lambda: {s: {} for s in SELECTIONS})
    grid: dict[Key, list[GridPoint]] = field(default_factory=dict)  # of methods with all folds
    times: dict[Key, list[Record]] = field(default_factory=dict)  # with the largest configuration of the grid
    runs: dict[str, dict[str, str]] = field(default_factory=dict)  # environments by run id

    @classmethod
    def of_run(cls, run: Run) -> "Archive":
        """Reduce the records of a run; only folds of which every configuration is finished count."""
        noted = run.folder.settings() or {}
        parameters = {method.name: noted.get("methods", {}).get(method.name, {}) for method in run.methods}
        protocol = run.folder.protocol
        archive = cls(protocol, run.methods, parameters, run.datasets, run.folds, runs=noted.get("runs", {}))
        for dataset in run.datasets:
            of_dataset = [record for record in run.folder.records(dataset) if record.fold in run.folds]
            for method in run.methods:
                if folds := finished_folds(of_dataset, method, protocol):
                    archive._add((method.name, dataset), method.axes, folds)
        return archive

    def _add(self, key: Key, axes: Sequence[str], folds: ByFold) -> None:
        for selection in SELECTIONS:
            self.chosen[selection][key] = select_configurations(folds, selection, unseen_as_in_the_paper(key[1]))
        largest = tuple((axis, max(self.protocol.values(axis))) for axis in axes)
        self.times[key] = [found[largest] for found in folds.values()]
        if axes and len(folds) == len(self.folds):
            self.grid[key] = _along_the_grid(folds)

    def measurements(
        self,
        selection: Selection = "nested",
        unseen: Callable[[str], Unseen] = unseen_as_in_the_paper,
        metrics: Sequence[str] = PAPER_METRICS,
    ) -> Measurements:
        """Return what tables and figures show of some metrics; configurations are chosen by all eight.

        ``unseen`` maps the name of a data set to what becomes of test labels that no training row carries.
        """
        n_folds = len(self.folds)
        records, timed, terms = [], [], []
        curves: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
        for dataset in self.datasets:
            mode = unseen(dataset)
            for method in self.methods:
                key = (method.name, dataset)
                chosen = self.chosen[selection].get(key, [])
                records += [_fold_record(record, method.title, selection, mode, metrics) for record in chosen]
                largest = self.times.get(key, [])
                if len(largest) == n_folds:
                    timed += [_fold_record(record, method.title, selection, mode, ()) for record in largest]
                if len(chosen) < n_folds:
                    continue
                if of_folds := [record.terms for record in chosen if record.terms is not None]:
                    terms.append(mean_error_bound_terms(dataset, method.title, of_folds))
                if method.title == REFERENCE:
                    for axis, metric, curve in _curves(self.grid.get(key, []), mode):
                        curves.setdefault((axis, metric), {})[dataset] = curve
        present = {record.method for record in records}
        variants = [title for title in ABLATION if title in present]
        shown_as = {method.title: method.shown_as for method in self.methods if method.shown_as != method.title}
        return Measurements(records, n_folds, variants, terms, curves, shown_as, self.protocol.n_folds, timed)

    def only(self, methods: Sequence[str] | None = None, datasets: Sequence[str] | None = None) -> "Archive":
        """Return this archive with some methods, by name or title, and some data sets, in the order given."""
        by_name = {key.lower(): method for method in self.methods for key in (method.title, method.name)}
        for what, wanted, known in (("method", methods, by_name), ("data set", datasets, self.datasets)):
            for name in wanted or ():
                if (name.lower() if what == "method" else name) not in known:
                    raise DataError(f"there are no results of {what} {name!r}: choose from {', '.join(known)}.")
        chosen = self.methods if methods is None else [by_name[name.lower()] for name in dict.fromkeys(methods)]
        return replace(self, methods=chosen, datasets=self.datasets if datasets is None else list(datasets))

    def updated(self, newer: "Archive") -> "Archive":
        """Return this archive with the methods and data sets of a newer one, which replace those it has already."""
        if self.protocol != newer.protocol or self.folds != newer.folds:
            raise DataError("the export there is of another protocol or of other folds: export to another folder.")
        chosen = {selection: self.chosen[selection] | newer.chosen[selection] for selection in SELECTIONS}
        times = self.times | newer.times
        used = {r.run for keyed in (*chosen.values(), times) for records in keyed.values() for r in records}
        return replace(
            self,
            methods=list({method.name: method for method in (*self.methods, *newer.methods)}.values()),
            parameters=self.parameters | newer.parameters,
            datasets=list(dict.fromkeys((*self.datasets, *newer.datasets))),
            chosen=chosen,
            grid=self.grid | newer.grid,
            times=times,
            runs={run: noted for run, noted in (self.runs | newer.runs).items() if run in used},
        )

    def write(self, folder: Path) -> list[Path]:
        """Write the files and return their paths."""
        settings = {
            "format": FORMAT,
            "protocol": self.protocol.as_json(),
            "datasets": self.datasets,
            "folds": list(self.folds),
            "methods": {
                method.name: method.description() | {"parameters": self.parameters.get(method.name, {})}
                for method in self.methods
            },
        }
        runs = [{"run": run, **noted} for run, noted in self.runs.items()]
        times = (_cells(record) for key in self._keys() for record in self.times.get(key, []))
        return [
            write_atomically(folder / "settings.json", json.dumps(settings, indent=1) + "\n"),
            write_csv_rows(folder / "folds.csv", FOLD_COLUMNS, self._fold_rows()),
            write_csv_rows(folder / "grid.csv", GRID_COLUMNS, self._grid_rows()),
            write_csv_rows(folder / "times.csv", TIME_COLUMNS, times),
            write_csv_rows(
                folder / "runs.csv", list(dict.fromkeys(["run", *(name for row in runs for name in row)])), runs
            ),
        ]

    def _keys(self) -> Iterable[Key]:
        return ((method.name, dataset) for method in self.methods for dataset in self.datasets)

    def _fold_rows(self) -> Iterator[dict[str, Any]]:
        with_grid = {method.name for method in self.methods if method.axes}
        for key in self._keys():
            for selection in SELECTIONS if key[0] in with_grid else SELECTIONS[:1]:
                for record in self.chosen[selection].get(key, []):
                    yield {"selection": selection, **_cells(record), **_metric_cells(record.test)}

    def _grid_rows(self) -> Iterator[dict[str, Any]]:
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

    @classmethod
    def read(cls, folder: Path) -> "Archive":
        """Read what :meth:`write` wrote; a :class:`DataError` names the file and the line that cannot be read."""
        settings = _read_settings(folder / "settings.json")
        noted = settings["methods"]
        archive = cls(
            Protocol.from_json(settings["protocol"], str(folder)),
            [stored_method(name, described) for name, described in noted.items()],
            {name: described["parameters"] for name, described in noted.items()},
            settings["datasets"],
            tuple(settings["folds"]),
            runs={row.pop("run"): {k: v for k, v in row.items() if v} for _, row in csv_rows(folder / "runs.csv")},
        )
        for selection, record in _parsed(folder / "folds.csv", FOLD_COLUMNS, archive._chosen_record):
            archive.chosen[selection].setdefault((record.method, record.dataset), []).append(record)
        for record in _parsed(folder / "times.csv", TIME_COLUMNS, archive._record):
            archive.times.setdefault((record.method, record.dataset), []).append(record)
        for key, point in _parsed(folder / "grid.csv", GRID_COLUMNS, _grid_point):
            archive.grid.setdefault(key, []).append(point)
        with_grid = {method.name for method in archive.methods if method.axes}
        only = {key: records for key, records in archive.chosen["nested"].items() if key[0] not in with_grid}
        archive.chosen["as-published"].update(only)
        return archive

    def _chosen_record(self, row: Mapping[str, str]) -> tuple[Selection, Record]:
        selection = SELECTIONS[SELECTIONS.index(row["selection"])]
        return selection, replace(self._record(row), test=_metrics(row, highest=1))

    def _record(self, row: Mapping[str, str]) -> Record:
        """A line of ``folds.csv`` or ``times.csv``, without its metrics."""
        fit, predict, peak = (float(row[name]) for name in COSTS)
        terms = {name: float(row[name]) for name in TERMS} if row.get(TERMS[0]) else None
        seed, versions = int(row.get("seed") or 0), dict(self.runs.get(row["run"], {}))
        identity = (row["dataset"], row["method"], int(row["fold"]), _parameters(row))
        none: Metrics = {"keep": {}, "drop": {}}
        return Record(*identity, none, None, fit, predict, peak, terms, seed, versions, row["run"])


def export_results(run_folder: Path, folder: Path) -> list[Path]:
    """Export a results folder (``--out`` of `sldl reproduce`) to a few small text files; returns their paths.

    If ``folder`` holds an export already, methods and data sets of this run are added to it, or replace their
    earlier lines; the protocol must be the same.
    """
    archive = Archive.of_run(open_run(run_folder))
    if (folder / "settings.json").is_file():
        archive = Archive.read(folder).updated(archive)
    return archive.write(folder)


# From all configurations to one per fold


def finished_folds(records: Iterable[Record], method: Method, protocol: Protocol) -> ByFold:
    """Return the records of a method on one data set, for the folds of which every configuration is finished."""
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


def select_configurations(folds: ByFold, selection: Selection, unseen: Unseen) -> list[Record]:
    """Choose the configuration of every fold by the mean of the eight metrics.

    Ties go to the smaller c_hat, then to fewer steps, then to the smaller k.

    ``"nested"`` looks at the validation rows of each fold. ``"as-published"`` takes, for all folds, the configuration
    with the best mean over the test folds, which flatters it.
    """
    if selection == "nested":
        return [max(found.values(), key=_validation_score) for found in folds.values()]
    everywhere = next(iter(folds.values()))
    best = max(everywhere, key=lambda c: fmean(mean_metric(found[c].test[unseen]) for found in folds.values()))
    return [found[best] for found in folds.values()]


def _validation_score(record: Record) -> float:
    return 0.0 if record.validation is None else mean_metric(record.validation["keep"])


def _fold_record(r: Record, title: str, selection: Selection, unseen: Unseen, metrics: Sequence[str]) -> FoldRecord:
    """A chosen record in the form of tables and statistics, under the name that tables use."""
    shown = {metric: r.test[unseen][metric] for metric in metrics}
    return FoldRecord(r.dataset, title, r.fold, r.parameters, shown, r.fit_seconds, selection, unseen)


def _along_the_grid(folds: ByFold) -> list[GridPoint]:
    """Every c_hat and number of steps at the preferred k, and every k at the preferred c_hat and number of steps."""
    everywhere = list(next(iter(folds.values())))
    preferred = max(everywhere, key=lambda c: fmean(_validation_score(found[c]) for found in folds.values()))
    best = dict(preferred)
    points = []
    for configuration in everywhere:
        off = {axis for axis, value in configuration if value != best[axis]}
        if off <= {"c_hat", "n_steps"} or off <= {"k"}:
            tests = [found[configuration].test for found in folds.values()]
            means = {
                unseen: {name: round(100 * fmean(test[unseen][name] for test in tests), 4) for name in PAPER_METRICS}
                for unseen in ("keep", "drop")
            }
            points.append(GridPoint(configuration, len(folds), configuration == preferred, means))
    return points


def _curves(points: Sequence[GridPoint], unseen: Unseen) -> Iterator[tuple[str, str, list[tuple[float, float]]]]:
    """Each metric over each axis of the grid, the other axes as validation prefers them."""
    best = next((dict(point.configuration) for point in points if point.preferred), {})
    for axis in best:
        others = {name: value for name, value in best.items() if name != axis}
        for metric in CURVE_METRICS:
            values = [(dict(point.configuration), point.test[unseen][metric]) for point in points]
            yield axis, metric, [(float(at[axis]), score) for at, score in values if others.items() <= at.items()]


# Lines of the files


def _cells(record: Record) -> dict[str, Any]:
    return {
        "method": record.method,
        "dataset": record.dataset,
        "fold": record.fold,
        **record.parameters,
        **{name: format(getattr(record, name), decimals) for name, decimals in COSTS.items()},
        **(record.terms or {}),
        "seed": record.seed,
        "run": record.run,
    }


def _metric_cells(test: Metrics) -> dict[str, float]:
    dropped = {column: test["drop"][metric] for column, metric in DROPPED.items()}
    return test["keep"] | (dropped if test["drop"] != test["keep"] else {})


def _parsed(path: Path, columns: Sequence[str], parse: Callable[[dict[str, str]], Parsed]) -> Iterator[Parsed]:
    """The rows of a file; what goes wrong in parsing one becomes an error that names its line."""
    for line, row in csv_rows(path, columns):
        try:
            yield parse(row)
        except ValueError as error:
            place = f"{path}, line {line}"
            raise DataError(f"{place}: not a line of an export ({error}). Export the results again.") from error


def _grid_point(row: Mapping[str, str]) -> tuple[Key, GridPoint]:
    configuration = tuple(_parameters(row).items())
    point = GridPoint(configuration, int(row["n_folds"]), row["preferred"] == "yes", _metrics(row, highest=100))
    return (row["method"], row["dataset"]), point


def _parameters(row: Mapping[str, str]) -> dict[str, int]:
    return {axis: int(row[axis]) for axis in AXES if row[axis]}


def _metrics(row: Mapping[str, str], highest: float) -> Metrics:
    kept = {metric: float(row[metric]) for metric in PAPER_METRICS}
    dropped = {metric: float(row[column]) if row[column] else kept[metric] for column, metric in DROPPED.items()}
    for name, value in (*kept.items(), *dropped.items()):
        if not 0 <= value <= highest:
            raise ValueError(f"{name} is {value}; it must lie between 0 and {highest:g}")
    return {"keep": kept, "drop": dropped}


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
