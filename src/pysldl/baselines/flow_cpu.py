"""The sigmoidal flow of points for a few labels as one function with a gradient by hand, for CPUs.

What the conditioner says of a row, a label and a dimension goes through one thin linear layer into the map of
``sigmoidal``. Both are one compiled loop here: for some hundred of them at a time the product is taken, mapped and
forgotten, so that its 48 numbers never leave the caches. Nothing of it is kept for the gradient, since it is cheaper to
compute again than to read.

Exponentials and logarithms are polynomials that the compiler turns into vector instructions, good to about two units
in the last place of single precision: no library's are called, and they take half of the time.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from llvmlite import ir  # type: ignore[import-untyped]
from numba import get_num_threads, njit, types
from numba.extending import intrinsic
from torch import Tensor
from torch.nn.functional import elu

from pysldl.baselines.sigmoidal import DELTA, SMALLEST

__all__ = ["N", "bend"]

N = 16
"""Components of the maps that are compiled."""

ROWS = 128  # at least so many are worked on together, in the caches
LANES = 8  # of a vector instruction; a block of rows is a multiple
SEGMENTS = 16  # of the rows; gradients of weights are added up within each, whatever the number of threads

ZERO, HALF, ONE, TWO = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(2.0)
DELTA_32, SMALLEST_32 = np.float32(DELTA), np.float32(SMALLEST)
LOG2_E, LOG_2, INFINITE = np.float32(1.44269504), np.float32(0.69314718), np.float32(np.inf)
# The logarithm of 2 in two pieces: the first has so few digits that whole multiples of it are exact.
LOG_2_HIGH, LOG_2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
# Sums may be reordered and products fused.
COMMON: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy"}
SMALLEST_EXPONENT = np.float32(-87.0)  # of a number that single precision holds in full


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
            _forward,
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
            _backward,
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


def _in_threads(loop: Any, *arguments: Any) -> None:
    """``loop(start, stop, ...)`` over the segments, in as many threads as numba is allowed."""
    n_threads = get_num_threads()
    if n_threads == 1:
        loop(0, SEGMENTS, *arguments)
        return
    with ThreadPoolExecutor(n_threads) as threads:
        list(threads.map(lambda segment: loop(segment, segment + 1, *arguments), range(SEGMENTS)))


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


@intrinsic
def _power_of_two(typing_context, whole):  # type: ignore[no-untyped-def]
    """2 to a whole number in single precision: that number written where a float keeps its exponent."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        number = builder.fptosi(arguments[0], ir.IntType(32))
        biased = builder.add(number, ir.Constant(ir.IntType(32), 127))
        return builder.bitcast(builder.shl(biased, ir.Constant(ir.IntType(32), 23)), ir.FloatType())

    return types.float32(types.float32), generate


@intrinsic
def _exponent(typing_context, x):  # type: ignore[no-untyped-def]
    """The whole number e of a positive ``x = 2**e * rest`` with a rest in [1, 2)."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        bits = builder.bitcast(arguments[0], ir.IntType(32))
        biased = builder.lshr(bits, ir.Constant(ir.IntType(32), 23))
        return builder.sitofp(builder.sub(biased, ir.Constant(ir.IntType(32), 127)), ir.FloatType())

    return types.float32(types.float32), generate


@intrinsic
def _rest(typing_context, x):  # type: ignore[no-untyped-def]
    """That rest."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        bits = builder.bitcast(arguments[0], ir.IntType(32))
        digits = builder.and_(bits, ir.Constant(ir.IntType(32), 0x7FFFFF))
        return builder.bitcast(builder.or_(digits, ir.Constant(ir.IntType(32), 0x3F800000)), ir.FloatType())

    return types.float32(types.float32), generate


@njit(inline="always", **COMMON)
def _exponential(x):  # type: ignore[no-untyped-def]
    """For x of at most 0, as all are here; what is not a number stays so."""
    x = SMALLEST_EXPONENT if x < SMALLEST_EXPONENT else x
    whole = np.floor(x * LOG2_E + np.float32(0.5))
    r = x - whole * LOG_2_HIGH - whole * LOG_2_LOW
    series = np.float32(1.9875691500e-4)
    series = series * r + np.float32(1.3981999507e-3)
    series = series * r + np.float32(8.3334519073e-3)
    series = series * r + np.float32(4.1665795894e-2)
    series = series * r + np.float32(1.6666665459e-1)
    series = series * r + np.float32(5.0000001201e-1)
    return (series * r * r + r + ONE) * _power_of_two(whole)


@njit(inline="always", **COMMON)
def _log_of_one_plus(e):  # type: ignore[no-untyped-def]
    """For e in [0, 1], by the series of the area tangent of ``e / (2 + e)``, at most 1/3."""
    s = e / (TWO + e)
    t = s * s
    series = np.float32(2 / 13)
    series = series * t + np.float32(2 / 11)
    series = series * t + np.float32(2 / 9)
    series = series * t + np.float32(2 / 7)
    series = series * t + np.float32(2 / 5)
    series = series * t + np.float32(2 / 3)
    return s * (series * t + TWO)


@njit(inline="always", **COMMON)
def _logarithm(x):  # type: ignore[no-untyped-def]
    """For positive x; what is not a number stays so."""
    return _exponent(x) * LOG_2 + _log_of_one_plus(_rest(x) - ONE) if x < INFINITE else x


# One component of all rows of a block at a time, in loops of their own: the compiler turns a loop into vector
# instructions where it can show that the few arrays in it do not overlap. Rows of matrices are given by their number,
# since making a view of one counts references, which takes as long as the loop.


@njit(**COMMON)
def _shapes(begin, u, outputs, last, offsets, shape, values):  # type: ignore[no-untyped-def]
    """Fill what is mapped, and the numbers that shape the map, of some rows from ``begin``: one column for each."""
    n = len(values)
    np.dot(last, outputs[begin : begin + n].T, shape)
    for j in range(3 * N):
        for i in range(n):
            shape[j, i] += offsets[j, i]
    filled = 0
    while filled < n:  # numbers repeat for every label
        first = (begin + filled) % len(u)
        n_more = min(n - filled, len(u) - first)
        values[filled : filled + n_more] = u[first : first + n_more]
        filled += n_more


@njit(**COMMON)
def _pieces(shape, values, rising, q, largest, sum_w, sum_p, sum_q):  # type: ignore[no-untyped-def]
    """Turn slopes into a, shifts into p and logits into w times ``sum_w``; fill what else the gradient needs."""
    largest[:] = shape[2 * N]
    for j in range(1, N):
        _maximum(shape, 2 * N + j, largest)
    sum_w[:] = ZERO
    sum_p[:] = ZERO
    sum_q[:] = ZERO
    for j in range(N):
        _softplus(shape, j, rising)
        _exponentials(shape, j, largest, sum_w)
        _sigmoids(shape, j, values, q)
        _plus_p(shape, j, sum_p)
        _plus_q(shape, j, q, sum_q)


@njit(**COMMON)
def _maximum(shape, j, largest):  # type: ignore[no-untyped-def]
    for i in range(shape.shape[1]):
        largest[i] = max(largest[i], shape[j, i])


@njit(**COMMON)
def _softplus(shape, j, rising):  # type: ignore[no-untyped-def]
    for i in range(shape.shape[1]):
        x = shape[j, i]
        small = _exponential(-abs(x))
        shape[j, i] = max(x, ZERO) + _log_of_one_plus(small)
        rising[j, i] = (ONE if x >= ZERO else small) / (ONE + small)


@njit(**COMMON)
def _exponentials(shape, j, largest, sum_w):  # type: ignore[no-untyped-def]
    for i in range(shape.shape[1]):
        w = _exponential(shape[2 * N + j, i] - largest[i])
        shape[2 * N + j, i] = w
        sum_w[i] += w


@njit(**COMMON)
def _sigmoids(shape, j, values, q):  # type: ignore[no-untyped-def]
    for i in range(shape.shape[1]):
        t = shape[j, i] * values[i] + shape[N + j, i]
        small = _exponential(-abs(t))
        part = ONE / (ONE + small)
        other = small * part
        shape[N + j, i] = part if t >= ZERO else other
        q[j, i] = part * other


@njit(**COMMON)
def _plus_p(shape, j, sum_p):  # type: ignore[no-untyped-def]
    for i in range(shape.shape[1]):
        sum_p[i] += shape[2 * N + j, i] * shape[N + j, i]


@njit(**COMMON)
def _plus_q(shape, j, q, sum_q):  # type: ignore[no-untyped-def]
    for i in range(shape.shape[1]):
        sum_q[i] += shape[2 * N + j, i] * q[j, i] * shape[j, i]


@njit(nogil=True, cache=True, **COMMON)
def _forward(start, stop, u, outputs, last, offsets, mapped, log_slope):  # type: ignore[no-untyped-def]
    n_rows, n_block = len(outputs), offsets.shape[1]
    n_blocks = -(-n_rows // n_block)
    numbers = np.empty(3 * N * n_block, dtype=np.float32)
    rising, q = np.empty((N, n_block), dtype=np.float32), np.empty((N, n_block), dtype=np.float32)
    space = np.empty((5, n_block), dtype=np.float32)
    for block in range(n_blocks * start // SEGMENTS, n_blocks * stop // SEGMENTS):
        begin = block * n_block
        n = min(n_block, n_rows - begin)
        shape = numbers[: 3 * N * n].reshape(3 * N, n)
        values, largest, sum_w, sum_p, sum_q = space[0, :n], space[1, :n], space[2, :n], space[3, :n], space[4, :n]
        _shapes(begin, u, outputs, last, offsets, shape, values)
        _pieces(shape, values, rising, q, largest, sum_w, sum_p, sum_q)
        _ratios(sum_w, sum_p, sum_q)
        _logarithms(sum_p, mapped[begin : begin + n])
        _logarithms(sum_q, log_slope[begin : begin + n])


@njit(**COMMON)
def _ratios(sum_w, sum_p, sum_q):  # type: ignore[no-untyped-def]
    """Turn the sums of w p and w q a into what the mapped number and the logarithm of its slope are logarithms of."""
    for i in range(len(sum_w)):
        s = sum_p[i] / sum_w[i] * (ONE - DELTA_32) + HALF * DELTA_32
        r = max(sum_q[i] / sum_w[i], SMALLEST_32)
        sum_p[i] = s / (ONE - s)
        sum_q[i] = r * (ONE - DELTA_32) / (s * (ONE - s))


@njit(**COMMON)
def _logarithms(x, found):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        found[i] = _logarithm(x[i])


@njit(nogil=True, cache=True, **COMMON)
def _backward(  # type: ignore[no-untyped-def]
    start, stop, of_mapped, of_log_slope, u, outputs, last, offsets, of_u, of_outputs, of_last, of_offsets
):
    n_rows, n_block = len(outputs), offsets.shape[1]
    n_blocks = -(-n_rows // n_block)
    numbers = np.empty(3 * N * n_block, dtype=np.float32)
    rising, q = np.empty((N, n_block), dtype=np.float32), np.empty((N, n_block), dtype=np.float32)
    space = np.empty((6, n_block), dtype=np.float32)
    for segment in range(start, stop):
        for block in range(n_blocks * segment // SEGMENTS, n_blocks * (segment + 1) // SEGMENTS):
            begin = block * n_block
            n = min(n_block, n_rows - begin)
            shape = numbers[: 3 * N * n].reshape(3 * N, n)
            values, mean, scale = space[0, :n], space[1, :n], space[2, :n]
            of_s, of_r, risen = space[3, :n], space[4, :n], space[5, :n]
            _shapes(begin, u, outputs, last, offsets, shape, values)
            _pieces(shape, values, rising, q, mean, scale, of_s, of_r)
            _of_sums(of_mapped[begin : begin + n], of_log_slope[begin : begin + n], mean, scale, of_s, of_r)
            by_u = of_u[begin : begin + n]
            by_u[:] = ZERO
            for j in range(N):
                _scaled(shape, j, scale, q)
                _risen(q, j, of_r, risen)
                _of_argument(shape, j, risen, of_s, q)
                _of_logit(shape, j, risen, of_s, mean)
                _plus_of_u(shape, j, q, by_u)
                _of_shift_and_slope(shape, j, risen, q, values, rising)
            for j in range(3 * N):
                for i in range(n):
                    of_offsets[segment, j, i] += shape[j, i]
            np.dot(shape.T, last, of_outputs[begin : begin + n])
            of_last[segment] += np.dot(shape, outputs[begin : begin + n])


@njit(**COMMON)
def _of_sums(of_mapped, of_log_slope, mean, scale, of_s, of_r):  # type: ignore[no-untyped-def]
    """Turn the sums of w, w p and w q a into one over the first, and the gradients of s and r.

    The gradient of a weight before the softmax has its weighted mean taken off, which fills ``mean``.
    """
    for i in range(len(mean)):
        scale[i] = ONE / scale[i]
        of_s[i] *= scale[i]
        of_r[i] = max(of_r[i] * scale[i], SMALLEST_32)
    for i in range(len(mean)):
        outer, p, r = of_log_slope[i], of_s[i], of_r[i]
        s = p * (ONE - DELTA_32) + HALF * DELTA_32
        of_s[i] = (of_mapped[i] + outer * (TWO * s - ONE)) * (ONE - DELTA_32) / (s * (ONE - s))
        of_r[i] = outer / r
        mean[i] = of_s[i] * p + outer


@njit(**COMMON)
def _scaled(shape, j, scale, q):  # type: ignore[no-untyped-def]
    for i in range(shape.shape[1]):
        w = shape[2 * N + j, i] * scale[i]
        shape[2 * N + j, i] = w
        q[j, i] *= w


@njit(**COMMON)
def _risen(q, j, of_r, risen):  # type: ignore[no-untyped-def]
    for i in range(len(risen)):
        risen[i] = q[j, i] * of_r[i]


@njit(**COMMON)
def _of_argument(shape, j, risen, of_s, q):  # type: ignore[no-untyped-def]
    """The gradient of ``a u + b`` in place of w q."""
    for i in range(shape.shape[1]):
        q[j, i] = (ONE - TWO * shape[N + j, i]) * shape[j, i] * risen[i] + q[j, i] * of_s[i]


@njit(**COMMON)
def _of_logit(shape, j, risen, of_s, mean):  # type: ignore[no-untyped-def]
    for i in range(shape.shape[1]):
        own = shape[2 * N + j, i] * (shape[N + j, i] * of_s[i] - mean[i])
        shape[2 * N + j, i] = own + risen[i] * shape[j, i]


@njit(**COMMON)
def _plus_of_u(shape, j, of_argument, by_u):  # type: ignore[no-untyped-def]
    for i in range(shape.shape[1]):
        by_u[i] += of_argument[j, i] * shape[j, i]


@njit(**COMMON)
def _of_shift_and_slope(shape, j, risen, of_argument, values, rising):  # type: ignore[no-untyped-def]
    for i in range(shape.shape[1]):
        shape[N + j, i] = of_argument[j, i]
    for i in range(shape.shape[1]):
        shape[j, i] = (risen[i] + of_argument[j, i] * values[i]) * rising[j, i]
