"""The loss of the Gaussian embedding on the device: KL divergences of all pairs and the hinge over rankings."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pysldl.on_device.arrays import as_tensor

__all__ = ["ranking_loss"]

Loss = Callable[[NDArray[Any], NDArray[Any]], tuple[float, list[NDArray[Any]]]]


def ranking_loss(device: torch.device, ranking: NDArray[np.int32], margin: float, *, official: bool) -> Loss:
    """The loss (Eqs. 7 and 8) of means and log-variances, and its gradients, all NumPy outside and torch inside.

    Parameters
    ----------
    ranking : ndarray of shape (n_labels, n_ranked)
        See :class:`~pysldl.embedding.hinge.ConsecutiveHinge`.
    official : bool
        The authors' objective: the reversed divergence, and the hinge with the opposite sign.
    """
    order = as_tensor(ranking, device, torch.int64)
    n_labels = len(ranking)
    sign = -1.0 if official else 1.0

    def loss_of(mu: NDArray[Any], log_var: NDArray[Any]) -> tuple[float, list[NDArray[Any]]]:
        m, v = as_tensor(mu, device), as_tensor(log_var, device)
        variance, precision = torch.exp(v), torch.exp(-v)
        volume = v.sum(1)
        scaled = m * precision
        twice = torch.hstack([variance + m**2, -2 * m]) @ torch.hstack([precision, scaled]).T
        twice += volume + (m * scaled).sum(1)
        twice -= volume[:, None] + m.shape[1]
        D = 0.5 * (twice.T if official else twice)

        ranked = torch.gather(D, 1, order)
        violation = (sign * (ranked[:, :-1] - ranked[:, 1:]) + margin).clamp_min(0)
        loss = float(violation.sum(dtype=torch.float64)) / n_labels
        active = torch.nn.functional.pad((violation > 0).to(m.dtype), (1, 1))
        pull = (active[:, 1:] - active[:, :-1]) * (sign / n_labels)
        G = torch.zeros_like(D).scatter_(1, order, pull)
        if official:
            G = G.T

        to_i = G @ torch.hstack([precision, scaled])
        to_j = G.T @ torch.hstack([variance + m**2, m])
        width = m.shape[1]
        rows, columns = G.sum(1)[:, None], G.sum(0)[:, None]
        grad_mu = m * to_i[:, :width] - to_i[:, width:] + columns * scaled - precision * to_j[:, width:]
        grad_log_var = 0.5 * (variance * to_i[:, :width] - rows + columns * (1 - m * scaled))
        grad_log_var += scaled * to_j[:, width:] - 0.5 * precision * to_j[:, :width]
        return loss, [grad_mu.cpu().numpy(), grad_log_var.cpu().numpy()]

    return loss_of
