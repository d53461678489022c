"""Files that are written whole or not at all, and plain file names."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pysldl.exceptions import DataError

__all__ = ["open_atomic", "slug", "write_atomically"]


@contextmanager
def open_atomic(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file beside ``path`` that takes its place when the block ends without an error.

    Parameters
    ----------
    path : path
        File to write or to replace.

    Yields
    ------
    binary stream

    Raises
    ------
    DataError
        The file cannot be written (no permission, disk full, a folder of that name). Nothing is left behind.
    """
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path}: is a directory, but a file is to be written.")
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as stream:
            yield stream
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes files private
        temporary.replace(path)
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise DataError(f"{path}: cannot be written ({error.strerror or error}).") from error
        raise


def write_atomically(path: Path, content: str | bytes) -> Path:
    """Write a whole file by :func:`open_atomic`; its folder is made where missing.

    Parameters
    ----------
    path : Path
    content : str or bytes
        Text is written as UTF-8.

    Returns
    -------
    Path
        ``path``.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{path.parent}: cannot be made a folder ({error.strerror or error}).") from error
    with open_atomic(path) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)
    return path


def slug(text: str) -> str:
    """Return a plain file name for a metric, a method or a parameter.

    Examples
    --------
    >>> slug("PSnDCG@5")
    'psndcg-5'
    """
    return "".join(letter if letter.isalnum() else "-" for letter in text.lower()).strip("-")
