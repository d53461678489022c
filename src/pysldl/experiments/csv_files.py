"""CSV files of named columns: read row by row with the line of each, and written atomically."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pysldl._utils.files import write_atomically
from pysldl.datasets.files import open_text
from pysldl.exceptions import DataError


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
    header: list[str] = []
    with open_text(path) as stream:
        reader = csv.reader(stream, strict=True)
        try:
            for raw in reader:
                cells = [cell.strip() for cell in raw]
                if not any(cells):
                    continue
                where = f"{path}, line {reader.line_num}"
                if not header:
                    header = _checked_header(cells, required, where)
                elif len(cells) != len(header):
                    raise DataError(f"{where}: {len(cells)} cells where the header has {len(header)}.")
                else:
                    yield reader.line_num, dict(zip(header, cells, strict=True))
        except csv.Error as error:
            raise DataError(f"{path}, line {reader.line_num}: not valid CSV ({error}).") from error
    if not header:
        raise DataError(f"{path} has no header; it must have the columns {', '.join(required)}.")


def _checked_header(header: list[str], required: Sequence[str], where: str) -> list[str]:
    if missing := [name for name in required if name not in header]:
        raise DataError(f"{where}: the header has no column {', '.join(missing)}; it must have {', '.join(required)}.")
    for name in filter(None, header):
        if header.count(name) > 1:
            raise DataError(f"{where}: the column {name} appears twice.")
    return header
