"""Write files atomically, open only regular files, lock them, and make plain file names."""

import errno
import os
import re
import secrets
import shutil
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from pysldl.exceptions import DataError

_TOKEN = 8  # hexadecimal digits that tell temporary files of the same name apart

PAUSE = 0.02  # seconds between two attempts

_held = threading.local()


@contextmanager
def open_atomic(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary binary file beside ``path`` that replaces it when the block ends without an error.

    The content is on the disk before the name is, so that neither a killed process nor a loss of power leaves half a
    file. Leftovers of earlier killed processes beside ``path`` are removed. If the file cannot be written, a
    ``DataError`` is raised and nothing is left behind.
    """
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path}: is a directory, but a file is to be written.")
    temporary: Path | None = None
    try:
        _remove_leftovers(path)
        temporary, stream = _new_temporary(path)
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            if os.name == "nt":  # which does not rename open files
                stream.close()
            temporary.replace(path)
        sync_folder(path.parent)
    except BaseException as error:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise DataError(f"{path}: cannot be written ({error.strerror or error}).") from error
        raise


def _new_temporary(path: Path) -> tuple[Path, BinaryIO]:
    """Return a new file beside ``path``, locked, so that other writers do not take it for a leftover."""
    while True:
        temporary = path.with_name(_temporary_name(path))
        stream = temporary.open("xb")
        if try_lock(stream.fileno()) and temporary.exists():
            return temporary, stream
        stream.close()  # another writer removed it before it was locked


def _temporary_name(path: Path) -> str:
    return f".{path.name}.{secrets.token_hex(_TOKEN // 2)}.part"


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files and folders of ``path`` that no living process holds."""
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if is_leftover(entry.name, path.name):
                with suppress(OSError):
                    _remove_unlocked(Path(entry.path))


def _remove_unlocked(leftover: Path) -> None:
    if leftover.is_dir():
        with _folder_handle(leftover) as handle:
            if try_lock(handle):
                shutil.rmtree(leftover, ignore_errors=True)
        return
    with open_regular(leftover) as stream:
        if try_lock(stream.fileno()):
            leftover.unlink()


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Make an empty temporary folder beside ``path`` that replaces it when the block ends without an error.

    ``path`` must not exist, or be an empty folder. Leftovers of earlier killed processes beside it are removed.
    """
    _remove_leftovers(path)
    folder = path.with_name(_temporary_name(path))
    folder.mkdir()
    with _folder_handle(folder) as handle:
        try_lock(handle)  # so that other writers do not take it for a leftover
        try:
            yield folder
            folder.replace(path)
            sync_folder(path.parent)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


@contextmanager
def _folder_handle(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def is_leftover(name: str, target: str) -> bool:
    """Whether a file name is that of a temporary file of ``target``; a process that was killed may have left it.

    Examples
    --------
    >>> is_leftover(".run.json.0a1b2c3d.part", "run.json"), is_leftover("run.json", "run.json")
    (True, False)
    """
    return re.fullmatch(re.escape(f".{target}.") + rf"[0-9a-f]{{{_TOKEN}}}\.part", name) is not None


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading; anything else is an ``OSError``: a pipe or a device could block forever."""
    if not stat.S_ISREG(Path(path).stat().st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    handle = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):  # put there after the first look
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, on systems that can."""
    with suppress(OSError), _folder_handle(folder) as handle:
        os.fsync(handle)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents if they are missing, and make their names durable."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.parent)


def write_atomically(path: Path, content: str | bytes) -> Path:
    """Write text (as UTF-8) or bytes by :func:`open_atomic`, making the folder if missing; returns ``path``."""
    try:
        make_folder(path.parent)
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


def try_lock(handle: int) -> bool:
    """Lock an open file until it is closed; False if somebody else has it.

    The lock belongs to the open file, so that a second one of the same process does not get it either.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True


@contextmanager
def file_lock(path: Path, wait: float) -> Iterator[None]:
    """Hold the lock file ``path``, which is made if missing; a thread that holds it may take it again.

    Waits up to ``wait`` seconds for another holder, then raises ``TimeoutError``; ``OSError`` if the file cannot be
    made or locked.
    """
    key = (os.getpid(), str(path))  # a forked child does not hold what its parent holds
    held: set[tuple[int, str]] = _held.__dict__.setdefault("paths", set())
    if key in held:
        yield
        return
    handle = _locked(path, time.monotonic() + wait)
    held.add(key)
    try:
        yield
    finally:
        held.discard(key)
        _unlock(handle)
        os.close(handle)


def _locked(path: Path, deadline: float) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        try:
            # The file may have been removed, and made anew, between its opening and the lock.
            if try_lock(handle) and _is_at(handle, path):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        if time.monotonic() > deadline:
            raise TimeoutError(errno.ETIMEDOUT, "another process holds the lock", str(path))
        time.sleep(PAUSE)


def _is_at(handle: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), path.stat())
    return False


def _unlock(handle: int) -> None:
    """Free the lock even if a forked child still has the file open."""
    if sys.platform != "win32":
        import fcntl

        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
