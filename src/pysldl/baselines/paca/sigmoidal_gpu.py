"""The monotone map of ``sigmoidal`` and its gradient as one kernel each, for GPUs.

A program computes some rows at once, each with all its components in registers: what is written is what is returned.
Nothing is kept between the two, since the pieces are cheaper to compute again than to read. Numbers may come in half
precision; all arithmetic is in single precision.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["map_backward", "map_forward"]

ROWS = 64


def map_forward(u: Tensor, shape: Tensor, delta: float, smallest: float) -> tuple[Tensor, Tensor]:
    """The mapped numbers and the logarithms of the slopes, of shape (..., D).

    Parameters
    ----------
    u : Tensor of shape (batch, D)
        Repeated for every leading index of ``shape``.
    shape : Tensor of shape (..., batch, D, 3 * n_components), contiguous
    delta, smallest : float
    """
    mapped = torch.empty(shape.shape[:-1], device=u.device, dtype=torch.float32)
    log_slope = torch.empty_like(mapped)
    n_rows = mapped.numel()
    _forward[(triton.cdiv(n_rows, ROWS),)](
        u.contiguous(), shape, mapped, log_slope, n_rows, u.numel(), delta, smallest, shape.shape[-1] // 3, ROWS
    )
    return mapped, log_slope


def map_backward(
    of_mapped: Tensor, of_log_slope: Tensor, u: Tensor, shape: Tensor, delta: float, smallest: float
) -> tuple[Tensor, Tensor]:
    """Gradients of ``u``, one for each leading index of ``shape``, and of ``shape``."""
    of_u = torch.empty(shape.shape[:-1], device=u.device, dtype=torch.float32)
    of_shape = torch.empty_like(shape)
    n_rows = of_u.numel()
    _backward[(triton.cdiv(n_rows, ROWS),)](
        of_mapped.contiguous(),
        of_log_slope.contiguous(),
        u.contiguous(),
        shape,
        of_u,
        of_shape,
        n_rows,
        u.numel(),
        delta,
        smallest,
        shape.shape[-1] // 3,
        ROWS,
    )
    return of_u, of_shape


@triton.jit
def _pieces(u, shape, rows, n_rows, period, delta, smallest, N: tl.constexpr):  # type: ignore[no-untyped-def]
    within = rows < n_rows
    columns = tl.arange(0, N)
    at = rows[:, None].to(tl.int64) * (3 * N) + columns[None, :]
    value = tl.load(u + rows % period, mask=within, other=0.0).to(tl.float32)
    slope = tl.load(shape + at, mask=within[:, None], other=0.0).to(tl.float32)
    shift = tl.load(shape + at + N, mask=within[:, None], other=0.0).to(tl.float32)
    weight = tl.load(shape + at + 2 * N, mask=within[:, None], other=0.0).to(tl.float32)
    a = tl.maximum(slope, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(slope)))
    w = tl.exp(weight - tl.max(weight, axis=1)[:, None])
    w = w / tl.sum(w, axis=1)[:, None]
    t = a * value[:, None] + shift
    p = 1.0 / (1.0 + tl.exp(-t))
    # Not 1 - p, which is 0 in single precision from t = 17 on.
    wq = w * p / (1.0 + tl.exp(t))
    s = tl.sum(w * p, axis=1) * (1.0 - delta) + 0.5 * delta
    r = tl.maximum(tl.sum(wq * a, axis=1), smallest)
    return within, at, value, a, w, p, wq, s, r


@triton.jit
def _forward(  # type: ignore[no-untyped-def]
    u, shape, mapped, log_slope, n_rows, period, delta, smallest, N: tl.constexpr, ROWS: tl.constexpr
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    within, _at, _value, _a, _w, _p, _wq, s, r = _pieces(u, shape, rows, n_rows, period, delta, smallest, N)
    log_s = tl.log(s)
    log_rest = tl.log(1.0 - s)
    tl.store(mapped + rows, log_s - log_rest, mask=within)
    tl.store(log_slope + rows, tl.log(r) + tl.log(1.0 - delta) - log_s - log_rest, mask=within)


@triton.jit
def _backward(  # type: ignore[no-untyped-def]
    of_mapped,
    of_log_slope,
    u,
    shape,
    of_u,
    of_shape,
    n_rows,
    period,
    delta,
    smallest,
    N: tl.constexpr,
    ROWS: tl.constexpr,
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    within, at, value, a, w, p, wq, s, r = _pieces(u, shape, rows, n_rows, period, delta, smallest, N)
    from_mapped = tl.load(of_mapped + rows, mask=within, other=0.0)
    from_slope = tl.load(of_log_slope + rows, mask=within, other=0.0)
    of_s = (1.0 - delta) * (from_mapped + from_slope * (2.0 * s - 1.0)) / (s * (1.0 - s))
    risen = wq * (from_slope / r)[:, None]
    of_t = (1.0 - 2.0 * p) * a * risen + wq * of_s[:, None]
    # The softmax's gradient: w times what is left of the gradient of w after its weighted mean.
    of_weight = w * p * of_s[:, None] + risen * a
    of_weight -= w * tl.sum(of_weight, axis=1)[:, None]
    # The softplus's: 1 - exp(-a) is the sigmoid.
    of_slope = (risen + of_t * value[:, None]) * (1.0 - tl.exp(-a))
    kind = of_shape.dtype.element_ty
    tl.store(of_u + rows, tl.sum(of_t * a, axis=1), mask=within)
    tl.store(of_shape + at, of_slope.to(kind), mask=within[:, None])
    tl.store(of_shape + at + N, of_t.to(kind), mask=within[:, None])
    tl.store(of_shape + at + 2 * N, of_weight.to(kind), mask=within[:, None])
