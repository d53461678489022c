"""Variances of the mixtures of all pairs of labels: the sums of the Jensen-Shannon divergence.

A pair (i, j) has along axis k the mixture variance ``m = (v_i + v_j)/2 + (mu_i - mu_j)²/4``. No form needs more than a
few (n_labels, n_labels) arrays.
"""

import numpy as np
from numpy.typing import NDArray

from pysldl.backend import exact
from pysldl.backend.dispatch import primitive

__all__ = ["log_mixture_volumes", "mixture_pulls"]

Array = NDArray[np.float64]


@primitive(numba=True)
def log_mixture_volumes(mu: Array, variance: Array) -> Array:
    """``sum_k log m_ijk`` for all pairs, (n_labels, n_labels): the large part of divergences, which nearly cancels."""
    total = np.zeros((len(mu), len(mu)))
    for mu_k, var_k in zip(mu.T, variance.T, strict=True):
        total += exact.log(_mixture_variance(mu_k, var_k))
    return total


@primitive(numba=True)
def mixture_pulls(S: Array, mu: Array, variance: Array) -> tuple[Array, Array]:
    """``sum_j S_ij (mu_i - mu_j)/m_ijk`` and ``sum_j S_ij/m_ijk``, each (n_labels, n_components); S is symmetric."""
    by_mu, by_variance = np.empty_like(mu), np.empty_like(mu)
    for k, (mu_k, var_k) in enumerate(zip(mu.T, variance.T, strict=True)):
        T = S / _mixture_variance(mu_k, var_k)
        by_variance[:, k] = T.sum(axis=1)
        by_mu[:, k] = mu_k * by_variance[:, k] - T @ mu_k
    return by_mu, by_variance


def _mixture_variance(mu_k: Array, var_k: Array) -> Array:
    """Variance along one axis of the equal mixture of labels i and j, (n_labels, n_labels)."""
    mixture = np.subtract.outer(0.5 * mu_k, 0.5 * mu_k)
    mixture *= mixture
    mixture += 0.5 * var_k
    mixture += 0.5 * var_k[:, None]
    return mixture
