"""Threads: how many the library may use, and how it uses them without changing a result.

A matrix product of a threaded BLAS is split by the number of its threads, and so are its rounding errors. Inside
:func:`fixed_order_blas` every BLAS call runs on one thread; :func:`matmul` gets the other cores back by handing
blocks of rows, whose size does not depend on the number of threads, to a pool. torch has an OpenMP and a BLAS of its
own, and so a limit of its own: :func:`one_torch_thread`.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from contextvars import Context
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

ROWS_PER_BLOCK = 256
# Below this number of multiply-adds the pool costs more than it saves.
SMALLEST_PARALLEL_PRODUCT = 1 << 22
# Of a compiled loop: so many parts that a slow one does not leave the other threads idle, and none too small.
PARTS_PER_THREAD, SMALLEST_PART = 8, 32

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_lock = threading.Lock()
_depth = 0
# .pool: the thread has a part of a parallel_map, and must not wait for another; .blas_depth and .torch_depth: its open
# blocks
_inside = threading.local()
_threads_before: list[tuple[Any, int]] = []
_n_torch_blocks = 0  # blocks of one_torch_thread that are open, in all threads
_torch_threads_before = 1  # torch's number of threads when the first of them was entered


@contextmanager
def fixed_order_blas() -> Iterator[None]:
    """Within the block, BLAS computes on one thread, so that no sum depends on the number of threads.

    Blocks may be nested and may run in several threads at once: the limit is lifted when the last one ends. A BLAS that
    is built on OpenMP keeps a number for each thread; there every thread that enters a block sets its own.

    Examples
    --------
    >>> with fixed_order_blas():
    ...     product = np.ones((2, 3)) @ np.ones((3, 2))
    """
    global _depth
    own_depth: int = getattr(_inside, "blas_depth", 0)
    own_before: list[tuple[Any, int]] = []
    with _lock:
        _depth += 1
        if _depth == 1 or own_depth == 0:
            for library in _blas_libraries(len(sys.modules)):
                if library.threading_layer == "openmp":
                    if own_depth == 0:
                        own_before.append(_limited(library))
                elif _depth == 1:
                    _threads_before.append(_limited(library))
    _inside.blas_depth = own_depth + 1
    try:
        yield
    finally:
        _inside.blas_depth = own_depth
        _restore(own_before)
        with _lock:
            _depth -= 1
            if _depth == 0:
                _restore(_threads_before)


def _limited(library: Any) -> tuple[Any, int]:
    """Set a BLAS to one thread; returns it and the number it had."""
    before = int(library.get_num_threads())
    library.set_num_threads(1)
    return library, before


def _restore(threads_before: list[tuple[Any, int]]) -> None:
    while threads_before:
        library, before = threads_before.pop()
        library.set_num_threads(before)


def single_threaded_blas(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: run the function inside :func:`fixed_order_blas`."""
    return fixed_order_blas()(function)


def n_threads() -> int:
    """How many threads the library may use: numba's number where it is loaded, otherwise that of the environment.

    ``NUMBA_NUM_THREADS`` and ``OMP_NUM_THREADS`` set it; the default is one thread per core.
    """
    if (most := getattr(_inside, "most", None)) is not None:
        return int(most)
    numba = sys.modules.get("numba")
    if numba is not None and hasattr(numba, "get_num_threads"):
        return int(numba.get_num_threads())
    for variable in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        if (value := os.environ.get(variable, "")).isdigit():
            return max(1, int(value))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def at_most_threads(most: int) -> Iterator[None]:
    """Within the block, in the thread that enters it, the library uses that many threads.

    Examples
    --------
    >>> with at_most_threads(1):
    ...     n_threads()
    1
    """
    before = getattr(_inside, "most", None)
    _inside.most = most
    try:
        yield
    finally:
        _inside.most = before


def parallel_map(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``[function(item) for item in items]`` in up to :func:`n_threads` threads; for functions that release the GIL."""
    workers = min(n_threads(), len(items))
    if workers < 2 or getattr(_inside, "pool", False):
        return [function(item) for item in items]
    found: list[Any] = [None] * len(items)
    left = iter(range(len(items)))
    like_caller = fixed_order_blas if getattr(_inside, "blas_depth", 0) else nullcontext

    def work() -> None:
        _inside.pool = True
        try:
            with like_caller():
                for at in left:
                    found[at] = function(items[at])
        finally:
            for _ in left:  # after an error nothing further begins
                pass

    # A thread of the pool that takes one item after the other is called once, and the calling thread, which would
    # wait, is one of them. It takes none of its context along, as the others do not.
    others = [_pool(os.getpid(), n_threads()).submit(work) for _ in range(workers - 1)]
    try:
        Context().run(work)
    finally:
        _inside.pool = False
        begun = [other for other in others if not other.cancel()]
        wait(begun)
    for other in begun:
        other.result()
    return found


def parallel_for(loop: Callable[..., R], n: int, *arguments: Any) -> list[R]:
    """``loop(start, stop, *arguments)`` for consecutive parts of ``range(n)``, in order; compiled with ``nogil``.

    The work space of the loop belongs to the part, so only as many exist at once as there are threads.
    """
    n_parts = max(1, min(PARTS_PER_THREAD * n_threads(), n // SMALLEST_PART))
    return parallel_map(lambda part: loop(n * part // n_parts, n * (part + 1) // n_parts, *arguments), range(n_parts))


def concatenate_parts(
    loop: Callable[..., tuple[Any, Any]], n: int, *arguments: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The two arrays of a compiled loop over ``n`` rows, of all its parts (:func:`parallel_for`) together."""
    first, second = zip(*parallel_for(loop, n, *arguments), strict=True)
    return np.concatenate(first), np.concatenate(second)


def matmul(A: NDArray[Any], B: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
    """``A @ B`` on all cores, bit for bit the same for any number of threads."""
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


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Within the block, torch computes on one CPU thread.

    Blocks may be nested and may run in several threads at once: torch keeps its number for each calling thread, which
    gets its own back when it leaves a block.

    Examples
    --------
    >>> with one_torch_thread():  # doctest: +SKIP
    ...     product = torch.ones(2, 3) @ torch.ones(3, 2)
    """
    global _n_torch_blocks, _torch_threads_before
    import torch

    depth = getattr(_inside, "torch_depth", 0)
    with _lock:
        before = torch.get_num_threads()
        if _n_torch_blocks == 0:
            _torch_threads_before = before
        elif before == 1 and depth == 0:  # new to torch, a thread starts with the number that was set last: by a block
            before = _torch_threads_before
        _set_torch_threads(1)
        _n_torch_blocks += 1
    _inside.torch_depth = depth + 1
    try:
        yield
    finally:
        _inside.torch_depth = depth
        with _lock:
            _n_torch_blocks -= 1
            _set_torch_threads(before)


def _set_torch_threads(number: int) -> None:
    import torch

    if torch.get_num_threads() != number:  # setting the number empties caches of torch
        torch.set_num_threads(number)


def single_threaded_torch(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: run the function with one thread for torch and one for the BLAS of NumPy and SciPy."""
    return one_torch_thread()(single_threaded_blas(function))


@lru_cache(maxsize=1)
def _pool(process: int, workers: int) -> ThreadPoolExecutor:
    """One pool that stays: starting threads for every product would take as long as the product.

    A forked child has none of its parent's threads, so that the process is part of the key.
    """
    return ThreadPoolExecutor(workers, "pysldl")


@lru_cache(maxsize=1)
def _blas_libraries(n_modules: int) -> list[Any]:
    """The BLAS libraries that are loaded; looked up again when a module was imported since, which may bring another."""
    libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries
