"""Run methods on data sets, fold by fold, resuming where an earlier run stopped, in processes that may die."""

import multiprocessing
import os
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, TypeVar

from sklearn.exceptions import ConvergenceWarning

from pysldl.datasets import Dataset, dataset_info, find_dataset, list_datasets, load_dataset, read_dataset
from pysldl.datasets.catalog import DATA_VARIABLE
from pysldl.exceptions import DataError, SLDLError, SLDLWarning
from pysldl.experiments.run.environment import one_thread, peak_mb, reset_peak_memory
from pysldl.experiments.run.evaluation import ConfigurationResult, FoldData, configurations, evaluate_method
from pysldl.experiments.run.methods import Method
from pysldl.experiments.run.protocol import Protocol
from pysldl.experiments.run.run_folder import (
    Failure,
    Journal,
    Record,
    Run,
    RunFolder,
    locked,
    merge_into,
    require_mergeable,
)

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Source:
    """A data set by its name in the catalog, or by the path of a file that holds one."""

    name: str
    data_dir: Path | None = None

    def load(self) -> Dataset:
        """Read the data set, with term counts weighted by tf-idf and texts vectorized."""
        path = Path(self.name)
        dataset = read_dataset(path) if path.is_file() else load_dataset(self.name, self.data_dir)
        if dataset.idf is not None:
            return dataset.tfidf()
        return dataset.vectorize() if dataset.X is None else dataset


def find_sources(names: Sequence[str] | None, data_dir: Path | None) -> tuple[list[Source], list[str]]:
    """Return the sources of data sets (by default the paper's), and the names of those that have no local copy."""
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
    if not found and missing:
        advice = f"set --data-dir or {DATA_VARIABLE} to the folder that holds them"
        raise DataError(f"no local copy of {', '.join(missing)}: {advice}.")
    if not found:
        raise DataError("no data set was named: see `sldl datasets`.")
    return found, missing


@dataclass(frozen=True, slots=True)
class RunStep:
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
    versions: dict[str, str]


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
    on_step: Callable[[RunStep], None] | None = None,
) -> Run:
    """Run every method on every fold of every data set; what the folder ``out`` already holds is not run again.

    Each of the ``jobs`` processes computes on one thread, so that results do not depend on their number. ``device`` is
    for methods that can use one, ``folds`` restricts the folds, and from the results folders in ``merge``, which must
    have the same settings, finished work is copied. ``on_plan`` is called once with the relative cost of a fold of each
    data set, ``on_step`` whenever configurations are finished.
    """
    if jobs < 1:
        raise DataError(f"jobs must be at least 1, but is {jobs}.")
    chosen = _checked_folds(folds, protocol.n_folds)
    folder = RunFolder(out, protocol)
    able, failures = _available(methods)
    settings = folder.new_settings(able, jobs, device)
    (run,) = settings["runs"]
    for other in merge:
        require_mergeable(other, settings)
    with locked(folder.lock, wait=False):
        folder.require_continuable(settings)
        folder.add_settings(settings)
        costs = _prepare_data(folder, sources)
        names = dict(zip(costs, sources, strict=True))
        folder.add_settings({**settings, "datasets": list(names)})
        n_merged = sum(merge_into(folder, other) for other in merge)
        if on_plan is not None:
            on_plan(costs)
        # The longest first, so that no process is left alone with it at the end.
        order = [(name, fold) for name in sorted(names, key=lambda name: -costs[name]) for fold in chosen]
        common = (tuple(able), protocol, out, device, run, settings["versions"])
        units = [_Unit(names[name], name, fold, *common) for name, fold in order]
        failures += _run_units(units, jobs, on_step)
    return Run(folder, list(names), able, chosen, failures, n_merged)


def _checked_folds(folds: Sequence[int] | None, n_folds: int) -> tuple[int, ...]:
    chosen = tuple(range(n_folds)) if folds is None else tuple(sorted(set(folds)))
    if not chosen or not 0 <= chosen[0] <= chosen[-1] < n_folds:
        raise DataError(f"folds to run must lie between 0 and {n_folds - 1}, but are {list(folds or ())}.")
    return chosen


def _available(methods: Sequence[Method]) -> tuple[list[Method], list[Failure]]:
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


def _prepare_data(folder: RunFolder, sources: Sequence[Source]) -> dict[str, float]:
    """Draw the folds of every data set, and estimate what one of them costs, by name.

    The embedding grows with the labels squared and the search with the rows squared, roughly.
    """
    costs: dict[str, float] = {}
    for source in sources:
        dataset = source.load()
        if dataset.name in costs:
            raise DataError(f"two data sets are named {dataset.name!r}: rename one of the files.")
        folder.folds(dataset)
        costs[dataset.name] = 1000.0 * dataset.n_labels**2 + 0.2 * dataset.n_samples**2
    return costs


def _run_units(units: Sequence[_Unit], jobs: int, on_step: Callable[[RunStep], None] | None) -> list[Failure]:
    """Run all units in processes; warnings are passed on, and failures returned."""
    failures = []
    for unit, event in run_in_processes(_work, units, min(jobs, len(units))):
        if isinstance(event, RunStep) and on_step is not None:
            on_step(event)
        elif isinstance(event, Failure):
            failures.append(event)
        elif isinstance(event, Died):
            reason = f"its process ended with code {event.exit_code}: too little memory, most likely"
            failures.append(Failure(None, unit.dataset, unit.fold, reason))
        elif isinstance(event, str):
            warnings.warn(event, SLDLWarning, stacklevel=2)
    return failures


def _work(unit: _Unit) -> Iterator[RunStep | Failure | str]:
    """Run one unit: steps, failures, and warnings as text; what goes wrong is an event like the others."""
    try:
        folder = RunFolder(unit.out, unit.protocol)
        # A process that an earlier run left behind may still be ending.
        with locked(folder.journal_lock(unit.dataset, unit.fold), wait=True):
            journal = Journal(folder.journal(unit.dataset, unit.fold))
            if journal.damaged:
                lines = ", ".join(map(str, journal.damaged))
                yield f"{journal.path}: damaged in line {lines}; what was recorded there is run again."
            data = cache(partial(_fold_data, unit, folder))  # read where a method needs it, and shared by all
            for method in unit.methods:
                yield from _run_method(unit, method, journal, data)
    except Exception as error:
        yield Failure(None, unit.dataset, unit.fold, _reason(error))


def _run_method(
    unit: _Unit, method: Method, journal: Journal, data: Callable[[], FoldData]
) -> Iterator[RunStep | Failure]:
    """Run what the journal lacks of one method, and append it."""
    wanted = configurations(method, unit.protocol)
    done = {record.configuration for record in journal.records if record.method == method.name}
    if found := len(done.intersection(wanted)):
        yield RunStep(unit.dataset, method.name, unit.fold, found, found=True)
    if done.issuperset(wanted):
        return
    try:
        fold = data()
        reset_peak_memory()
        for results in _undisturbed(evaluate_method(method, fold, unit.protocol, done, unit.device)):
            fresh = [result for result in results if result.configuration not in done]
            journal.append(_record(unit, method, result) for result in fresh)
            yield RunStep(unit.dataset, method.name, unit.fold, len(fresh), found=False)
    except Exception as error:
        yield Failure(method.name, unit.dataset, unit.fold, _reason(error))


def _record(unit: _Unit, method: Method, result: ConfigurationResult) -> Record:
    identity = (unit.dataset, method.name, unit.fold, dict(result.configuration))
    costs = (round(result.fit_seconds, 4), round(result.predict_seconds, 4), round(peak_mb(), 1))
    origin = (unit.protocol.seed, unit.versions, unit.run)
    return Record(*identity, result.test, result.validation, *costs, result.terms, *origin)


def _undisturbed(groups: Iterator[list[ConfigurationResult]]) -> Iterator[list[ConfigurationResult]]:
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


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, SLDLError) and text else f"{type(error).__name__}: {text}"


@dataclass(frozen=True)
class Died:
    """A process ended in the middle of an item: out of memory, most likely."""

    exit_code: int | None


@dataclass(frozen=True)
class _Finished:
    """An item is done."""


def run_in_processes(
    work: Callable[[Item], Iterable[Any]], items: Iterable[Item], n_processes: int
) -> Iterator[tuple[Item, Any]]:
    """Run the generator ``work(item)`` for every item and yield ``(item, event)`` for each event as it comes.

    ``work`` is a function of a module; an exception that escapes it ends its process. With one process, everything
    happens in this one. A process that dies yields :class:`Died` for its item and is replaced. When this process dies,
    the others end too.
    """
    queue = deque(items)
    if n_processes == 1:
        for item in queue:
            for event in work(item):
                yield item, event
        return
    workers: dict[Connection, tuple[SpawnProcess, Item]] = {}
    try:
        while queue or workers:
            while queue and len(workers) < n_processes:
                connection, process = _start(work)
                workers[connection] = process, _send_next(connection, queue)
            for ready in wait(list(workers)):
                assert isinstance(ready, Connection)
                process, item = workers[ready]
                try:
                    event = ready.recv()
                except (EOFError, ConnectionResetError):
                    process.join()
                    del workers[ready]
                    yield item, Died(process.exitcode)
                    continue
                if not isinstance(event, _Finished):
                    yield item, event
                elif queue:
                    workers[ready] = process, _send_next(ready, queue)
                else:
                    ready.close()
                    process.join()
                    del workers[ready]
    finally:
        for process, _ in workers.values():
            process.terminate()


def _start(work: Callable[[Any], Iterable[Any]]) -> tuple[Connection, SpawnProcess]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(work, theirs), daemon=True)
    process.start()
    theirs.close()
    return ours, process


def _send_next(connection: Connection, queue: "deque[Item]") -> Item:
    item = queue.popleft()
    connection.send(item)
    return item


def _serve(work: Callable[[Any], Iterable[Any]], connection: Connection) -> None:
    """Take items until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            item = connection.recv()
        except EOFError:
            return
        for event in work(item):
            connection.send(event)
        connection.send(_Finished())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
