"""A file lock against other processes and threads, released when its holder dies."""

import errno
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PAUSE = 0.02  # seconds between two attempts

_held = threading.local()


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
