"""Putting a whole folder in place of another, so that there is always a whole one."""

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["HashedFile", "existing", "put_in_place", "temporary_folder", "write_file"]


class HashedFile:
    """A stream that knows the size and SHA-256 of what went through it."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.size = 0
        self.sha256 = hashlib.sha256()

    def write(self, data: Any) -> int:
        """Write the bytes ``data`` and return how many were written."""
        self.sha256.update(data)
        self.size += len(data)
        return self.stream.write(data)


@contextmanager
def write_file(path: Path) -> Iterator[Any]:
    """A new file as a :class:`HashedFile`, on the disk for good when the block ends."""
    with path.open("xb") as stream:
        yield HashedFile(stream)
        stream.flush()
        os.fsync(stream.fileno())


@contextmanager
def temporary_folder(target: Path) -> Iterator[Path]:
    """An empty folder beside ``target``, on the same file system; what is left of it at the end is removed."""
    folder = target.with_name(f".{target.name}.pysldl-saving-{secrets.token_hex(4)}")
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put_in_place(folder: Path, target: Path) -> None:
    """Move ``folder`` to ``target``. A folder that was there goes away only once the new one has its name."""
    _sync(folder)
    previous = _previous(target)
    if not target.exists():
        folder.rename(target)
    else:
        shutil.rmtree(previous, ignore_errors=True)
        target.rename(previous)
        try:
            folder.rename(target)
        except BaseException:
            previous.rename(target)
            raise
    _sync(target.parent)
    shutil.rmtree(previous, ignore_errors=True)


def existing(target: Path) -> Path:
    """Where the model of ``target`` is: under its name, or put aside by a save that was killed between two renames."""
    if not target.exists() and _previous(target).exists():
        return _previous(target)
    return target


def _previous(target: Path) -> Path:
    return target.with_name(f".{target.name}.pysldl-previous")


def _sync(folder: Path) -> None:
    """Make the names in a folder durable, on systems that can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
