"""The monotone map of ``sigmoidal`` and its gradient as one compiled loop each, for CPUs.

Each row is read once and its components stay in registers; nothing is kept between the two passes, since the pieces are
cheaper to compute again than to read. Exponentials are polynomials that the compiler turns into vector instructions,
good to about two units in the last place of single precision: no library's are called, and they take half of the time.
"""

from typing import Any

import numpy as np
import torch
from llvmlite import ir  # type: ignore[import-untyped]
from numba import get_num_threads, njit, types
from numba.extending import intrinsic
from torch import Tensor

from pysldl.kernels import in_parts

__all__ = ["N", "map_backward", "map_forward"]

N = 16
"""Components of the maps that are compiled."""

ROWS = 64  # whose components are worked on together, in the first-level cache

ONE, TWO = np.float32(1.0), np.float32(2.0)
LOG2_E = np.float32(1.44269504)
# The logarithm of 2 in two pieces: the first has so few digits that whole multiples of it are exact.
LOG_2_HIGH, LOG_2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
# Sums may be reordered and products fused.
COMMON: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy"}
SMALLEST_EXPONENT = np.float32(-87.0)  # of a number that single precision holds in full


def map_forward(u: Tensor, shape: Tensor, delta: float, smallest: float) -> tuple[Tensor, Tensor]:
    """The mapped numbers and the logarithms of the slopes, of shape (..., D).

    Parameters
    ----------
    u : Tensor of shape (batch, D), float32
        Repeated for every leading index of ``shape``.
    shape : Tensor of shape (..., batch, D, 3 * N), float32
    delta, smallest : float
    """
    mapped = torch.empty(shape.shape[:-1], dtype=torch.float32)
    log_slope = torch.empty_like(mapped)
    _in_threads(
        _forward, len(mapped.view(-1)),
        _flat(u), _flat(shape).reshape(-1, shape.shape[-1]), np.float32(delta), np.float32(smallest),
        mapped.view(-1).numpy(), log_slope.view(-1).numpy(),
    )  # fmt: skip
    return mapped, log_slope


def map_backward(
    of_mapped: Tensor, of_log_slope: Tensor, u: Tensor, shape: Tensor, delta: float, smallest: float
) -> tuple[Tensor, Tensor]:
    """Gradients of ``u``, one for each leading index of ``shape``, and of ``shape``."""
    of_u = torch.empty(shape.shape[:-1], dtype=torch.float32)
    of_shape = torch.empty(shape.shape, dtype=torch.float32)
    _in_threads(
        _backward, len(of_u.view(-1)),
        _flat(of_mapped), _flat(of_log_slope), _flat(u), _flat(shape).reshape(-1, shape.shape[-1]),
        np.float32(delta), np.float32(smallest), of_u.view(-1).numpy(), of_shape.view(-1, shape.shape[-1]).numpy(),
    )  # fmt: skip
    return of_u, of_shape


def _in_threads(loop: Any, n_rows: int, *arguments: Any) -> None:
    n_blocks = -(-n_rows // ROWS)
    if get_num_threads() == 1:
        loop(0, n_blocks, *arguments)
    else:
        in_parts(loop, n_blocks, *arguments)


def _flat(x: Tensor) -> Any:
    return x.detach().contiguous().view(-1).numpy()


@intrinsic
def _power_of_two(typing_context, whole):  # type: ignore[no-untyped-def]
    """2 to a whole number in single precision: that number written where a float keeps its exponent."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        number = builder.fptosi(arguments[0], ir.IntType(32))
        biased = builder.add(number, ir.Constant(ir.IntType(32), 127))
        return builder.bitcast(builder.shl(biased, ir.Constant(ir.IntType(32), 23)), ir.FloatType())

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
def _pieces(first, last, u, shape, a, rising, w, p, wq, delta, smallest, s, r):  # type: ignore[no-untyped-def]
    """Fill slopes, their derivatives, weights, sigmoids and ``w p (1 - p)`` of some rows, and their sums s and r.

    Loops run over the components of all these rows, which are long enough to be worth vector instructions.
    """
    period = len(u)
    for i in range(first, last):
        row, start = shape[i], (i - first) * N
        top = row[2 * N]
        for j in range(1, N):
            top = max(top, row[2 * N + j])
        value = u[i % period]
        for j in range(N):
            a[start + j] = row[j]
            p[start + j] = row[N + j]
            w[start + j] = row[2 * N + j] - top
            wq[start + j] = value
    for k in range((last - first) * N):
        w[k] = _exponential(w[k])
    for k in range((last - first) * N):
        slope = a[k]
        small = _exponential(-abs(slope))
        a[k] = max(slope, np.float32(0.0)) + _log_of_one_plus(small)
        rising[k] = (ONE if slope >= 0 else small) / (ONE + small)
    for k in range((last - first) * N):
        t = a[k] * wq[k] + p[k]
        small = _exponential(-abs(t))
        part = ONE / (ONE + small)
        rest = small * part
        p[k] = part if t >= 0 else rest
        wq[k] = part * rest
    for i in range(last - first):
        total = np.float32(0.0)
        for k in range(i * N, i * N + N):
            total += w[k]
        scale = ONE / total
        of_p, of_q = np.float32(0.0), np.float32(0.0)
        for k in range(i * N, i * N + N):
            w[k] *= scale
            wq[k] *= w[k]
            of_p += w[k] * p[k]
            of_q += wq[k] * a[k]
        s[i] = of_p * (ONE - delta) + np.float32(0.5) * delta
        r[i] = max(of_q, smallest)


@njit(nogil=True, cache=True, **COMMON)
def _forward(start, stop, u, shape, delta, smallest, mapped, log_slope):  # type: ignore[no-untyped-def]
    n_rows = len(shape)
    a, rising, w, p, wq = np.empty((5, ROWS * N), dtype=np.float32)
    s, r = np.empty((2, ROWS), dtype=np.float32)
    for block in range(start, stop):
        first, last = block * ROWS, min((block + 1) * ROWS, n_rows)
        _pieces(first, last, u, shape, a, rising, w, p, wq, delta, smallest, s, r)
        for i in range(last - first):
            rest = ONE - s[i]
            mapped[first + i] = np.log(s[i] / rest)
            log_slope[first + i] = np.log(r[i] * (ONE - delta) / (s[i] * rest))


@njit(nogil=True, cache=True, **COMMON)
def _backward(start, stop, of_mapped, of_log_slope, u, shape, delta, smallest, of_u, of_shape):  # type: ignore[no-untyped-def]
    n_rows, period = len(shape), len(u)
    a, rising, w, p, wq = np.empty((5, ROWS * N), dtype=np.float32)
    s, r = np.empty((2, ROWS), dtype=np.float32)
    for block in range(start, stop):
        first, last = block * ROWS, min((block + 1) * ROWS, n_rows)
        _pieces(first, last, u, shape, a, rising, w, p, wq, delta, smallest, s, r)
        for i in range(first, last):
            found, value, here, before = of_shape[i], u[i % period], i - first, (i - first) * N
            above = s[here]
            of_s = (ONE - delta) * (of_mapped[i] + of_log_slope[i] * (TWO * above - ONE)) / (above * (ONE - above))
            of_r = of_log_slope[i] / r[here]
            by_u, mean = np.float32(0.0), np.float32(0.0)
            for j in range(N):
                k = before + j
                risen = wq[k] * of_r
                of_t = (ONE - TWO * p[k]) * a[k] * risen + wq[k] * of_s
                of_weight = w[k] * p[k] * of_s + risen * a[k]
                by_u += of_t * a[k]
                mean += of_weight
                found[j] = (risen + of_t * value) * rising[k]
                found[N + j] = of_t
                found[2 * N + j] = of_weight
            for j in range(N):
                found[2 * N + j] -= w[before + j] * mean
            of_u[i] = by_u
