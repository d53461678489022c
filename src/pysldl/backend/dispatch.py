"""Which form of a primitive runs: NumPy, numba, torch, Triton, or that for a single row. Only this module decides it.

The body of a primitive is its NumPy form, which needs nothing but the core. :func:`primitive` names its other forms:
functions of the same name and arguments in ``pysldl.backend.numba``, ``pysldl.backend.torch``,
``pysldl.backend.triton`` or :mod:`pysldl.backend.single_query`, imported when they are first used. All forms solve the
same problem to the same tolerance; ``tests/contracts/test_backends.py`` states for each how far they may differ. No
loop adds up across threads, so results do not depend on their number.
"""

import os
import warnings
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np
from scipy import sparse

from pysldl._utils.progress import announce
from pysldl.backend.device import current_device, is_tensor
from pysldl.exceptions import SLDLWarning

__all__ = ["as_int32_indices", "has_numba", "has_triton", "primitive", "use_few_rows", "uses_numba", "warn_no_numba"]

FEW_ROWS = 16

# Modules whose loops numba runs on threads of OpenMP. GNU's OpenMP does not survive a fork: numba ends a forked process
# that starts such a loop after its parent did. There, the NumPy form runs.
OPENMP_LOOPS = {
    *("conjugate_gradient", "exact", "js_divergence", "ranking_hinge", "row_adam", "sparse_product", "walk"),
}

P = ParamSpec("P")
R = TypeVar("R")


def primitive(
    *,
    numba: bool = False,
    torch: Literal["arrays", "tensors"] | None = None,
    triton: bool = False,
    single_row: Literal["numpy", "single_query"] | None = None,
    few_rows: bool = False,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: let the function, which is the NumPy form, be replaced by another form where that is faster.

    Parameters
    ----------
    numba : bool
        There is a compiled form, for where numba is installed.
    torch : {"arrays", "tensors"}, optional
        There is a torch form. ``"arrays"``: it takes NumPy arrays and runs inside
        :func:`~pysldl.backend.device.use_device`. ``"tensors"``: it runs where the first argument is on the device.
    triton : bool
        There is a form as GPU kernels of our own. Where there is no Triton to compile them, such as on Windows, the
        primitive stays on the processor.
    single_row : {"numpy", "single_query"}, optional
        The form where the first argument has one row. A service is asked row by row: for one row, threads and copies to
        a device cost more than the row, and numba takes as long to load as all the rest of a service.
    few_rows : bool
        The form of a single row takes a few, too, when its loops are compiled.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        module, name = function.__module__.rpartition(".")[2], function.__name__

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            first: Any = args[0]
            form: Callable[P, R] = function
            if single_row is not None and 1 <= first.shape[0] <= (_few_rows.most if few_rows else 1):
                if single_row == "single_query":
                    form = _form("single_query", name)
            elif triton and has_triton():
                form = _form(f"triton.{module}", name)
            elif (torch == "arrays" and current_device() is not None) or (torch == "tensors" and is_tensor(first)):
                form = _form(f"torch.{module}", name)
            elif numba and has_numba() and not (_after_fork.threads_lost and module in OPENMP_LOOPS):
                form = _form(f"numba.{module}", name)
            return form(*args, **kwargs)

        return call

    return decorate


class _FewRows:
    """How many rows the forms of a single row take: one, and a few when their loops are compiled."""

    most = 1
    uses_numba = False


_few_rows = _FewRows()


def use_few_rows() -> None:
    """Let the forms of a single row take a few rows from now on."""
    _few_rows.most = FEW_ROWS


def uses_numba() -> bool:
    """Whether this process has loaded compiled forms."""
    return _few_rows.uses_numba


class _AfterFork:
    """Whether this process was forked from one that had loaded compiled loops."""

    threads_lost = False

    def note(self) -> None:
        self.threads_lost = self.threads_lost or _form.cache_info().currsize > 0


_after_fork = _AfterFork()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork.note)


@cache
def _form(module: str, name: str) -> Any:
    if module.startswith("numba"):
        announce("compiling")  # it takes up to half a minute where the loops were never compiled before
    form = getattr(import_module(f"pysldl.backend.{module}"), name)
    _few_rows.uses_numba = _few_rows.uses_numba or module.startswith("numba")
    return form


@cache
def has_numba() -> bool:
    """Whether numba is there to compile the loops."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def has_triton() -> bool:
    """Whether the device in use is a GPU for which Triton, which comes with torch there, can compile kernels."""
    return getattr(current_device(), "type", None) == "cuda" and find_spec("triton") is not None


@cache
def warn_no_numba() -> None:
    """Warn, once, that the NumPy forms are slow."""
    if not has_numba():
        warnings.warn(
            "numba is not installed: the results are the same, but fitting and searching run on one core and take "
            'several times as long. To speed them up: pip install "pysldl[fast]".',
            SLDLWarning,
            stacklevel=3,
        )


def as_int32_indices(matrix: sparse.csr_array) -> sparse.csr_array:
    """The matrix with 32-bit indices, half the memory, where they suffice."""
    if max(matrix.nnz, *matrix.shape) < np.iinfo(np.int32).max:
        matrix.indices = matrix.indices.astype(np.int32, copy=False)
        matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
    return matrix
