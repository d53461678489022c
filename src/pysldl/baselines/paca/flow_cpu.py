"""The sigmoidal flow of points for a few labels as one function with a gradient by hand, for CPUs.

Products of large matrices are torch's and leave out what masks make zero; what comes after them is compiled
(``flow_loops``). Of a row and a label it keeps the hidden units and the outputs of the conditioner, nothing of the map.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import elu

from pysldl.backend.threads import parallel_map
from pysldl.baselines.paca.flow_loops import SEGMENTS, backward, forward

__all__ = ["bend"]

ROWS = 128  # of a block, at least: enough for long loops
LANES = 8  # of a vector instruction; a block of rows is a multiple
ROWS_OF_A_THREAD = 2**15  # some ms of work, against what waiting for a thread costs on a busy machine


def bend(
    z: Tensor,
    of_points: Tensor,
    of_labels: Tensor,
    weight: Tensor,
    reach: list[tuple[int, int]],
    last: Tensor,
    offsets: Tensor,
) -> tuple[Tensor, Tensor]:
    """The mapped points and the logarithms of the slopes, of shape (n_chunk, batch, D).

    Parameters
    ----------
    z : Tensor of shape (batch, D)
    of_points : Tensor of shape (batch, width)
    of_labels : Tensor of shape (n_chunk, width)
        The hidden layer is ``elu(of_points + of_labels)``, of every row and label.
    weight : Tensor of shape (D * n_outputs, width)
        Of the layer after it, which has no bias.
    reach : list of (n_dimensions, n_units)
        All the first ``n_dimensions`` take from hidden units lies in the first ``n_units``: an increasing sequence up
        to D, between whose members the product leaves out what is zero.
    last : Tensor of shape (3 * N, n_outputs)
        Of the layer after that, the same for every dimension.
    offsets : Tensor of shape (D, 3 * N)
        Its biases.
    """
    return _Bend.apply(z, of_points, of_labels, weight, reach, last, offsets)


class _Bend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        of_points: Tensor,
        of_labels: Tensor,
        weight: Tensor,
        reach: list[tuple[int, int]],
        last: Tensor,
        offsets: Tensor,
    ) -> tuple[Tensor, Tensor]:
        units = elu(of_points + of_labels.unsqueeze(1), inplace=True).flatten(0, 1)
        n_outputs = last.shape[1]
        outputs = units.new_empty(len(units), len(weight))
        for columns, n_units in _steps(reach, n_outputs):
            torch.mm(units[:, :n_units], weight[columns, :n_units].T, out=outputs[:, columns])
        mapped = units.new_empty(len(of_labels), *z.shape)
        log_slope = torch.empty_like(mapped)
        _in_threads(
            forward, mapped.numel(),
            _flat(z), _rows(outputs, n_outputs), _numbers(last), _block_of(offsets), _flat(mapped), _flat(log_slope),
        )  # fmt: skip
        ctx.save_for_backward(z, units, weight, outputs, last, offsets)
        ctx.reach = reach
        return mapped, log_slope

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Any, ...]:
        z, units, weight, outputs, last, offsets = ctx.saved_tensors
        n_outputs = last.shape[1]
        of_z = torch.empty_like(outer[0], memory_format=torch.contiguous_format)
        of_outputs = torch.empty_like(outputs)
        of_last = np.zeros((SEGMENTS, *last.shape), dtype=np.float32)
        repeated = _block_of(offsets)
        of_repeated = np.zeros((SEGMENTS, *repeated.shape), dtype=np.float32)
        _in_threads(
            backward, of_z.numel(),
            _flat(outer[0]), _flat(outer[1]), _flat(z), _rows(outputs, n_outputs), _numbers(last), repeated,
            _flat(of_z), _rows(of_outputs, n_outputs), of_last, of_repeated,
        )  # fmt: skip
        of_offsets = of_repeated.sum(axis=0).reshape(len(last), -1, len(offsets)).sum(axis=1).T
        of_weight = torch.zeros_like(weight)
        of_units = torch.zeros_like(units)
        for columns, n_units in _steps(ctx.reach, n_outputs):
            torch.mm(of_outputs[:, columns].T, units[:, :n_units], out=of_weight[columns, :n_units])
            of_units[:, :n_units].addmm_(of_outputs[:, columns], weight[columns, :n_units])
        # The exponential below zero is its own derivative, and what is above has the derivative 1.
        of_units.mul_(units.clamp_max(0.0).add_(1.0))
        of_units = of_units.unflatten(0, (-1, len(z)))
        return (
            of_z.sum(dim=0), of_units.sum(dim=0), of_units.sum(dim=1), of_weight, None,
            torch.from_numpy(of_last.sum(axis=0)), torch.from_numpy(of_offsets),
        )  # fmt: skip


def _steps(reach: list[tuple[int, int]], n_outputs: int) -> list[tuple[slice, int]]:
    """Columns of the outputs, and how many hidden units they take from."""
    starts = [0, *(n_dimensions for n_dimensions, _ in reach[:-1])]
    return [
        (slice(start * n_outputs, stop * n_outputs), n_units)
        for start, (stop, n_units) in zip(starts, reach, strict=True)
    ]


@contextmanager
def _flushing() -> Iterator[None]:
    """Numbers too small for full precision are 0 here, in this thread.

    The maps of a trained network are flat in most places, which makes many of them, and a processor takes a hundred
    times as long for each.
    """
    before = bool(np.float32(1e-40) * np.float32(1.0) == 0.0)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def _in_threads(loop: Any, n_rows: int, *arguments: Any) -> None:
    """``loop(start, stop, ...)`` over the segments, in as many threads as there may be and the rows are worth."""

    def run(part: tuple[int, int]) -> None:
        with _flushing():
            loop(*part, *arguments)

    n_parts = min(SEGMENTS, max(1, n_rows // ROWS_OF_A_THREAD))
    parallel_map(run, list(pairwise(SEGMENTS * part // n_parts for part in range(n_parts + 1))))


def _block_of(offsets: Tensor) -> Any:
    """The offsets of the rows of one block, of shape (3 * N, n_block): dimensions repeat in every block alike."""
    dim = len(offsets)
    block = math.lcm(dim, LANES)
    return np.tile(_numbers(offsets.T), -(-ROWS // block) * (block // dim))


def _flat(x: Tensor) -> Any:
    return x.detach().contiguous().view(-1).numpy()


def _rows(x: Tensor, width: int) -> Any:
    return x.detach().view(-1, width).numpy()


def _numbers(x: Tensor) -> Any:
    return x.detach().contiguous().numpy()
