"""The results folder of a run: settings, folds and records; a later run resumes it or merges it into another.

========================================  ==========================================================
``run.json``                              protocol, versions, parameters of every method, the runs
``folds/DATASET.json``                    the fold of every row
``records/DATASET/fold-03.jsonl``         one line per configuration (:class:`Journal`)
========================================  ==========================================================

A journal is a text file with one JSON object per line, each with a checksum. It is only ever appended to, and synced
after every append, so that a process killed at any moment loses at most the line it was writing.
"""

import json
import math
import os
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pysldl._utils.files import file_lock, is_leftover, make_folder, sync_folder, write_atomically
from pysldl.datasets import Dataset
from pysldl.exceptions import DataError, SLDLWarning
from pysldl.experiments.run.environment import environment, library_versions, run_id
from pysldl.experiments.run.evaluation import Configuration, Metrics
from pysldl.experiments.run.methods import Method, stored_method
from pysldl.experiments.run.protocol import Protocol, fingerprint

FORMAT = 2


@dataclass(frozen=True, slots=True)
class Record:
    """What one configuration of one method did on one fold of one data set."""

    dataset: str  # by its name in the catalog
    method: str  # by its name in the registry
    fold: int  # counted from 0
    parameters: dict[str, int]  # the configuration: its values of c_hat, n_steps and k
    test: Metrics  # on the test rows, in [0, 1]
    validation: Metrics | None  # mean over the validation parts; None for a method with a single configuration
    fit_seconds: float  # wall-clock time of this configuration on its own
    predict_seconds: float
    peak_mb: float  # highest resident memory of the process while it ran, in MiB
    terms: dict[str, float] | None  # of the error bound
    seed: int
    versions: dict[str, str]
    run: str = ""  # under this id ``run.json`` has date, versions, processor and thread settings

    @property
    def configuration(self) -> Configuration:
        """The parameters in a form that can be compared and looked up."""
        return tuple(self.parameters.items())

    def to_line(self) -> str:
        """Return the record as one line of JSON with its checksum."""
        body = json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)
        return f'{{"record": {body}, "crc32": "{_checksum(body)}"}}\n'

    @classmethod
    def from_line(cls, line: str) -> "Record":
        """Read a line of :meth:`to_line`; ValueError if it is damaged."""
        found = json.loads(line)
        body = line[len('{"record": ') : line.rindex(', "crc32": ')]
        if not line.endswith("\n") or found["crc32"] != _checksum(body):
            raise ValueError("the line is cut short, or its checksum differs")
        return cls(**found["record"])


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"


def read_journal(path: Path) -> tuple[list[Record], list[int]]:
    """Return the whole records of a journal, and the numbers, from 1, of the lines that are damaged.

    A configuration recorded twice keeps its first record.
    """
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}.") from error
    records: dict[tuple[str, Configuration], Record] = {}
    damaged = []
    for number, line in enumerate(lines, start=1):
        try:
            record = Record.from_line(line.decode())
        except (ValueError, KeyError, TypeError):
            damaged.append(number)
        else:
            records.setdefault((record.method, record.configuration), record)
    return list(records.values()), damaged


class Journal:
    """The records of one fold of one data set, held by one process at a time.

    Opening it makes the file if there is none, and drops damaged lines, whose numbers are then in ``damaged``, so
    that what is appended follows whole lines only.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records, self.damaged = read_journal(path)
        if self.damaged:
            write_atomically(path, "".join(record.to_line() for record in self.records))
        self.append([])

    def append(self, records: Iterable[Record]) -> None:
        """Write records and return once they are on disk."""
        try:
            make_folder(self.path.parent)
            is_new = not self.path.exists()
            with self.path.open("ab") as file:
                file.write("".join(record.to_line() for record in records).encode())
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                sync_folder(self.path.parent)
        except OSError as error:
            raise DataError(f"cannot write {self.path}: {error.strerror or error}.") from error


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[None]:
    """Hold the lock file ``path``; without ``wait``, a lock that another process holds is an error."""
    with ExitStack() as held:
        try:
            make_folder(path.parent)
            held.enter_context(file_lock(path, math.inf if wait else 0.0))
        except TimeoutError:
            raise DataError(f"another run is writing to {path.parent}: wait for it, or choose another --out.") from None
        except OSError as error:
            raise DataError(f"cannot write {path.parent}: {error.strerror or error}. Choose another --out.") from error
        yield


class RunFolder:
    """One results folder, which may be new; results of another protocol or of other versions are refused."""

    def __init__(self, path: Path, protocol: Protocol) -> None:
        self.path = path
        self.protocol = protocol

    @property
    def lock(self) -> Path:
        """Lock file of the whole folder."""
        return self.path / ".lock"

    def journal(self, dataset: str, fold: int) -> Path:
        """Path of the records of one fold."""
        return self.path / "records" / dataset / f"fold-{fold:02d}.jsonl"

    def journal_lock(self, dataset: str, fold: int) -> Path:
        """Lock file of one fold."""
        return self.path / "records" / dataset / f".fold-{fold:02d}.lock"

    def new_settings(self, methods: Sequence[Method], jobs: int = 1, device: str | None = None) -> dict[str, Any]:
        """Return what ``run.json`` says of a run that begins now; its id is the only key of ``runs``."""
        here = environment(jobs, device)
        return {
            "format": FORMAT,
            "protocol": self.protocol.as_json(),
            "versions": library_versions(),
            "methods": {method.name: method.parameters() for method in methods},
            "shown": {method.name: method.description() for method in methods},
            "runs": {run_id(here): here},
            "datasets": [],
        }

    def add_settings(self, settings: Mapping[str, Any]) -> None:
        """Add methods, runs and data sets to ``run.json``, which may be new; a folder of something else is refused."""
        stored = self.settings()
        if stored is None:
            present = [entry.name for entry in self.path.iterdir()] if self.path.is_dir() else []
            if any(name != self.lock.name and not is_leftover(name, "run.json") for name in present):
                raise DataError(f"{self.path} is not empty and holds no results of this command: choose another --out.")
            merged = dict(settings)
        else:
            merged = stored | {part: stored[part] | settings[part] for part in ("methods", "shown", "runs")}
            merged["datasets"] = list(dict.fromkeys((*stored["datasets"], *settings["datasets"])))
        if merged != stored:
            write_atomically(self.path / "run.json", json.dumps(merged, indent=2) + "\n")

    def require_continuable(self, settings: Mapping[str, Any]) -> None:
        """Refuse to continue with settings that differ from those of the folder; the error names both values."""
        advice = ": choose another --out, or go back to it"
        if (stored := self.settings()) is not None:
            require_same_settings(stored, settings, ("format", "protocol", "versions"), str(self.path), advice)

    def settings(self) -> dict[str, Any] | None:
        """Return what ``run.json`` says, or None if there is none."""
        return _read_json(self.path / "run.json")

    def stored_folds(self, dataset: str) -> dict[str, Any] | None:
        """Return what was noted of the rows of a data set and their folds, or None if there is nothing."""
        return _read_json(self._folds_file(dataset))

    def store_folds(self, dataset: str, folds: Mapping[str, Any]) -> None:
        """Note the rows of a data set and their folds."""
        write_atomically(self._folds_file(dataset), json.dumps(folds) + "\n")

    def _folds_file(self, dataset: str) -> Path:
        return self.path / "folds" / f"{dataset}.json"

    def folds(self, dataset: Dataset) -> NDArray[np.int64]:
        """Return the fold of every row (n_samples,): as stored, or drawn and stored now."""
        try:
            stored = self.stored_folds(dataset.name)
            fold_of_row = None if stored is None else np.array(stored["fold_of_row"], dtype=np.int64)
        except (DataError, KeyError, ValueError, OverflowError):
            file = self._folds_file(dataset.name)
            warnings.warn(f"{file} is damaged; the folds are drawn again from the seed.", SLDLWarning, stacklevel=2)
            stored = fold_of_row = None
        now = fingerprint(dataset)
        if stored is not None and fold_of_row is not None:
            if stored.get("fingerprint") != now or fold_of_row.shape != (dataset.n_samples,):
                raise DataError(
                    f"{self.path} holds results of other data under the name {dataset.name!r}: choose another --out."
                )
            return fold_of_row
        fold_of_row = self.protocol.fold_of_rows(dataset)
        content = {"dataset": dataset.name, "fingerprint": now, "fold_of_row": fold_of_row.tolist()}
        self.store_folds(dataset.name, content)
        return fold_of_row

    def records(self, dataset: str) -> list[Record]:
        """Return everything finished so far on one data set."""
        journals = (self.journal(dataset, fold) for fold in range(self.protocol.n_folds))
        return [record for journal in journals for record in read_journal(journal)[0]]


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that could not be run: a method (None: every one) on a data set (None: on any) in a fold."""

    method: str | None
    dataset: str | None
    fold: int | None
    reason: str

    @property
    def where(self) -> str:
        """Method and data set in words."""
        return f"{self.method or 'every method'} on {self.dataset or 'every data set'}"


@dataclass(frozen=True)
class Run:
    """A finished run."""

    folder: RunFolder
    datasets: list[str]  # that were run, in the order in which they were asked for
    methods: list[Method]
    folds: tuple[int, ...]  # that were run
    failures: list[Failure]
    n_merged: int = 0  # records that came from other folders


def open_run(path: Path) -> Run:
    """Open the run in a results folder as far as it is finished; its methods need not be registered or installed."""
    settings = _read_json(path / "run.json")
    if settings is None:
        raise DataError(f"{path} holds no results of `sldl reproduce` (there is no run.json in it).")
    if settings.get("format") != FORMAT:
        raise DataError(f"{path} holds results of another version of the library: run `sldl reproduce` again.")
    folder = RunFolder(path, Protocol.from_json(settings["protocol"], str(path)))
    methods = [stored_method(name, shown) for name, shown in settings["shown"].items()]
    datasets = [name for name in settings["datasets"] if (path / "records" / name).is_dir()]

    def has_records(fold: int) -> bool:
        journals = (folder.journal(dataset, fold) for dataset in datasets)
        return any(journal.is_file() and journal.stat().st_size for journal in journals)

    return Run(folder, datasets, methods, tuple(filter(has_records, range(folder.protocol.n_folds))), [])


def require_mergeable(other: Path, settings: Mapping[str, Any]) -> None:
    """Refuse a folder of another protocol than that of ``settings``, or of a method with other parameters.

    Versions of libraries may differ, as they do between machines; every record names its own.
    """
    stored = RunFolder(other, Protocol()).settings()
    if stored is None:
        raise DataError(f"--merge {other}: holds no results of this command (there is no run.json in it).")
    require_same_settings(stored, settings, ("format", "protocol"), f"--merge {other}:")


def merge_folders(out: Path, others: Sequence[Path]) -> int:
    """Merge other results folders into ``out``, which may be new; returns the number of records.

    Neither the data nor the methods are needed. Other protocols, rows or parameters of a method are refused.
    """
    n_merged = 0
    for other in others:
        folder = RunFolder(out, open_run(other).folder.protocol)
        with locked(folder.lock, wait=False):
            n_merged += merge_into(folder, other)
    return n_merged


def merge_into(folder: RunFolder, other: Path) -> int:
    """Add to a folder, whose lock is held, the settings and records of another that it lacks; the number of records."""
    there = open_run(other)
    ours = folder.settings()
    if ours is not None:
        require_mergeable(other, ours)
    folds = {dataset: there.folder.stored_folds(dataset) or {} for dataset in there.datasets}
    for dataset, drawn in folds.items():
        if folder.stored_folds(dataset) not in (None, drawn):
            raise DataError(f"--merge {other}: holds results of other rows or folds under the name {dataset!r}.")
    folder.add_settings(there.folder.settings() or {})
    for dataset, drawn in folds.items():
        folder.store_folds(dataset, drawn)
    cells = [(dataset, fold) for dataset in folds for fold in there.folds]
    return sum(_merge_fold(folder, there.folder, dataset, fold) for dataset, fold in cells)


def _merge_fold(folder: RunFolder, other: RunFolder, dataset: str, fold: int) -> int:
    records, _ = read_journal(other.journal(dataset, fold))
    if not records:
        return 0
    with locked(folder.journal_lock(dataset, fold), wait=True):
        journal = Journal(folder.journal(dataset, fold))
        present = {(record.method, record.configuration) for record in journal.records}
        fresh = [record for record in records if (record.method, record.configuration) not in present]
        journal.append(fresh)
    return len(fresh)


def require_same_settings(
    stored: Mapping[str, Any], now: Mapping[str, Any], parts: Sequence[str], where: str, advice: str = ""
) -> None:
    """Refuse two settings that differ in one of ``parts``, or in the parameters of a method that both have."""
    pairs = [(part, stored.get(part), now[part]) for part in parts]
    known = stored.get("methods", {})
    pairs += [(f"method {name}", known[name], of_now) for name, of_now in now["methods"].items() if name in known]
    for what, before, after in pairs:
        if before != after:
            raise DataError(f"{where} holds results of another {what} ({_difference(before, after)}){advice}.")


def _difference(stored: Any, now: Any) -> str:
    """The first thing in which two settings differ, with both values."""
    if isinstance(stored, dict) and isinstance(now, dict):
        key = next(key for key in (*now, *stored) if stored.get(key) != now.get(key))
        return f"{key} {stored.get(key)!r}, now {now.get(key)!r}"
    return f"{stored!r}, now {now!r}"


def _read_json(file: Path) -> dict[str, Any] | None:
    """A JSON object, or None if there is no file."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror or error}.") from error
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise DataError(f"{file} is damaged: move it away to start again, or choose another --out.")
    return content
