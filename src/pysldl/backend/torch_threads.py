"""torch on one CPU thread, so that no sum depends on the number of threads.

What :func:`pysldl.backend.threads.fixed_order_blas` does for NumPy and SciPy. torch needs its own limit: it comes with
an OpenMP and a BLAS of its own, and splits reductions as well as products by the number of its threads.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from pysldl.backend.threads import fixed_order_blas

__all__ = ["one_torch_thread", "single_threaded_torch"]

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.Lock()
_n_inside = 0  # threads of the program that are inside a block
_n_before = 1  # torch's number of threads when the first of them entered
_of_thread = threading.local()


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Within the block, torch computes on one CPU thread.

    Blocks may be nested and may run in several threads at once. Part of torch's number belongs to the calling thread
    (OpenMP) and part to the process (MKL): a thread gets its own part back when it leaves its outermost block, the
    process when the last thread leaves.

    Examples
    --------
    >>> with one_torch_thread():  # doctest: +SKIP
    ...     product = torch.ones(2, 3) @ torch.ones(3, 2)
    """
    depth = getattr(_of_thread, "depth", 0)
    if depth == 0:
        _enter()
    _of_thread.depth = depth + 1
    try:
        yield
    finally:
        _of_thread.depth = depth
        if depth == 0:
            _leave()


def single_threaded_torch(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: run the function with one thread for torch and one for the BLAS of NumPy and SciPy."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with fixed_order_blas(), one_torch_thread():
            return function(*args, **kwargs)

    return wrapped


def _enter() -> None:
    global _n_inside, _n_before
    import torch

    with _lock:
        libraries = [(library, library.get_num_threads()) for library in _openmp_libraries(len(sys.modules))]
        if _n_inside == 0:
            _n_before = torch.get_num_threads()
        torch.set_num_threads(1)
        _n_inside += 1
        # Those whose number has changed are torch's.
        _of_thread.limited = [library for library, before in libraries if library.get_num_threads() != before]


def _leave() -> None:
    global _n_inside
    import torch

    with _lock:
        _n_inside -= 1
        if _n_inside == 0:
            torch.set_num_threads(_n_before)
        else:  # torch's own function would also set the number of the process, and others still need one thread
            for library in _of_thread.limited:
                library.set_num_threads(_n_before)


@cache
def _openmp_libraries(n_modules: int) -> list[Any]:
    """The OpenMP libraries that are loaded; looked up again when a module was imported since."""
    return ThreadpoolController().select(user_api="openmp").lib_controllers
