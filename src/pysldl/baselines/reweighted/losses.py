"""Three losses that reweight binary cross-entropy for rare labels: focal, class-balanced, distribution-balanced.

Let z be the logits and y the labels of a batch, each of shape (batch, n_labels), n_k the training rows of label k,
N all training rows, and ``BCE(z, y) = softplus(z) - y z``. Every loss is the mean over rows and labels of

.. math:: 2 (1 - p)^\\gamma \\; \\omega \\; \\mathrm{BCE}(z', y), \\qquad p = \\exp(-\\mathrm{BCE}(z', y)),

which differ in the weights :math:`\\omega` and the logits :math:`z'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "balanced_focal",
    "effective_number_weights",
    "mean_of_own_labels",
    "negative_tolerant",
    "rebalanced_weights",
    "tolerance_bias",
]


def balanced_focal(z: Tensor, y: Tensor, weight: Tensor | float, *, balance: float, gamma: float) -> Tensor:
    """Mean of ``balance (1 - p)^gamma weight BCE(z, y)``, where p is the probability given to the truth.

    Parameters
    ----------
    z, y : Tensor of shape (batch, n_labels)
    weight : Tensor that broadcasts to that shape, or float
    balance : float
        One factor for positives and negatives alike.
    gamma : float
        How much less the pairs count that are already right.
    """
    import torch
    from torch.nn import functional

    cross_entropy = functional.binary_cross_entropy_with_logits(z, y, reduction="none")
    # 1 - exp(-BCE) loses all digits where the truth is all but certain; expm1 does not.
    wrong = -torch.expm1(-cross_entropy)
    return (balance * wrong.pow(gamma) * weight * cross_entropy).mean()


def effective_number_weights(counts: NDArray[np.integer], beta: float) -> NDArray[np.float32]:
    """Inverse effective numbers ``(1 - beta) / (1 - beta^n_k)`` of shape (n_labels,); an unseen label counts as one."""
    n = np.maximum(counts, 1).astype(np.float64)
    return ((1.0 - beta) / -np.expm1(n * np.log(beta))).astype(np.float32)


def mean_of_own_labels(y: Tensor, weights: Tensor, without_labels: float) -> Tensor:
    """Weights of rows, of shape (batch, 1): the mean of ``weights`` of shape (n_labels,) over the labels of each."""
    import torch

    n_labels = y.sum(dim=1, keepdim=True)
    return torch.where(n_labels > 0, (y @ weights)[:, None] / n_labels.clamp_min(1), without_labels)


def rebalanced_weights(y: Tensor, inverse_counts: Tensor, *, alpha: float, beta: float, mu: float) -> Tensor:
    """Weights ``alpha + sigmoid(beta (rho - mu))`` with ``rho_ik = (1/n_k) / sum_{j in y_i} 1/n_j``.

    They undo the oversampling of labels that come along with rarer ones. A row without labels has no such sum; its
    rho is taken as infinite, its weights as ``alpha + 1``.

    Parameters
    ----------
    y : Tensor of shape (batch, n_labels)
    inverse_counts : Tensor of shape (n_labels,)
        Finite: an unseen label counts as one row.
    """
    import torch

    rho = inverse_counts / (y @ inverse_counts)[:, None]
    return alpha + torch.sigmoid(beta * (rho - mu))


def tolerance_bias(counts: NDArray[np.integer], n_rows: int, kappa: float) -> NDArray[np.float32]:
    """Class biases ``kappa log(N / n_k - 1)`` of shape (n_labels,), with n_k kept between 1 and N - 1."""
    n = np.clip(counts, 1, max(n_rows - 1, 1)).astype(np.float64)
    return (kappa * np.log(np.maximum(n_rows / n - 1.0, 1e-12))).astype(np.float32)


def negative_tolerant(z: Tensor, y: Tensor, bias: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Logits ``z - bias``, multiplied by ``scale`` where y is 0, and weights that divide by it there.

    A negative then counts for little as soon as its logit is somewhat below the bias.
    """
    import torch

    shifted = z - bias
    return torch.where(y > 0, shifted, scale * shifted), torch.where(y > 0, 1.0, 1.0 / scale)
