"""Divergences between diagonal Gaussians, all pairs at once, and their gradients.

Every function takes means ``mu`` and log-variances ``log_var``, both (n_labels, n_components). The logarithm keeps
variances positive by construction. The backward functions take ``G``, the derivative of some loss with
respect to the (n_labels, n_labels) divergence matrix, and return the derivatives with respect to ``mu`` and
``log_var``. Nothing of size n_labels x n_labels x n_components is ever formed.
"""

import numpy as np
from numpy.typing import NDArray

from pysldl.kernels.mixtures import log_mixture_volumes, mixture_pulls

__all__ = ["js_backward", "js_divergence", "kl_backward", "kl_divergence"]

Array = NDArray[np.floating]


def kl_divergence(mu: Array, log_var: Array, rows: slice = slice(None)) -> Array:
    """KL(N_i ‖ N_j) for all i, or those of ``rows``, and all j (Eq. 8), as one matrix product.

    Written out, 2 KL is ``sum_k log v_j - log v_i - 1 + (v_i + mu_i²)/v_j - 2 mu_i mu_j/v_j + mu_j²/v_j``: each term is
    a product of something of i with something of j.

    Returns
    -------
    ndarray of shape (n_labels, n_labels), or (n_rows, n_labels)
        Entry [i, j] is KL(N_i ‖ N_j).

    Examples
    --------
    A narrow Gaussian lies inside a wide one, not the other way round:

    >>> mu, log_var = np.zeros((2, 1)), np.log([[1.0], [9.0]])
    >>> kl_divergence(mu, log_var).round(2)
    array([[0.  , 0.65],
           [2.9 , 0.  ]])
    """
    precision = np.exp(-log_var)
    of_i = np.hstack([np.exp(log_var[rows]) + mu[rows] ** 2, -2 * mu[rows]])
    of_j = np.hstack([precision, mu * precision])
    twice = of_i @ of_j.T
    log_volume = log_var.sum(axis=1)
    twice += log_volume + (mu**2 * precision).sum(axis=1)
    twice -= log_volume[rows, None] + mu.shape[1]
    twice *= 0.5
    return twice


def kl_backward(G: Array, mu: Array, log_var: Array) -> tuple[Array, Array]:
    """Gradients of ``sum(G * kl_divergence(mu, log_var))``, each (n_labels, n_components)."""
    n_components = mu.shape[1]
    variance, precision = np.exp(log_var), np.exp(-log_var)
    scaled_mu = mu * precision
    to_i = G @ np.hstack([precision, scaled_mu])
    to_j = G.T @ np.hstack([variance + mu**2, mu])
    by_precision_i, by_scaled_mu_i = to_i[:, :n_components], to_i[:, n_components:]
    by_second_moment_j, by_mu_j = to_j[:, :n_components], to_j[:, n_components:]
    row_sums, column_sums = G.sum(axis=1)[:, None], G.sum(axis=0)[:, None]

    grad_mu = mu * by_precision_i - by_scaled_mu_i
    grad_mu += column_sums * scaled_mu - precision * by_mu_j
    grad_log_var = 0.5 * (variance * by_precision_i - row_sums + column_sums * (1 - mu * scaled_mu))
    grad_log_var += scaled_mu * by_mu_j - 0.5 * precision * by_second_moment_j
    return grad_mu, grad_log_var


def js_divergence(mu: Array, log_var: Array) -> Array:
    """Jensen-Shannon divergence for all pairs, with the mixture replaced by the Gaussian of equal moments.

    The mixture of two Gaussians is not Gaussian and its divergence has no closed form. With
    ``m = (v_i + v_j)/2 + (mu_i - mu_j)²/4``, the mixture's variance, the two KL terms to that Gaussian collapse to
    ``sum_k (log m - (log v_i + log v_j)/2)/2``: zero for equal Gaussians, and symmetric, which is what the ablation
    "without asymmetric correlation" asks for.

    Returns
    -------
    ndarray of shape (n_labels, n_labels)
    """
    half_log_volume = 0.5 * log_var.sum(axis=1, dtype=np.float64)
    total = log_mixture_volumes(mu, np.exp(log_var))
    total -= half_log_volume
    total -= half_log_volume[:, None]
    total *= 0.5
    return total.astype(mu.dtype, copy=False)


def js_backward(G: Array, mu: Array, log_var: Array) -> tuple[Array, Array]:
    """Gradients of ``sum(G * js_divergence(mu, log_var))``, each (n_labels, n_components)."""
    S = G + G.T
    variance = np.exp(log_var)
    by_mu, by_variance = mixture_pulls(S, mu, variance)
    return 0.25 * by_mu, 0.25 * (variance * by_variance - S.sum(axis=1)[:, None])
