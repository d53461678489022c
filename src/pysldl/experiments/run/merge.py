"""Finished work of another results folder, taken over: runs may be shared out among machines."""

from collections.abc import Container, Sequence
from pathlib import Path

from pysldl.exceptions import DataError
from pysldl.experiments.run.folder import FORMAT, RunFolder, difference, open_run
from pysldl.experiments.run.journal import Journal, locked, read_journal
from pysldl.experiments.run.methods import Method

__all__ = ["check_same_settings", "merge_folders", "merge_records"]


def check_same_settings(folder: RunFolder, other: Path, methods: Sequence[Method]) -> None:
    """Refuse a folder of another protocol, or of these methods with other parameters.

    Versions of libraries may differ, as they do between machines; every record names its own.

    Raises
    ------
    DataError
    """
    stored = RunFolder(other, folder.protocol).settings()
    if stored is None:
        raise DataError(f"--merge {other}: holds no results of this command (there is no run.json in it).")
    expected = {"format": FORMAT, "protocol": folder.protocol.as_json()}
    known = stored.get("methods", {})
    pairs = [(part, stored.get(part), value) for part, value in expected.items()]
    pairs += [(f"method {m.name}", known[m.name], m.parameters()) for m in methods if m.name in known]
    for what, there, here in pairs:
        if there != here:
            raise DataError(f"--merge {other}: holds results of another {what} ({difference(there, here)}).")


def merge_records(folder: RunFolder, other: Path, methods: Sequence[Method], dataset: str) -> int:
    """Append to ``folder`` what it lacks of one data set; the number of records.

    Raises
    ------
    DataError
        The rows or the folds were others there.
    """
    there = RunFolder(other, folder.protocol)
    drawn = there.stored_folds(dataset)
    if drawn is None:
        return 0
    if drawn != folder.stored_folds(dataset):
        raise DataError(f"--merge {other}: holds results of other rows or folds under the name {dataset!r}.")
    folder.note_runs((there.settings() or {}).get("runs", {}))
    names = {method.name for method in methods}
    return _copy_records(there, folder, dataset, names)


def merge_folders(out: Path, others: Sequence[Path]) -> int:
    """Bring everything that other results folders hold into ``out``, without the data; the number of records.

    Methods need not be registered or installed here. ``out`` may be new.

    Raises
    ------
    DataError
        The folders are of other protocols or rows, or of a method with other parameters.
    """
    n_taken = 0
    for other in others:
        noted = open_run(other)
        folder = RunFolder(out, noted.folder.protocol)
        with locked(folder.lock, wait=False):
            folder.join(noted.folder)
            for dataset in noted.datasets:
                folder.join_folds(noted.folder, dataset)
                n_taken += _copy_records(noted.folder, folder, dataset, {method.name for method in noted.methods})
    return n_taken


def _copy_records(there: RunFolder, folder: RunFolder, dataset: str, names: Container[str]) -> int:
    """Append to ``folder`` the records that it lacks of some methods on one data set; their number."""
    n_taken = 0
    for fold in range(folder.protocol.n_folds):
        records, _ = read_journal(there.journal(dataset, fold))
        wanted = [record for record in records if record.method in names]
        if not wanted:
            continue
        with locked(folder.journal_lock(dataset, fold), wait=True):
            journal = Journal(folder.journal(dataset, fold))
            present = {(record.method, record.configuration) for record in journal.records}
            fresh = [record for record in wanted if (record.method, record.configuration) not in present]
            journal.append(fresh)
        n_taken += len(fresh)
    return n_taken
