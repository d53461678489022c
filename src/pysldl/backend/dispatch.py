"""Where the heavy loops run, and which form of a primitive: NumPy, numba, torch, Triton, or that for a single row.

Only this module decides it. The body of a primitive is its NumPy form, which needs nothing but the core.
:func:`primitive` names its other forms: functions of the same name and arguments in ``pysldl.backend.numba``,
``pysldl.backend.torch``, ``pysldl.backend.triton`` or :mod:`pysldl.backend.single_query`, imported when they are first
used. All forms solve the same problem to the same tolerance; ``tests/contracts/test_backends.py`` states for each how
far they may differ. No loop adds up across threads, so results do not depend on their number.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from pysldl._utils.progress import announce
from pysldl.exceptions import DataError, MissingDependencyError, SLDLWarning

_chosen: ContextVar[Any] = ContextVar("device", default=None)
_copies: ContextVar[dict[Any, Any] | None] = ContextVar("copies", default=None)

FEW_ROWS = 16
# Modules whose loops numba runs on threads of OpenMP. GNU's OpenMP does not survive a fork: numba ends a forked process
# that starts such a loop after its parent did. There, the NumPy form runs.
OPENMP_LOOPS = {"divergence", "exact", "label_embedding", "linear_algebra"}

P = ParamSpec("P")
R = TypeVar("R")


def current_device() -> Any:
    """The torch device of the enclosing :func:`use_device`; None on the processor."""
    return _chosen.get()


@contextmanager
def use_device(device: str) -> Iterator[None]:
    """Within the block, run the heavy loops of the stages on ``device``.

    :class:`~pysldl.SLDLClassifier` does this with its parameter ``device``; a stage on its own can be wrapped in it.

    Examples
    --------
    >>> with use_device("cpu"):
    ...     print(current_device())
    None
    """
    token, copies = _chosen.set(find_device(device)), _copies.set({})
    try:
        yield
    finally:
        _chosen.reset(token)
        _copies.reset(copies)


def device_copies() -> dict[Any, Any]:
    """What was copied to the device and stays there until the enclosing :func:`use_device` ends; else forgotten."""
    found = _copies.get()
    return {} if found is None else found


def find_device(name: str) -> Any:
    """The torch device of that name, or None for ``"cpu"``, which needs no torch."""
    if name == "cpu":
        return None
    if not isinstance(name, str) or name.split(":")[0] != "cuda":
        raise DataError(f"device must be 'cpu', 'cuda' or 'cuda:' and a number, but is {name!r}.")
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(
            f"device={name!r} needs torch, which is not installed: pip install \"pysldl[deep]\", or use device='cpu'."
        ) from error
    number = name.partition(":")[2] or "0"
    if not torch.cuda.is_available() or not number.isdigit() or int(number) >= torch.cuda.device_count():
        raise DataError(f"device={name!r} was asked for, but torch finds no such GPU here: use device='cpu'.")
    return torch.device(name)


def is_tensor(array: Any) -> bool:
    """Whether an array lies on the device, as a tensor of torch; without importing torch."""
    return type(array).__module__.partition(".")[0] == "torch"


def to_device(array: Any, dtype: DTypeLike | None = None) -> Any:
    """The array where :func:`use_device` computes: a tensor there, itself on the processor; of a type, if given."""
    if current_device() is None:
        return array if dtype is None else array.astype(dtype, copy=False)
    from pysldl.backend.torch.arrays import as_tensor, torch_type

    return as_tensor(array, None if dtype is None else torch_type(dtype))


def to_host(array: Any) -> NDArray[Any]:
    """A NumPy array of an array that may lie on the device."""
    return array.cpu().numpy() if is_tensor(array) else np.asarray(array)


def primitive(
    *,
    numba: bool = False,
    torch: Literal["arrays", "tensors"] | None = None,
    triton: bool = False,
    single_row: Literal["numpy", "single_query"] | None = None,
    few_rows: bool = False,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: let the function, which is the NumPy form, be replaced by another form where that is faster.

    ``numba`` is a compiled form. ``torch`` is a form that takes NumPy arrays inside :func:`use_device` (``"arrays"``),
    or that runs where the first argument is on the device (``"tensors"``). ``triton`` is a form as GPU kernels of our
    own; where nothing compiles them, as on Windows, the primitive stays on the processor. ``single_row`` is the form
    where the first argument has one row: a service is asked row by row, threads and copies to a device cost more than
    one row, and numba takes as long to load as all the rest of a service. With ``few_rows`` that form takes a few, once
    compiled.
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
