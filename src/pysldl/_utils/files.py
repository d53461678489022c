"""File names, and files that are written whole or not at all."""

from pathlib import Path

from pysldl.datasets.files import replacing
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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{path.parent}: cannot be made a folder ({error.strerror or error}).") from error
    with replacing(path) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)
    return path
