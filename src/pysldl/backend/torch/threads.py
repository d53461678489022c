"""torch on one CPU thread, so that no sum depends on the number of threads.

What :func:`pysldl.backend.threads.fixed_order_blas` does for NumPy and SciPy. torch needs its own limit: it comes with
an OpenMP and a BLAS of its own, and splits reductions as well as products by the number of its threads.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from pysldl.backend.threads import fixed_order_blas

__all__ = ["one_torch_thread", "single_threaded_torch"]

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.Lock()
_n_inside = 0  # blocks that are open, in all threads
_n_before = 1  # torch's number of threads when the first of them was entered
_of_thread = threading.local()  # .depth: those of the calling thread


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
    global _n_inside, _n_before
    import torch

    depth = getattr(_of_thread, "depth", 0)
    with _lock:
        before = torch.get_num_threads()
        if _n_inside == 0:
            _n_before = before
        elif before == 1 and depth == 0:  # new to torch, a thread starts with the number that was set last: by a block
            before = _n_before
        _set(1)
        _n_inside += 1
    _of_thread.depth = depth + 1
    try:
        yield
    finally:
        _of_thread.depth = depth
        with _lock:
            _n_inside -= 1
            _set(before)


def _set(number: int) -> None:
    import torch

    if torch.get_num_threads() != number:  # setting the number empties caches of torch
        torch.set_num_threads(number)


def single_threaded_torch(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: run the function with one thread for torch and one for the BLAS of NumPy and SciPy."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with fixed_order_blas(), one_torch_thread():
            return function(*args, **kwargs)

    return wrapped
