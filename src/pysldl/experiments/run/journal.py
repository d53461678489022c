"""Journals of finished records: written at once, and read back complete or not at all.

A journal is a text file with one JSON object per line, each with a checksum. It is only ever appended to, and synced
after every append, so that a process killed at any moment loses at most the line it was writing.
"""

import json
import math
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from pysldl._utils.files import make_folder, sync_folder, write_atomically
from pysldl._utils.locks import file_lock
from pysldl.exceptions import DataError
from pysldl.experiments.run.evaluation import Configuration, Metrics


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
