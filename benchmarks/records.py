"""Records of measurements: small CSV files in ``results/`` that the documents are made from.

Every row says what was measured and, in the columns of :data:`ENVIRONMENT`, when and where: the date, the commit,
the versions of the libraries, the processor, its cores and the thread settings.
"""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pysldl.datasets.files import csv_rows, write_csv_rows
from pysldl.experiments.run.environment import environment as run_environment

__all__ = ["ENVIRONMENT", "RESULTS", "add_record_option", "environment", "flat", "read_rows", "write_rows"]

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"

LIBRARIES = ("pysldl", "numpy", "scipy", "scikit-learn", "numba", "torch")
ENVIRONMENT = ("date", "commit", "python", *LIBRARIES, "processor", "cores", "thread_settings")


def add_record_option(parser: argparse.ArgumentParser, name: str) -> None:
    """Add ``--record [FILE]`` to a script; without a value the file is ``results/NAME``."""
    parser.add_argument(
        "--record",
        type=Path,
        nargs="?",
        const=RESULTS / name,
        metavar="FILE",
        help=f"write what was measured to a CSV file; a measurement made again is replaced (default results/{name})",
    )


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]], key: Sequence[str]) -> None:
    """Add rows to a file of records; a row whose values of ``key`` are in the file already takes that place.

    The columns of :data:`ENVIRONMENT` are filled in where a row does not have them. The file is written atomically.

    Parameters
    ----------
    path : Path
        A CSV file, made where it does not exist.
    rows : iterable of mappings
        One value for each column; nested values are made flat by :func:`flat` first. None is an empty field.
    key : sequence of str
        Columns that identify a measurement.
    """
    here = environment()
    records = {_identity(row, key): row for row in read_rows(path)}
    for row in rows:
        record = here | flat(row)
        records[_identity(record, key)] = record
    columns = dict.fromkeys(column for record in records.values() for column in record)
    header = [column for column in columns if column not in ENVIRONMENT] + list(ENVIRONMENT)
    write_csv_rows(path, header, ({name: _field(value) for name, value in row.items()} for row in records.values()))


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of a file of records, numbers as numbers and empty fields as None; none where there is no file."""
    if not path.exists():
        return []
    return [
        {name: text or None if name in ENVIRONMENT else _value(text) for name, text in row.items()}
        for _, row in csv_rows(path)
    ]


def flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The row without nested mappings: ``{"fit": {"seconds": 1}}`` becomes ``{"fit.seconds": 1}``."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


@cache
def environment() -> dict[str, str]:
    """What a record says about the machine, the libraries and their settings, by the names in :data:`ENVIRONMENT`."""
    noted = run_environment()
    return {name: noted.get(name, "") for name in ENVIRONMENT}


def _identity(row: Mapping[str, Any], key: Sequence[str]) -> tuple[str, ...]:
    return tuple(_field(row.get(name)) for name in key)


def _field(value: Any) -> str:
    """A value as text, the same for a number that was just measured and for one that was read from a file."""
    if value is None:
        return ""
    if hasattr(value, "item"):
        value = value.item()  # of NumPy
    return f"{value:.8g}" if isinstance(value, float) else str(value)


def _value(text: str) -> Any:
    if not text:
        return None
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
