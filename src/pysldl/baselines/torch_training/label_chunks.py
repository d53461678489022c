"""Sums over all labels of terms that are too large to hold for more than a few labels at once."""

import subprocess
import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import cache
from typing import Any

import torch
from torch import Tensor

from pysldl.backend.threads import n_threads, one_torch_thread, parallel_map
from pysldl.exceptions import DataError

# Of the largest intermediate of a slice. On a CPU it should stay near the caches, a GPU works best on long products.
BYTES_ON_CPU = 8 << 20
BYTES_ON_GPU = 256 << 20

Gradient = tuple[int, slice, Tensor]
"""Position of an input, the rows of it, and their gradient."""


def labels_at_once(x: Tensor, width: int) -> int:
    """Labels whose intermediates of shape (n_chunk, len(x), width) suit the device of ``x``; at least 1."""
    budget = BYTES_ON_GPU if x.is_cuda else BYTES_ON_CPU
    return max(1, budget // (4 * width * max(len(x), 1)))


def label_slices(n_labels: int, chunk: int) -> list[slice]:
    """Slices of at most ``chunk`` labels that cover all of them."""
    return [slice(start, min(start + chunk, n_labels)) for start in range(0, n_labels, chunk)]


def narrow(x: Tensor, half: bool) -> Tensor:
    """In half precision (bfloat16) where products are; a GPU spends its time on moving these tensors."""
    return x.bfloat16() if half else x


def half_products(where: torch.device, half: bool) -> Any:
    """A context in which matrices are multiplied in half precision, or nothing changes."""
    return torch.autocast(where.type, torch.bfloat16, enabled=half, cache_enabled=False)


def require_half_products() -> None:
    """Refuse half precision on a CPU that is not made for it, or if the system keeps it from programs."""
    if not _cpu_multiplies_in_half():
        raise DataError(
            "half_precision=True on a CPU needs one with AMX that the system lets programs use, which is not so here: "
            "use half_precision='auto' or False."
        )


@cache
def _cpu_multiplies_in_half() -> bool:
    """Tried in a process of its own, since a system that hides AMX ends the process that uses it."""
    has_amx = getattr(torch.cpu, "_is_amx_tile_supported", bool)()
    trial = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); (a @ a).sum().item()"
    return has_amx and subprocess.run([sys.executable, "-c", trial], capture_output=True).returncode == 0


def in_slices(part: Callable[[slice], Tensor], n_rows: int, n_labels: int, chunk: int) -> Tensor:
    """``part(labels)`` of shape (n_rows, n_chunk) for slices of ``chunk`` labels, side by side: (n_rows, n_labels).

    Written into their place at once. Kept apart until the end, each of these small tensors would lie behind large ones
    that were freed before it, and keep their memory from being used again: a gigabyte for a thousand labels.
    """
    first, *others = label_slices(n_labels, chunk)
    found = part(first)
    joined = found.new_empty(n_rows, n_labels)
    joined[:, first] = found
    for labels in others:
        joined[:, labels] = part(labels)
    return joined


def sum_over_labels(
    term: Callable[..., Tensor],
    *shared: Tensor,
    parameters: Iterable[Tensor],
    n_labels: int,
    chunk: int,
    half: bool = False,
) -> Tensor:
    """Compute the scalar ``sum(term(labels, *shared))`` over slices of ``chunk`` labels, holding one slice per thread.

    The gradient of a slice is taken as soon as its term is known, and its intermediates are dropped: nothing is
    computed twice, and what is kept are sums of gradients with the shapes of ``shared`` (what slices have in common,
    such as the output of an encoder) and ``parameters`` (leaves that ``term`` uses itself). Gradients must reach other
    tensors only through these. From those that have a row for every label, ``term`` should take the rows of its slice
    by :func:`of_labels`.

    On a CPU as many slices as there are threads are computed at the same time, each on one thread, and their gradients
    are added in the order of the slices: the sum does not depend on the number of threads. With ``half``, matrices are
    multiplied in half precision; weights, gradients of weights and the sum are in single precision.
    """

    def mixed(labels: slice, *shared: Tensor) -> Tensor:
        with half_products(shared[0].device, half):
            return term(labels, *shared)

    slices = label_slices(n_labels, chunk)
    if len(slices) == 1 or not torch.is_grad_enabled():
        return torch.stack([mixed(labels, *shared) for labels in slices]).sum()
    return _EagerSum.apply(mixed, slices, len(shared), *shared, *parameters)


def of_labels(tensor: Tensor, labels: slice) -> Tensor:
    """``tensor[labels]``, where ``tensor`` is shared by the terms of :func:`sum_over_labels` or a parameter of them.

    The gradient of a plain slice has the shape of the whole tensor, and is zero but for the slice: to fill and add one
    for every few labels takes time that grows with the square of their number. The gradient of what this returns has
    the shape of the slice, and is added where the slice is.
    """
    of_slice = _ADDING_UP.get()
    return tensor[labels] if of_slice is None else of_slice.rows(tensor, labels)


class _SliceTerm:
    """The term of one slice of the labels, and the gradients of the ``inputs``, given by their position."""

    def __init__(self, labels: slice, inputs: dict[int, Tensor]) -> None:
        self.labels = labels
        self.inputs = inputs
        self._positions = {id(tensor): position for position, tensor in inputs.items()}
        self._taken: dict[int, Tensor] = {}

    def rows(self, tensor: Tensor, labels: slice) -> Tensor:
        """The rows of a slice, as a leaf that has a gradient of its own."""
        position = self._positions.get(id(tensor))
        if position is None or labels != self.labels:
            return tensor[labels]
        if position not in self._taken:
            self._taken[position] = tensor.detach()[labels].requires_grad_()
        return self._taken[position]

    def compute(self, term: Callable[[slice], Tensor]) -> tuple[Tensor, list[Gradient]]:
        """The value of the term, and the gradients of what it has used."""
        token = _ADDING_UP.set(self)
        try:
            with torch.enable_grad():
                value = term(self.labels)
        finally:
            _ADDING_UP.reset(token)
        leaves = [
            *((position, slice(None), tensor) for position, tensor in self.inputs.items()),
            *((position, self.labels, rows) for position, rows in self._taken.items()),
        ]
        gradients = torch.autograd.grad(value, [leaf for _, _, leaf in leaves], allow_unused=True)
        found = zip(leaves, gradients, strict=True)
        return value.detach(), [(position, rows, g) for (position, rows, _), g in found if g is not None]


_ADDING_UP: ContextVar[_SliceTerm | None] = ContextVar("_ADDING_UP", default=None)


class _EagerSum(torch.autograd.Function):
    """A sum that knows its gradient when its value is known."""

    @staticmethod
    def forward(ctx: Any, term: Callable[..., Tensor], slices: list[slice], n_shared: int, *tensors: Tensor) -> Tensor:
        shared = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors[:n_shared]]
        tracked = {
            position: tensor for position, tensor in enumerate([*shared, *tensors[n_shared:]]) if tensor.requires_grad
        }
        # Made before the first slice: between its intermediates they would keep that memory from being used again.
        sums = {
            position: torch.zeros_like(tensor, dtype=torch.promote_types(tensor.dtype, torch.float32))
            for position, tensor in tracked.items()
        }
        used: set[int] = set()
        values = torch.empty(len(slices), device=shared[0].device)
        n_at_once = n_threads() if shared[0].device.type == "cpu" else 1

        def compute(labels: slice) -> tuple[Tensor, list[Gradient]]:
            with one_torch_thread():  # its number is one of every thread, so that each has to set it
                return _SliceTerm(labels, tracked).compute(lambda labels: term(labels, *shared))

        for start in range(0, len(slices), n_at_once):
            found = parallel_map(compute, slices[start : start + n_at_once])
            for number, (value, gradients) in enumerate(found, start):
                values[number] = value
                for position, rows, gradient in gradients:
                    sums[position][rows].add_(gradient)
                    used.add(position)
        ctx.gradients = [sums[position] if position in used else None for position in range(len(tensors))]
        return values.sum()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Any, ...]:
        gradients = [None if gradient is None else gradient.mul_(outer[0]) for gradient in ctx.gradients]
        ctx.gradients = []
        return None, None, None, *gradients
