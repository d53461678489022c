"""Sums over all labels of terms that are too large to hold for more than a few labels at once."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from pysldl.baselines.deep import label_slices

__all__ = ["half_products", "labels_at_once", "narrow", "sum_over_labels"]

# Of the largest intermediate of a slice. On a CPU it should stay near the caches, a GPU wants long products.
BYTES_ON_CPU = 8 << 20
BYTES_ON_GPU = 256 << 20


def labels_at_once(x: Tensor, width: int) -> int:
    """Labels whose intermediates of shape (n_chunk, len(x), width) suit the device of ``x``; at least 1."""
    budget = BYTES_ON_GPU if x.is_cuda else BYTES_ON_CPU
    return max(1, budget // (4 * width * max(len(x), 1)))


def narrow(x: Tensor) -> Tensor:
    """In half precision (bfloat16) on a GPU, which spends its time on moving these tensors; as it is on a CPU."""
    return x.bfloat16() if x.is_cuda else x


def half_products(where: torch.device) -> Any:
    """A context in which a GPU multiplies matrices in half precision; nothing changes on a CPU."""
    return torch.autocast(where.type, torch.bfloat16, enabled=where.type == "cuda", cache_enabled=False)


def sum_over_labels(
    term: Callable[..., Tensor], *shared: Tensor, parameters: Iterable[Tensor], n_labels: int, chunk: int
) -> Tensor:
    """The scalar ``sum(term(labels, *shared))`` over slices of ``chunk`` labels, in the memory of one slice.

    The gradient of a slice is taken as soon as its term is known, and its intermediates are dropped: nothing is
    computed twice, and what is kept are sums of gradients with the shapes of ``shared`` and ``parameters``. On a GPU
    products of matrices are taken in half precision; weights, gradients of weights and the sum are not.

    Parameters
    ----------
    term : callable
        ``term(labels, *shared)`` for a slice of the labels: a scalar. It must reach tensors that gradients flow
        into only through ``shared`` or ``parameters``.
    *shared : Tensor
        What the slices have in common, such as the output of an encoder.
    parameters : iterable of Tensor
        Leaves that ``term`` uses itself.
    n_labels, chunk : int
    """

    def mixed(labels: slice, *shared: Tensor) -> Tensor:
        with half_products(shared[0].device):
            return term(labels, *shared)

    slices = label_slices(n_labels, chunk)
    if len(slices) == 1 or not torch.is_grad_enabled():
        return torch.stack([mixed(labels, *shared) for labels in slices]).sum()
    return _EagerSum.apply(mixed, slices, len(shared), *shared, *parameters)


class _EagerSum(torch.autograd.Function):
    """A sum that knows its gradient when its value is known."""

    @staticmethod
    def forward(ctx: Any, term: Callable[..., Tensor], slices: list[slice], n_shared: int, *tensors: Tensor) -> Tensor:
        shared = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors[:n_shared]]
        inputs = [*shared, *tensors[n_shared:]]
        wanted = [position for position, tensor in enumerate(inputs) if tensor.requires_grad]
        values: list[Tensor] = []
        sums: dict[int, Tensor] = {}
        for labels in slices:
            with torch.enable_grad():
                value = term(labels, *shared)
                gradients = torch.autograd.grad(value, [inputs[p] for p in wanted], allow_unused=True)
            values.append(value.detach())
            for position, gradient in zip(wanted, gradients, strict=True):
                if gradient is None:
                    continue
                if position in sums:
                    sums[position] += gradient
                else:
                    sums[position] = gradient.to(torch.promote_types(gradient.dtype, torch.float32), copy=True)
        ctx.gradients = [sums.get(position) for position in range(len(inputs))]
        return torch.stack(values).sum()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Any, ...]:
        gradients = [None if gradient is None else gradient * outer[0] for gradient in ctx.gradients]
        ctx.gradients = []
        return None, None, None, *gradients
