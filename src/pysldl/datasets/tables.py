"""Read and write CSV and TSV tables; errors name the line."""

import csv
import io
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pysldl._utils.files import write_atomically
from pysldl.datasets.files import open_text
from pysldl.exceptions import DataError


@dataclass(frozen=True)
class TableFormat:
    """Dialect of a table; None: detected from the name or the first bytes of the file."""

    delimiter: str | None = None
    header: bool = True
    encoding: str | None = None


def column_delimiter(path: Path, given: str | None = None) -> str:
    """Return the delimiter between two columns: as given, or by the suffix of the file."""
    if given is None:
        return "\t" if path.name.removesuffix(".gz").endswith(".tsv") else ","
    if given in ("tab", "\\t"):  # as written in a shell
        return "\t"
    if not isinstance(given, str) or len(given) != 1 or given in "\r\n":
        raise DataError(f"{path}: delimiter must be one character or the word tab, but is {given!r}.")
    return given


def table_rows(
    path: str | os.PathLike[str], needed: Sequence[str] = (), written: TableFormat | None = None, advice: str = ""
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line number and the cells, by column, of every row of a table, which may be packed as ``.gz``.

    A ``DataError`` names the line if the table is malformed or lacks one of the columns ``needed``; ``advice`` is added
    to the latter.
    """
    written = written or TableFormat()
    with open_text(path, written.encoding) as stream:
        lines = csv.reader(stream, delimiter=column_delimiter(Path(path), written.delimiter), strict=True)
        try:
            first = next(filter(None, lines), None)
            if first is None:
                raise DataError(f"{path}: holds nothing but blank lines.")
            named = first if written.header else map(str, range(1, len(first) + 1))
            columns = [name.strip() for name in named]
            _check_columns(columns, needed, f"{path}, line {lines.line_num}", advice if written.header else "")
            for line in lines if written.header else itertools.chain([first], lines):
                if len(line) == len(columns):
                    yield lines.line_num, dict(zip(columns, line, strict=True))
                elif "".join(line).strip():
                    raise DataError(
                        f"{path}, line {lines.line_num}: expected {len(columns)} columns as in the "
                        f"{'header' if written.header else 'first line'}, but there are {len(line)}."
                    )
        except csv.Error as error:
            raise DataError(f"{path}, line {lines.line_num}: is not CSV ({error}).") from error


def csv_rows(path: Path, required: Sequence[str] = ()) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line number and the stripped cells, by column, of every row that is not blank.

    A ``DataError`` names the line if the table is malformed or lacks one of the columns ``required``.
    """
    for line, row in table_rows(path, required):
        cells = {name: cell.strip() for name, cell in row.items()}
        if any(cells.values()):
            yield line, cells


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV text; a row may lack columns, which stay empty, and have others, which are left out."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_csv_rows(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows to a file atomically and return its path."""
    return write_atomically(path, csv_text(columns, rows))


def _check_columns(columns: Sequence[str], needed: Sequence[str], where: str, advice: str) -> None:
    for name in needed:
        if name not in columns:
            told = advice if len(columns) > 1 else ""
            raise DataError(f"{where}: has no column {name!r}; it has {', '.join(map(repr, columns))}.{told}")
    for name in filter(None, columns):
        if columns.count(name) > 1:
            raise DataError(f"{where}: the column {name!r} appears twice.")
