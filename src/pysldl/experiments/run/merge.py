"""Finished work of other results folders brought into one: runs may be shared out among machines."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pysldl.exceptions import DataError
from pysldl.experiments.run.journal import Journal, locked, read_journal
from pysldl.experiments.run.protocol import Protocol
from pysldl.experiments.run.run_folder import RunFolder, open_run, require_same_settings


def require_mergeable(other: Path, settings: Mapping[str, Any]) -> None:
    """Refuse a folder of another protocol than that of ``settings``, or of a method with other parameters.

    Versions of libraries may differ, as they do between machines; every record names its own.
    """
    stored = RunFolder(other, Protocol()).settings()
    if stored is None:
        raise DataError(f"--merge {other}: holds no results of this command (there is no run.json in it).")
    require_same_settings(stored, settings, ("format", "protocol"), f"--merge {other}:")


def merge_folders(out: Path, others: Sequence[Path]) -> int:
    """Bring everything that other results folders hold into ``out``, which may be new; the number of records.

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
