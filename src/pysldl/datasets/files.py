"""Opening the files of a data set: clear errors, gzip unpacked, encodings checked."""

import codecs
import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from pysldl.exceptions import DataError

__all__ = ["open_binary", "open_text", "require_file", "stem"]


def require_file(path: str | os.PathLike[str]) -> Path:
    """``path``, if it is a file with something in it; otherwise one clear error."""
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path}: is a directory, but a file is expected.")
    if not path.exists():
        raise DataError(f"{path}: no such file.")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty.")
    return path


def stem(path: Path) -> str:
    """File name without its suffix and without ``.gz`` (``a.b.txt.gz`` gives ``a.b``)."""
    return Path(path.name.removesuffix(".gz")).stem


@contextmanager
def open_binary(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """The bytes of a file; a ``.gz`` one is unpacked on the way, a damaged one is named."""
    path = require_file(path)
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as stream:
            yield cast(BinaryIO, stream)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: is not a whole gzip file ({error}).") from error


@contextmanager
def open_text(path: str | os.PathLike[str], encoding: str | None = None) -> Iterator[TextIO]:
    """The text of a file, unpacked like :func:`open_binary`.

    Parameters
    ----------
    path : path
    encoding : str, optional
        Default: UTF-8 (a byte order mark is skipped), or UTF-16 where the file begins with its byte order mark.
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
