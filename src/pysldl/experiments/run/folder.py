"""The results folder: settings, folds and records of one run, which a later run may only continue.

========================================  ==========================================================
``run.json``                              protocol, versions, parameters of every method, the runs
``folds/DATASET.json``                    the fold of every row
``records/DATASET/fold-03.jsonl``         one line a configuration (:mod:`pysldl.experiments.run.journal`)
========================================  ==========================================================
"""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pysldl._utils.files import write_atomically
from pysldl.datasets import Dataset
from pysldl.exceptions import DataError, SLDLWarning
from pysldl.experiments.run.environment import environment, library_versions, run_id
from pysldl.experiments.run.journal import Record, read_journal
from pysldl.experiments.run.methods import Method, stored_method
from pysldl.experiments.run.protocol import Protocol, fingerprint

__all__ = ["FORMAT", "Failure", "Run", "RunFolder", "difference", "open_run"]

FORMAT = 2


class RunFolder:
    """One results folder.

    Parameters
    ----------
    path : Path
        Made by :meth:`prepare` where it does not exist.
    protocol : Protocol
        Results of another protocol or of other versions are refused.
    """

    def __init__(self, path: Path, protocol: Protocol) -> None:
        self.path = path
        self.protocol = protocol
        self.versions = library_versions()

    @property
    def lock(self) -> Path:
        return self.path / ".lock"

    def journal(self, dataset: str, fold: int) -> Path:
        return self.path / "records" / dataset / f"fold-{fold:02d}.jsonl"

    def journal_lock(self, dataset: str, fold: int) -> Path:
        return self.path / "records" / dataset / f".fold-{fold:02d}.lock"

    def prepare(self, methods: Sequence[Method], jobs: int = 1, device: str | None = None) -> str:
        """Check that the folder holds results of these settings, or nothing; note the settings in it.

        Returns
        -------
        str
            Id of the run that now begins, for its records.

        Raises
        ------
        DataError
            It holds something else: the message names what differs and both values.
        """
        here = environment(jobs, device)
        now: dict[str, Any] = {
            "format": FORMAT,
            "protocol": self.protocol.as_json(),
            "versions": self.versions,
            "methods": {method.name: method.parameters() for method in methods},
            "shown": {
                method.name: {
                    "title": method.title,
                    "reconstruction": method.reconstruction,
                    "grid": list(method.axes),
                }
                for method in methods
            },
            "runs": {run_id(here): here},
            "datasets": [],
        }
        stored = self.settings()
        if stored is None:
            if self.path.is_dir() and any(entry.name != self.lock.name for entry in self.path.iterdir()):
                raise DataError(f"{self.path} is not empty and holds no results of this command: choose another --out.")
        else:
            for part in ("format", "protocol", "versions"):
                _require_same(stored.get(part), now[part], part, self.path)
            for name, parameters in now["methods"].items():
                if name in stored["methods"]:
                    _require_same(stored["methods"][name], parameters, f"method {name}", self.path)
            for part in ("methods", "shown", "runs"):
                now[part] = stored[part] | now[part]
            now["datasets"] = stored["datasets"]
        self._note(now, stored)
        return run_id(here)

    def note_runs(self, runs: dict[str, dict[str, str]]) -> None:
        """Note where records were made that were taken over from another folder."""
        stored = self.settings()
        if stored is not None:
            self._note(stored | {"runs": runs | stored["runs"]}, stored)

    def note_datasets(self, names: Sequence[str]) -> None:
        """Note data sets in the order in which tables show them."""
        stored = self.settings()
        if stored is not None:
            self._note(stored | {"datasets": list(dict.fromkeys((*stored["datasets"], *names)))}, stored)

    def join(self, other: "RunFolder") -> None:
        """Add the settings of another folder to those of this one, which may be new.

        Raises
        ------
        DataError
            Protocol, or a method that both have, differ.
        """
        stored, there = self.settings(), other.settings()
        if stored is None:
            if self.path.is_dir() and any(entry.name != self.lock.name for entry in self.path.iterdir()):
                raise DataError(f"{self.path} is not empty and holds no results of this command: choose another --out.")
            self._note(there, None)
            return
        for part in ("format", "protocol"):
            _require_same(there[part], stored.get(part), part, other.path)
        for name in there["methods"].keys() & stored["methods"].keys():
            _require_same(there["methods"][name], stored["methods"][name], f"method {name}", other.path)
        merged = {part: there[part] | stored[part] for part in ("methods", "shown", "runs")}
        merged = {
            part: {name: values[name] for name in (*stored[part], *there[part])} for part, values in merged.items()
        }
        datasets = list(dict.fromkeys((*stored["datasets"], *there["datasets"])))
        self._note(stored | merged | {"datasets": datasets}, stored)

    def join_folds(self, other: "RunFolder", dataset: str) -> None:
        """Take the folds of a data set over; an error where this folder has other rows or folds under its name."""
        here, there = self.stored_folds(dataset), other.stored_folds(dataset)
        if here is not None and here != there:
            raise DataError(f"--merge {other.path}: holds results of other rows or folds under the name {dataset!r}.")
        if here is None:
            write_atomically(self._folds_file(dataset), json.dumps(there) + "\n")

    def _note(self, settings: dict[str, Any], stored: Any) -> None:
        if settings != stored:
            write_atomically(self.path / "run.json", json.dumps(settings, indent=2) + "\n")

    def settings(self) -> Any:
        """What was noted of the settings: a dict, or None where there are none."""
        return self._read(self.path / "run.json")

    def stored_folds(self, dataset: str) -> Any:
        """What was noted of the rows of a data set and their folds: a dict, or None where there is nothing."""
        return self._read(self._folds_file(dataset))

    def _folds_file(self, dataset: str) -> Path:
        return self.path / "folds" / f"{dataset}.json"

    def folds(self, dataset: Dataset) -> NDArray[np.int64]:
        """The fold of every row: as stored, or drawn and stored now."""
        file = self._folds_file(dataset.name)
        try:
            stored = self.stored_folds(dataset.name)
            fold_of_row = None if stored is None else np.array(stored["fold_of_row"], dtype=np.int64)
        except (DataError, KeyError, ValueError, OverflowError):
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
        write_atomically(file, json.dumps(content) + "\n")
        return fold_of_row

    def records(self, dataset: str) -> list[Record]:
        """Everything finished so far on one data set."""
        journals = (self.journal(dataset, fold) for fold in range(self.protocol.n_folds))
        return [record for journal in journals for record in read_journal(journal)[0]]

    def _read(self, file: Path) -> Any:
        """A JSON object of the folder, None where there is none."""
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
    """A finished run.

    Parameters
    ----------
    folder : RunFolder
    datasets : list of str
        That were run, in the order in which they were asked for.
    methods : list of Method
    folds : tuple of int
        That were run.
    failures : list of Failure
    n_taken : int
        Records taken over from other folders.
    """

    folder: RunFolder
    datasets: list[str]
    methods: list[Method]
    folds: tuple[int, ...]
    failures: list[Failure]
    n_taken: int = 0


def open_run(path: Path) -> Run:
    """The run in a results folder as far as it is finished; its methods need not be registered, or installed, here.

    Raises
    ------
    DataError
        The folder holds no results, or those of another version of the protocol.
    """
    folder = RunFolder(path, Protocol())
    settings = folder.settings()
    if settings is None:
        raise DataError(f"{path} holds no results of `sldl reproduce` (there is no run.json in it).")
    if settings.get("format") != FORMAT:
        raise DataError(f"{path} holds results of another version of the library: run `sldl reproduce` again.")
    folder = RunFolder(path, Protocol.from_json(settings["protocol"], str(path)))
    methods = [stored_method(name, shown) for name, shown in settings["shown"].items()]
    datasets = [name for name in settings["datasets"] if (path / "records" / name).is_dir()]
    folds = {
        fold
        for dataset in datasets
        for fold in range(folder.protocol.n_folds)
        if folder.journal(dataset, fold).is_file() and folder.journal(dataset, fold).stat().st_size
    }
    return Run(folder, datasets, methods, tuple(sorted(folds)), [])


def _require_same(stored: Any, now: Any, what: str, folder: Path) -> None:
    if stored != now:
        found = difference(stored, now)
        raise DataError(f"{folder} holds results of another {what} ({found}): choose another --out, or go back to it.")


def difference(stored: Any, now: Any) -> str:
    """The first thing in which two settings differ, with both values."""
    if isinstance(stored, dict) and isinstance(now, dict):
        key = next(key for key in (*now, *stored) if stored.get(key) != now.get(key))
        return f"{key} {stored.get(key)!r}, now {now.get(key)!r}"
    return f"{stored!r}, now {now!r}"
