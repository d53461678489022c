"""One thread for everything that would take more: processes of several threads on as many cores wait for each other."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from pysldl.backend.dispatch import has_numba
from pysldl.backend.threads import one_torch_thread

__all__ = ["one_thread"]

VARIABLE = "OMP_NUM_THREADS"


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread in here."""
    with ExitStack() as limits:
        limits.enter_context(_of_what_is_loaded_in_here())
        if has_numba():
            limits.enter_context(_of_numba())
        if "torch" in sys.modules:
            limits.enter_context(one_torch_thread())
        limits.enter_context(threadpool_limits(1))  # the last: numba may just have loaded a library
        yield


@contextmanager
def _of_what_is_loaded_in_here() -> Iterator[None]:
    """Only the methods that need torch load it. It then reads the variable, once, and keeps to one thread."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


@contextmanager
def _of_numba() -> Iterator[None]:
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        yield
    finally:
        numba.set_num_threads(before)
