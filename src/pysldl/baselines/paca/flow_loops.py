"""The thin last layer of a sigmoidal flow and the map after it, and their gradients, as two compiled loops.

A row is a pair of a point and a label in one dimension. For a block of rows at a time the product is taken, mapped and
forgotten, so that its 48 numbers a row never leave the caches; the gradient computes them again, which is cheaper than
to keep and read them. One component of all rows of a block comes after the other, in short loops of their own: the
compiler turns a loop into vector instructions where it can show that the few arrays in it do not overlap. Rows of
matrices are given by their number, since making a view of one counts references, which takes as long as the loop.
"""

import numpy as np
from numba import njit

from pysldl.baselines.paca.sigmoidal import DELTA, SMALLEST
from pysldl.baselines.paca.single_precision import COMMON, exponential, log_of_one_plus, logarithm

__all__ = ["SEGMENTS", "N", "backward", "forward"]

N = 16
"""Components of a map."""

SEGMENTS = 16
"""Parts of the rows; gradients of weights are added up within each, whatever the number of threads."""

ZERO, HALF, ONE, TWO = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(2.0)
DELTA_32, SMALLEST_32 = np.float32(DELTA), np.float32(SMALLEST)


@njit(nogil=True, cache=True, **COMMON)
def forward(start, stop, u, outputs, last, offsets, mapped, log_slope):  # type: ignore[no-untyped-def]
    """Fill the mapped numbers and the logarithms of the slopes, from segment ``start`` to before ``stop``.

    Parameters
    ----------
    start, stop : int
    u : ndarray of shape (batch * D,)
        Repeated for every label.
    outputs : ndarray of shape (n_rows, n_outputs)
    last : ndarray of shape (3 * N, n_outputs)
    offsets : ndarray of shape (3 * N, n_block)
        Biases of the last layer for the rows of one block; dimensions repeat in every block alike.
    mapped, log_slope : ndarray of shape (n_rows,)
    """
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


@njit(nogil=True, cache=True, **COMMON)
def backward(  # type: ignore[no-untyped-def]
    start, stop, of_mapped, of_log_slope, u, outputs, last, offsets, of_u, of_outputs, of_last, of_offsets
):
    """Fill the gradients of ``u`` and ``outputs`` for every row, and add to those of ``last`` and ``offsets``.

    ``of_last`` and ``of_offsets`` have one entry for every segment; for the rest see :func:`forward`.
    """
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
        small = exponential(-abs(x))
        shape[j, i] = max(x, ZERO) + log_of_one_plus(small)
        rising[j, i] = (ONE if x >= ZERO else small) / (ONE + small)


@njit(**COMMON)
def _exponentials(shape, j, largest, sum_w):  # type: ignore[no-untyped-def]
    for i in range(shape.shape[1]):
        w = exponential(shape[2 * N + j, i] - largest[i])
        shape[2 * N + j, i] = w
        sum_w[i] += w


@njit(**COMMON)
def _sigmoids(shape, j, values, q):  # type: ignore[no-untyped-def]
    for i in range(shape.shape[1]):
        t = shape[j, i] * values[i] + shape[N + j, i]
        small = exponential(-abs(t))
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
        found[i] = logarithm(x[i])


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
