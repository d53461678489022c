"""Opening the files of a data set: clear errors, gzip unpacked, UTF-8 checked."""

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
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
def open_text(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """The text of a UTF-8 file (a byte order mark is skipped), unpacked like :func:`open_binary`."""
    with open_binary(path) as stream:
        try:
            yield TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: is not UTF-8 text ({error.reason} at byte {error.start}).") from error
