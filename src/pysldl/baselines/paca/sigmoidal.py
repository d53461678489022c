r"""A monotone map of the real line made of sigmoids, and the logarithm of its slope, with a gradient by hand.

Of one number u and the shape :math:`(\alpha_j, b_j, \omega_j)_j` the map is

.. math:: u' = \mathrm{logit}(s), \qquad s = (1 - \delta) \sum_j w_j p_j + \delta / 2, \qquad p_j = \sigma(a_j u + b_j),

with positive slopes :math:`a = \mathrm{softplus}(\alpha)` and weights :math:`w = \mathrm{softmax}(\omega)`. A small
:math:`\delta` keeps the logit finite. Its derivative is

.. math:: \frac{du'}{du} = \frac{(1 - \delta)\, r}{s (1 - s)}, \qquad r = \sum_j w_j a_j p_j (1 - p_j).

PACA evaluates this for every row, label and latent dimension. Autograd would write some forty tensors of that size
to do so; the gradient below writes a dozen, ``sigmoidal_gpu`` on a GPU one, and ``flow_cpu``, where numba is there,
none.
"""

import math
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

__all__ = ["packed_map", "sigmoidal_map"]

DELTA = 1e-6
SMALLEST = 1e-30


def sigmoidal_map(u: Tensor, slope: Tensor, shift: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Map numbers, and give the logarithm of the slope of the map at each.

    Parameters
    ----------
    u : Tensor of shape (...)
    slope, shift, weight : Tensor of shape (..., n_components)
        Slopes before the softplus, shifts, and weights before the softmax.

    Returns
    -------
    mapped, log_slope : Tensor of shape (...)
    """
    return _SigmoidalMap.apply(u, slope, shift, weight)


def packed_map(u: Tensor, shape: Tensor) -> tuple[Tensor, Tensor]:
    """The same where slopes, shifts and weights lie behind each other, for every leading index of them.

    Parameters
    ----------
    u : Tensor of shape (batch, D)
    shape : Tensor of shape (n_chunk, batch, D, 3 * n_components)
        It may be in half precision; the map is computed in single precision.

    Returns
    -------
    mapped, log_slope : Tensor of shape (n_chunk, batch, D)
    """
    if u.is_cuda and find_spec("triton") is not None:
        return _KernelMap.apply(u, shape)
    return sigmoidal_map(u.expand(shape.shape[:-1]), *shape.to(u.dtype).chunk(3, dim=-1))


class _SigmoidalMap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, slope: Tensor, shift: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        pieces = _pieces(u, slope, shift, weight)
        ctx.save_for_backward(u, *pieces)
        return _read(*pieces[-2:])

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, ...]:
        return _gradients(*outer, *ctx.saved_tensors)


class _KernelMap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, shape: Tensor) -> tuple[Tensor, Tensor]:
        from pysldl.baselines.paca.sigmoidal_gpu import map_forward

        ctx.save_for_backward(u, shape)
        return map_forward(u, shape, DELTA, SMALLEST)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, Tensor]:
        from pysldl.baselines.paca.sigmoidal_gpu import map_backward

        (of_mapped, of_log_slope), (u, shape) = outer, ctx.saved_tensors
        of_u, of_shape = map_backward(of_mapped, of_log_slope, u, shape, DELTA, SMALLEST)
        return of_u.sum(dim=0), of_shape


def _pieces(u: Tensor, slope: Tensor, shift: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    """a, w, p and w p (1 - p) of shape (..., n_components), s and r of shape (...)."""
    a = _softplus(slope)
    w = weight.softmax(dim=-1)
    t = torch.addcmul(shift, a, u.unsqueeze(-1))
    p = torch.sigmoid(t)
    # sigmoid(-t) and not 1 - p, which is 0 in single precision from t = 17 on.
    wq = torch.sigmoid(t.neg_()).mul_(p).mul_(w)
    s = (w * p).sum(dim=-1).mul_(1.0 - DELTA).add_(DELTA / 2)
    r = (wq * a).sum(dim=-1).clamp_min_(SMALLEST)
    return a, w, p, wq, s, r


def _read(s: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """The mapped numbers and the logarithms of the slopes."""
    log_s, log_rest = s.log(), (1.0 - s).log()
    return log_s - log_rest, r.log() + math.log1p(-DELTA) - log_s - log_rest


def _gradients(
    of_mapped: Tensor,
    of_log_slope: Tensor,
    u: Tensor,
    a: Tensor,
    w: Tensor,
    p: Tensor,
    wq: Tensor,
    s: Tensor,
    r: Tensor,
) -> tuple[Tensor, ...]:
    """Of the two sums, s and r; then of what they are made of."""
    of_s = (1.0 - DELTA) * (of_mapped + of_log_slope * (2.0 * s - 1.0)) / (s * (1.0 - s))
    of_r = of_log_slope / r
    of_s, of_r, u = of_s.unsqueeze(-1), of_r.unsqueeze(-1), u.unsqueeze(-1)
    risen = wq * of_r
    of_t = (1.0 - 2.0 * p).mul_(a).mul_(risen).addcmul_(wq, of_s)
    of_u = (of_t * a).sum(dim=-1)
    # The softmax's gradient: w times what is left of the gradient of w after its weighted mean.
    of_weight = (w * p).mul_(of_s).addcmul_(risen, a)
    of_weight.addcmul_(w, of_weight.sum(dim=-1, keepdim=True), value=-1.0)
    of_slope = risen.addcmul_(of_t, u).mul_(-torch.expm1(-a))
    return of_u, of_slope, of_t, of_weight


def _softplus(x: Tensor) -> Tensor:
    # torch's own takes a fifth of the whole map's time on a CPU, for digits below 1e-7 that do not matter here.
    return x.abs().neg_().exp_().add_(1.0).log_().add_(x.clamp_min(0.0))
