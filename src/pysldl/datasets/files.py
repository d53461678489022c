"""Open the files of a data set: unpack gzip, check encodings, raise clear errors."""

import codecs
import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, RawIOBase, TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from pysldl.exceptions import DataError

UNPACK_LIMIT = "PYSLDL_UNPACK_LIMIT"  # the environment variable
DEFAULT_LIMIT = 100
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
