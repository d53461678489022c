"""The loss of the Gaussian embedding on the device: KL divergences of all pairs and the hinge over rankings."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pysldl.backend import exact
from pysldl.backend.torch.arrays import as_tensor
from pysldl.embedding.divergence import TERM_BITS

__all__ = ["ranking_loss"]

Loss = Callable[[NDArray[Any], NDArray[Any]], tuple[float, list[NDArray[Any]]]]


def ranking_loss(device: torch.device, ranking: NDArray[np.int32], margin: float, *, official: bool) -> Loss:
    """The loss (Eqs. 7 and 8) of means and log-variances, and its gradients, all NumPy outside and torch inside.

    The operations are those of :mod:`pysldl.embedding.divergence` one by one, in double precision: sums are exact, and
    the exponential is a polynomial, so that the gradients have the bits of the processor's.

    Parameters
    ----------
    ranking : ndarray of shape (n_labels, n_ranked)
        See :class:`~pysldl.embedding.ranking_loss.ConsecutiveHinge`.
    official : bool
        The authors' objective: the reversed divergence, and the hinge with the opposite sign.
    """
    order = as_tensor(ranking, device, torch.int64)
    n_labels = len(ranking)
    sign = -1.0 if official else 1.0

    def loss_of(mu: NDArray[Any], log_var: NDArray[Any]) -> tuple[float, list[NDArray[Any]]]:
        width = mu.shape[1]
        # The exponential on the processor: compilers for GPUs fuse a multiplication and an addition into one rounding.
        m, v = as_tensor(mu, device, torch.float64), as_tensor(exact.exp(log_var), device)
        volume = _rounded(as_tensor(log_var, device, torch.float64), TERM_BITS, 1).sum(1)
        precision = 1.0 / v
        scaled = m * precision
        moment = v + m * m
        norm = _rounded(m * scaled, TERM_BITS, 1).sum(1)

        bits = exact.product_bits(2 * width)
        balance = _power_of_two(moment) / _power_of_two(2.0 * m)
        left = _rounded(torch.hstack([0.5 * moment, -balance * m]), bits, 1)
        D = left @ _rounded(torch.hstack([precision, scaled / balance]), bits, 1).T
        D += 0.5 * (volume + norm)
        if official:  # the divergence in the other direction, of which other parts are constant along a ranking
            D -= 0.5 * (volume[:, None] + width)
            D = D.T

        ranked = torch.gather(D, 1, order)
        violation = (sign * (ranked[:, :-1] - ranked[:, 1:]) + margin).clamp_min(0)
        loss = float(violation.sum()) / n_labels
        active = torch.nn.functional.pad((violation > 0).to(m.dtype), (1, 1))
        G = torch.zeros_like(D).scatter_(1, order, sign * (active[:, 1:] - active[:, :-1]))
        if official:
            G = G.T

        bits = exact.MANTISSA - 3 - n_labels.bit_length()
        to_i = G @ _rounded(torch.hstack([precision, scaled]), bits, 0)
        to_j = G.T @ _rounded(torch.hstack([moment, m]), bits, 0)
        rows, columns = G.sum(1)[:, None], G.sum(0)[:, None]
        grad_mu = m * to_i[:, :width] - to_i[:, width:]
        grad_mu += columns * scaled - precision * to_j[:, width:]
        grad_log_var = 0.5 * (v * to_i[:, :width] - rows + columns * (1 - m * scaled))
        grad_log_var += scaled * to_j[:, width:] - 0.5 * precision * to_j[:, :width]
        return loss, [grad.cpu().numpy() / n_labels for grad in (grad_mu, grad_log_var)]

    return loss_of


def _rounded(x: torch.Tensor, bits: int, axis: int) -> torch.Tensor:
    """:func:`pysldl.backend.exact.round_to_bits`."""
    exponent = torch.frexp(x.abs().amax(axis, keepdim=True))[1]
    anchor = torch.ldexp(torch.full_like(exponent, 1.5, dtype=x.dtype), exponent - bits + exact.MANTISSA - 1)
    return (x + anchor) - anchor


def _power_of_two(x: torch.Tensor) -> float:
    """The power of two just above the largest absolute value."""
    return float(np.ldexp(1.0, int(torch.frexp(x.abs().max())[1])))
