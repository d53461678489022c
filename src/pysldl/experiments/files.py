"""File names, and writing a file so that a reader finds either the old one or the whole new one."""

import os
import tempfile
from pathlib import Path

from pysldl.exceptions import DataError

__all__ = ["slug", "write_atomically"]


def slug(text: str) -> str:
    """Return a plain file name for a metric, a method or a parameter.

    Examples
    --------
    >>> slug("PSnDCG@5")
    'psndcg-5'
    """
    return "".join(letter if letter.isalnum() else "-" for letter in text.lower()).strip("-")


def write_atomically(path: Path, content: str | bytes) -> Path:
    """Write `content` beside `path`, then move it into place; the folder is made where missing.

    Raises
    ------
    DataError
        The file cannot be written (no permission, disk full, a folder of that name). Nothing is left behind.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        # mkstemp makes files that only their owner reads; a result is as readable as any other new file.
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise DataError(f"cannot write {path}: {error.strerror or error}. Choose a place you can write to.") from error
    return path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
