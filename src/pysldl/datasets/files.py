"""Open the files of a data set, with clear errors: unpack gzip, check encodings, read and write tables of CSV."""

import codecs
import csv
import gzip
import io
import itertools
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader, RawIOBase, TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from pysldl._utils.files import write_atomically
from pysldl.exceptions import DataError

UNPACK_LIMIT = "PYSLDL_UNPACK_LIMIT"  # the environment variable
DEFAULT_LIMIT = 100
OTHER_DELIMITERS = (";", "\t", "|", ",")
UNPACKED_OF_ANY_FILE = 256 << 20


def require_file(path: str | os.PathLike[str]) -> Path:
    """Return ``path`` if it is a nonempty file; raise a ``DataError`` otherwise."""
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path}: is a directory, but a file is expected.")
    if not path.exists():
        raise DataError(f"{path}: no such file.")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty.")
    return path


def unpack_limit() -> int:
    """Return how many times larger than the file its unpacked content may be (set by PYSLDL_UNPACK_LIMIT)."""
    try:
        return max(1, int(os.environ.get(UNPACK_LIMIT, DEFAULT_LIMIT)))
    except ValueError:
        raise DataError(f"{UNPACK_LIMIT} must be a whole number, but is {os.environ[UNPACK_LIMIT]!r}.") from None


def check_unpacked(path: Path, n_bytes: int) -> None:
    """Refuse a file that unpacks to far more than its own size: it would fill the memory."""
    limit = unpack_limit()
    if n_bytes > max(UNPACKED_OF_ANY_FILE, limit * path.stat().st_size):
        raise DataError(
            f"{path}: unpacks to more than {limit} times its size. If it is what you expect, set the environment "
            f"variable {UNPACK_LIMIT} to a larger number."
        )


class _Unpacked(RawIOBase):
    """The unpacked content of a gzip file, as long as it is not out of all proportion."""

    def __init__(self, stream: gzip.GzipFile, path: Path) -> None:
        self.stream = stream
        self.path = path
        self.n_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n_read = self.stream.readinto(buffer)
        self.n_bytes += n_read
        check_unpacked(self.path, self.n_bytes)
        return n_read


def stem(path: Path) -> str:
    """File name without its suffix and without ``.gz`` (``a.b.txt.gz`` gives ``a.b``)."""
    return Path(path.name.removesuffix(".gz")).stem


@contextmanager
def open_binary(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to read bytes; ``.gz`` files are unpacked, damaged ones raise a ``DataError``."""
    path = require_file(path)
    try:
        if path.suffix != ".gz":
            with path.open("rb") as stream:
                yield stream
            return
        with gzip.open(path, "rb") as packed, BufferedReader(_Unpacked(packed, path), 1 << 16) as unpacked:
            yield cast(BinaryIO, unpacked)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: is not a whole gzip file ({error}).") from error


@contextmanager
def open_text(path: str | os.PathLike[str], encoding: str | None = None) -> Iterator[TextIO]:
    """Open a file to read text; ``.gz`` files are unpacked as in :func:`open_binary`.

    The default encoding is UTF-8, or UTF-16 if the file begins with its byte order mark.
    """
    if encoding is not None:
        try:
            codecs.lookup(str(encoding))
        except LookupError:
            raise DataError(
                f"{path}: there is no encoding {encoding!r}; common ones are utf-8, utf-16, latin-1 and cp1252."
            ) from None
    with open_binary(path) as stream:
        if encoding is None:
            marked = cast(BufferedReader, stream).peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
            encoding = "utf-16" if marked else "utf-8-sig"
        try:
            yield TextIOWrapper(stream, encoding=encoding, newline="")
        except UnicodeDecodeError as error:
            what = "UTF-8" if encoding == "utf-8-sig" else encoding
            advice = " Name its encoding, as in encoding='latin-1' (in the shell: --read encoding=latin-1)."
            raise DataError(f"{path}: is not {what} text ({error.reason} at byte {error.start}).{advice}") from error


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
            other = next((mark for mark in OTHER_DELIMITERS if mark in columns[0]), None)
            if advice and len(columns) == 1 and other is not None:
                mark = "tab" if other == "\t" else other
                in_shell = f"(in the shell: --read 'delimiter={mark}')"
                told = f" If {other!r} stands between columns, say delimiter={mark!r} {in_shell}."
            raise DataError(f"{where}: has no column {name!r}; it has {', '.join(map(repr, columns))}.{told}")
    for name in filter(None, columns):
        if columns.count(name) > 1:
            raise DataError(f"{where}: the column {name!r} appears twice.")
