"""Where the heavy loops run: on the processor, or through torch on a GPU."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pysldl.exceptions import DataError, MissingDependencyError

__all__ = ["current_device", "device_copies", "find_device", "is_tensor", "to_device", "to_host", "use_device"]

_chosen: ContextVar[Any] = ContextVar("device", default=None)
_copies: ContextVar[dict[Any, Any] | None] = ContextVar("copies", default=None)


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
    """The array where the enclosing :func:`use_device` computes: a tensor there, itself on the processor.

    Parameters
    ----------
    array : ndarray, or tensor on the device
    dtype : optional
        A NumPy type to convert to.
    """
    if current_device() is None:
        return array if dtype is None else array.astype(dtype, copy=False)
    from pysldl.backend.torch.arrays import as_tensor, torch_type

    return as_tensor(array, None if dtype is None else torch_type(dtype))


def to_host(array: Any) -> NDArray[Any]:
    """A NumPy array of an array that may lie on the device."""
    return array.cpu().numpy() if is_tensor(array) else np.asarray(array)
