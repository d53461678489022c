"""CSV files of named columns: read row by row with the line of each, and written atomically."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pysldl._utils.files import write_atomically
from pysldl.datasets.tables import table_rows


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV text; a row may lack columns, which stay empty, and have others, which are left out."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows to a file atomically and return its path."""
    return write_atomically(path, csv_text(columns, rows))


def read_csv(path: Path, required: Sequence[str] = ()) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line number and the cells, by column, of every row that is not blank.

    Parameters
    ----------
    path : Path
        UTF-8 text, which may be packed as ``.gz``.
    required : sequence of str
        Columns that the header must have.

    Raises
    ------
    DataError
        Naming the file, the line where there is one, and what is wrong there.
    """
    for line, row in table_rows(path, required):
        cells = {name: cell.strip() for name, cell in row.items()}
        if any(cells.values()):
            yield line, cells
