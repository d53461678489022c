"""Where the heavy loops run: on the processor, or through torch on a graphics card."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pysldl.exceptions import DataError, MissingDependencyError

__all__ = ["current_device", "find_device", "use_device"]

_chosen: ContextVar[Any] = ContextVar("device", default=None)


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
    token = _chosen.set(find_device(device))
    try:
        yield
    finally:
        _chosen.reset(token)


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
