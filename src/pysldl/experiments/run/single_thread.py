"""One thread for everything that would take more: processes of several threads on as many cores wait for each other."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from pysldl.backend.dispatch import has_numba
from pysldl.backend.threads import one_torch_thread

VARIABLE = "OMP_NUM_THREADS"


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread within the block."""
    with ExitStack() as limits:
        # Only the methods that need torch load it. It then reads the variable, once, and keeps to one thread.
        limits.enter_context(_variable("1"))
        if has_numba():
            import numba

            limits.callback(numba.set_num_threads, numba.get_num_threads())
            numba.set_num_threads(1)
        if "torch" in sys.modules:
            limits.enter_context(one_torch_thread())
        limits.enter_context(threadpool_limits(1))  # the last: numba may just have loaded a library
        yield


@contextmanager
def _variable(value: str) -> Iterator[None]:
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
