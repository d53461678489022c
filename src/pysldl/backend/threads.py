"""Threads: how many the library may use, and how it uses them without changing a result.

A matrix product of a threaded BLAS is split by the number of its threads, and so are its rounding errors. Inside
:func:`fixed_order_blas` every BLAS call runs on one thread; :func:`matmul` gets the other cores back by handing
blocks of rows, whose size does not depend on the number of threads, to a pool.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

__all__ = ["fixed_order_blas", "matmul", "n_threads", "parallel_map", "single_threaded_blas"]

ROWS_PER_BLOCK = 256
# Below this number of multiply-adds the pool costs more than it saves.
SMALLEST_PARALLEL_PRODUCT = 1 << 22

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_lock = threading.Lock()
_depth = 0
_inside = threading.local()  # .pool is set in the threads of the pool, which must not wait for itself
_threads_before: list[tuple[Any, int]] = []


@contextmanager
def fixed_order_blas() -> Iterator[None]:
    """Within the block, BLAS computes on one thread, so that no sum depends on the number of threads.

    Blocks may be nested and may run in several threads at once: the limit is lifted when the last one ends.

    Examples
    --------
    >>> with fixed_order_blas():
    ...     product = np.ones((2, 3)) @ np.ones((3, 2))
    """
    global _depth
    with _lock:
        _depth += 1
        if _depth == 1:
            for library in _blas_libraries(len(sys.modules)):
                _threads_before.append((library, library.get_num_threads()))
                library.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                while _threads_before:
                    library, before = _threads_before.pop()
                    library.set_num_threads(before)


def single_threaded_blas(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: run the function inside :func:`fixed_order_blas`."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with fixed_order_blas():
            return function(*args, **kwargs)

    return wrapped


def n_threads() -> int:
    """How many threads the library may use: numba's number where it is loaded, otherwise that of the environment.

    ``NUMBA_NUM_THREADS`` and ``OMP_NUM_THREADS`` set it; the default is one thread per core.
    """
    numba = sys.modules.get("numba")
    if numba is not None and hasattr(numba, "get_num_threads"):
        return int(numba.get_num_threads())
    for variable in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        if (value := os.environ.get(variable, "")).isdigit():
            return max(1, int(value))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parallel_map(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``[function(item) for item in items]`` in up to :func:`n_threads` threads; for functions that release the GIL."""
    workers = min(n_threads(), len(items))
    if workers < 2 or getattr(_inside, "pool", False):
        return [function(item) for item in items]
    return list(_pool(os.getpid(), n_threads()).map(function, items))


def matmul(A: NDArray[Any], B: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
    """``A @ B`` on all cores, bit for bit the same for any number of threads.

    Parameters
    ----------
    A : ndarray of shape (n_rows, n_inner)
    B : ndarray of shape (n_inner, n_columns)
    out : ndarray of shape (n_rows, n_columns), optional
    """
    if out is None:
        out = np.empty((A.shape[0], B.shape[1]), dtype=np.result_type(A, B))
    blocks = [slice(start, start + ROWS_PER_BLOCK) for start in range(0, A.shape[0], ROWS_PER_BLOCK)]

    def multiply(rows: slice) -> None:
        np.matmul(A[rows], B, out=out[rows])

    with fixed_order_blas():
        if A.shape[0] * A.shape[1] * B.shape[1] < SMALLEST_PARALLEL_PRODUCT:
            for rows in blocks:
                multiply(rows)
        else:
            parallel_map(multiply, blocks)
    return out


@lru_cache(maxsize=1)
def _pool(process: int, workers: int) -> ThreadPoolExecutor:
    """One pool that stays: starting threads for every product would take as long as the product.

    A forked child has none of its parent's threads, so that the process is part of the key.
    """

    def enter() -> None:
        _inside.pool = True

    return ThreadPoolExecutor(workers, "pysldl", initializer=enter)


@lru_cache(maxsize=1)
def _blas_libraries(n_modules: int) -> list[Any]:
    """The BLAS libraries that are loaded; looked up again when a module was imported since, which may bring another."""
    return ThreadpoolController().select(user_api="blas").lib_controllers
