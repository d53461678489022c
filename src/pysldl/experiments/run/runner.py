"""Runs methods on data sets, fold by fold, and goes on where an earlier run stopped."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

from pysldl.datasets import Dataset, dataset_info, find_dataset, list_datasets, load_dataset, read_dataset
from pysldl.datasets.catalog import DATA_VARIABLE
from pysldl.exceptions import DataError, SLDLError, SLDLWarning
from pysldl.experiments.run.evaluation import Outcome, configurations, evaluate_method
from pysldl.experiments.run.fold_data import FoldData
from pysldl.experiments.run.folder import Failure, Run, RunFolder, open_run
from pysldl.experiments.run.journal import Journal, Record, locked
from pysldl.experiments.run.memory_usage import peak_mb, reset_peak_memory
from pysldl.experiments.run.merge import check_same_settings, merge_records
from pysldl.experiments.run.methods import Method
from pysldl.experiments.run.pool import Died, run_in_processes
from pysldl.experiments.run.protocol import Protocol
from pysldl.experiments.run.threads import one_thread

__all__ = ["Failure", "Run", "Source", "find_sources", "open_run", "run_experiment"]


@dataclass(frozen=True, slots=True)
class Source:
    """A data set by its name in the catalog, or by the path of a file that holds one."""

    name: str
    data_dir: Path | None = None

    def load(self) -> Dataset:
        """Read it, with term counts as tf-idf and texts as features."""
        path = Path(self.name)
        dataset = read_dataset(path) if path.is_file() else load_dataset(self.name, self.data_dir)
        if dataset.idf is not None:
            return dataset.tfidf()
        return dataset.vectorize() if dataset.X is None else dataset


def find_sources(names: Sequence[str] | None, data_dir: Path | None) -> tuple[list[Source], list[str]]:
    """Sources of data sets (by default the paper's), and the names of those that have no local copy.

    Raises
    ------
    DataError
        A name is neither in the catalog nor a file (the message offers the nearest names), or nothing was found.
    """
    if names is None:
        names = [info.name for info in list_datasets() if info.group == "paper"]
    found, missing = [], []
    for name in dict.fromkeys(names):
        if Path(name).is_file():
            found.append(Source(name))
        elif find_dataset(dataset_info(name).name, data_dir) is None:
            missing.append(dataset_info(name).name)
        else:
            found.append(Source(dataset_info(name).name, data_dir))
    if not found:
        raise DataError(
            f"no local copy of {', '.join(missing)}: set --data-dir or {DATA_VARIABLE} to the folder that holds them."
            if missing
            else "no data set was named: see `sldl datasets`."
        )
    return found, missing


@dataclass(frozen=True, slots=True)
class Step:
    """Configurations finished just now, or found finished."""

    dataset: str
    method: str
    fold: int
    n_configurations: int
    found: bool


@dataclass(frozen=True, slots=True)
class _Unit:
    """One fold of one data set: what a process works on at a time."""

    source: Source
    dataset: str
    fold: int
    methods: tuple[Method, ...]
    protocol: Protocol
    out: Path
    device: str | None
    run: str


def run_experiment(
    methods: Sequence[Method],
    sources: Sequence[Source],
    protocol: Protocol,
    out: Path,
    *,
    jobs: int = 1,
    device: str | None = None,
    folds: Sequence[int] | None = None,
    merge: Sequence[Path] = (),
    on_plan: Callable[[dict[str, float]], None] | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Run:
    """Run every method on every fold of every data set; what the folder already holds is not run again.

    Every process computes on one thread, so that results do not depend on ``jobs``.

    Parameters
    ----------
    methods, sources, protocol
        What to run.
    out : Path
        The results folder.
    jobs : int
        Processes.
    device : str, optional
        For methods that can use one, such as "cuda".
    folds : sequence of int, optional
        Run only these folds, counted from 0.
    merge : sequence of Path
        Results folders of the same settings: what is finished there and not here is taken over.
    on_plan : callable, optional
        Called once with the relative cost of a fold of each data set.
    on_step : callable, optional
        Called whenever configurations are finished.
    """
    if jobs < 1:
        raise DataError(f"jobs must be at least 1, but is {jobs}.")
    chosen = tuple(range(protocol.n_folds)) if folds is None else tuple(sorted(set(folds)))
    if not chosen or not 0 <= chosen[0] <= chosen[-1] < protocol.n_folds:
        raise DataError(f"folds to run must lie between 0 and {protocol.n_folds - 1}, but are {list(folds or ())}.")
    folder = RunFolder(out, protocol)
    able, failures = _able(methods)
    for other in merge:
        check_same_settings(folder, other, able)
    with locked(folder.lock, wait=False):
        run = folder.prepare(able, jobs, device)
        n_taken = 0
        names: dict[Source, str] = {}
        costs: dict[str, float] = {}
        for source in sources:
            dataset = source.load()
            if dataset.name in names.values():
                raise DataError(f"two data sets are named {dataset.name!r}: rename one of the files.")
            folder.folds(dataset)
            names[source] = dataset.name
            costs[dataset.name] = _relative_cost(dataset)
            n_taken += sum(merge_records(folder, other, able, dataset.name) for other in merge)
        folder.note_datasets(list(names.values()))
        if on_plan is not None:
            on_plan(costs)
        units = [
            _Unit(source, name, fold, tuple(able), protocol, out, device, run)
            # The longest first, so that no process is left alone with it at the end.
            for source, name in sorted(names.items(), key=lambda item: -costs[item[1]])
            for fold in chosen
        ]
        for unit, event in run_in_processes(_work, units, min(jobs, len(units))):
            if isinstance(event, Step) and on_step is not None:
                on_step(event)
            elif isinstance(event, Failure):
                failures.append(event)
            elif isinstance(event, Died):
                reason = f"its process ended with code {event.exit_code}: too little memory, most likely"
                failures.append(Failure(None, unit.dataset, unit.fold, reason))
            elif isinstance(event, str):
                warnings.warn(event, SLDLWarning, stacklevel=2)
    return Run(folder, list(names.values()), able, chosen, failures, n_taken)


def _able(methods: Sequence[Method]) -> tuple[list[Method], list[Failure]]:
    """The methods that can be made here; others may need a library that is not installed."""
    able, failures = [], []
    for method in methods:
        try:
            method.make()
        except Exception as error:
            failures.append(Failure(method.name, None, None, _reason(error)))
        else:
            able.append(method)
    return able, failures


def _work(unit: _Unit) -> Iterator[Step | Failure | str]:
    """Run one unit; what goes wrong is an event like the others."""
    try:
        yield from _run_unit(unit)
    except Exception as error:
        yield Failure(None, unit.dataset, unit.fold, _reason(error))


def _run_unit(unit: _Unit) -> Iterator[Step | Failure | str]:
    """Steps and failures of one unit, and warnings as text."""
    folder = RunFolder(unit.out, unit.protocol)
    # A process that an earlier run left behind may still be ending.
    with locked(folder.journal_lock(unit.dataset, unit.fold), wait=True):
        journal = Journal(folder.journal(unit.dataset, unit.fold))
        if journal.damaged:
            lines = ", ".join(map(str, journal.damaged))
            yield f"{journal.path}: damaged in line {lines}; what was recorded there is run again."
        data = None
        for method in unit.methods:
            wanted = configurations(method, unit.protocol)
            done = {record.configuration for record in journal.records if record.method == method.name}
            if found := len(done.intersection(wanted)):
                yield Step(unit.dataset, method.name, unit.fold, found, found=True)
            if done.issuperset(wanted):
                continue
            try:
                data = data or _fold_data(unit, folder)
                reset_peak_memory()
                for outcomes in _undisturbed(evaluate_method(method, data, unit.protocol, done, unit.device)):
                    fresh = [outcome for outcome in outcomes if outcome.configuration not in done]
                    journal.append(
                        Record(
                            unit.dataset,
                            method.name,
                            unit.fold,
                            dict(outcome.configuration),
                            dict(outcome.test.items()),
                            None if outcome.validation is None else dict(outcome.validation.items()),
                            round(outcome.fit_seconds, 4),
                            round(outcome.predict_seconds, 4),
                            round(peak_mb(), 1),
                            outcome.terms,
                            unit.protocol.seed,
                            folder.versions,
                            unit.run,
                        )
                        for outcome in fresh
                    )
                    yield Step(unit.dataset, method.name, unit.fold, len(fresh), found=False)
            except Exception as error:
                yield Failure(method.name, unit.dataset, unit.fold, _reason(error))


def _undisturbed(groups: Iterator[list[Outcome]]) -> Iterator[list[Outcome]]:
    """Compute each group on one thread, without warnings of what is part of the protocol (unseen labels, few rows)."""
    while True:
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", SLDLWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)  # the number of steps is chosen, not reached
            group = next(groups, None)
        if group is None:
            return
        yield group


@lru_cache(maxsize=1)
def _load(source: Source) -> Dataset:
    return source.load()


def _fold_data(unit: _Unit, folder: RunFolder) -> FoldData:
    dataset = _load(unit.source)
    return FoldData(dataset, unit.protocol.fold(folder.folds(dataset), unit.fold))


def _relative_cost(dataset: Dataset) -> float:
    """A fold's work, roughly: the embedding grows with the labels squared, the search with the rows squared."""
    return 1000.0 * dataset.n_labels**2 + 0.2 * dataset.n_samples**2


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, SLDLError) and text else f"{type(error).__name__}: {text}"
