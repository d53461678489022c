"""Divergences between diagonal Gaussians, all pairs at once, and their gradients, with the same bits on every machine.

Every function takes means ``mu`` and log-variances ``log_var``, both (n_labels, n_components). The logarithm keeps
variances positive by construction. The backward functions take ``G``, the derivative of some loss with
respect to the (n_labels, n_labels) divergence matrix, and return the derivatives with respect to ``mu`` and
``log_var``. Nothing of size n_labels x n_labels x n_components is ever formed.

A divergence is a small difference of large sums, and a descent of many steps makes small differences grow. So all sums
here are exact sums of rounded terms (:mod:`pysldl.backend.exact`): they do not depend on the processor, on the number
of threads or on the order in which they are added up. For the gradients this holds as long as the entries of ``G`` are
small integers, which those of the ranking loss are.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pysldl.backend import exact
from pysldl.backend.gaussian_pairs import TERM_BITS, kl_of_pairs
from pysldl.backend.js_divergence import log_mixture_volumes, mixture_pulls
from pysldl.backend.threads import matmul

__all__ = [
    "TERM_BITS",
    "GaussianTerms",
    "gaussian_terms",
    "half_cross_terms",
    "js_backward",
    "js_divergence",
    "kl_backward",
    "kl_divergence",
    "kl_of_pairs",
    "kl_offset",
]

Array = NDArray[np.float64]


class GaussianTerms(NamedTuple):
    """What divergences and their gradients need of every Gaussian, computed once.

    Attributes
    ----------
    mu, variance, precision, scaled_mu, second_moment : ndarrays of shape (n_labels, n_components), float64
        ``scaled_mu`` is ``mu * precision`` and ``second_moment`` is ``variance + mu²``.
    log_volume : ndarray of shape (n_labels,)
        Sum of the log-variances.
    scaled_norm : ndarray of shape (n_labels,)
        ``sum_k mu² / variance``.
    """

    mu: Array
    variance: Array
    precision: Array
    scaled_mu: Array
    second_moment: Array
    log_volume: Array
    scaled_norm: Array


def gaussian_terms(mu: NDArray[np.floating], log_var: NDArray[np.floating]) -> GaussianTerms:
    """Variances, precisions and the other terms of Gaussians, in double precision."""
    mean: Array = np.asarray(mu, dtype=np.float64)
    spread: Array = np.asarray(log_var, dtype=np.float64)
    variance = exact.exp(spread)
    precision = 1.0 / variance
    scaled_mu = mean * precision
    return GaussianTerms(
        mean,
        variance,
        precision,
        scaled_mu,
        variance + mean * mean,
        exact.round_to_bits(spread, TERM_BITS, axis=1).sum(axis=1),
        exact.round_to_bits(mean * scaled_mu, TERM_BITS, axis=1).sum(axis=1),
    )


def kl_divergence(
    mu: NDArray[np.floating] | GaussianTerms,
    log_var: NDArray[np.floating] | None = None,
    rows: slice = slice(None),
    *,
    slices: int = 2,
) -> Array:
    """KL(N_i ‖ N_j) for all i, or those of ``rows``, and all j (Eq. 8), as matrix products.

    Written out, 2 KL is ``sum_k log v_j - log v_i - 1 + (v_i + mu_i²)/v_j - 2 mu_i mu_j/v_j + mu_j²/v_j``: each term is
    a product of something of i with something of j.

    Parameters
    ----------
    mu, log_var : ndarrays of shape (n_labels, n_components)
        Or only their :class:`GaussianTerms`.
    rows : slice
    slices : {1, 2}
        1 takes a third of the time and gives about the accuracy of single precision, which is enough for a step of a
        descent; see :func:`~pysldl.backend.exact.matmul_exact`.

    Returns
    -------
    ndarray of shape (n_labels, n_labels), or (n_rows, n_labels), float64
        Entry [i, j] is KL(N_i ‖ N_j).

    Examples
    --------
    A narrow Gaussian lies inside a wide one, not the other way round:

    >>> mu, log_var = np.zeros((2, 1)), np.log([[1.0], [9.0]])
    >>> kl_divergence(mu, log_var).round(2)
    array([[0.  , 0.65],
           [2.9 , 0.  ]])
    """
    g = mu if isinstance(mu, GaussianTerms) else gaussian_terms(mu, np.asarray(log_var))
    divergence = half_cross_terms(g, rows, slices=slices)
    divergence += kl_offset(g)
    divergence -= 0.5 * (g.log_volume[rows, None] + g.mu.shape[1])
    return divergence


def half_cross_terms(
    g: GaussianTerms, rows: slice = slice(None), *, slices: int = 1, out: Array | None = None
) -> Array:
    """The part of KL(N_i ‖ N_j) that depends on i and j together, of shape (n_rows, n_labels).

    With :func:`kl_offset` of j added, it orders the labels of every anchor as the divergence does.
    """
    of_i = g.second_moment[rows]
    # A power of two brings both halves to one scale, so that one rounding serves both.
    balance = _power_of_two(of_i) / _power_of_two(2.0 * g.mu[rows])
    left = np.hstack([0.5 * of_i, -balance * g.mu[rows]])
    right = np.hstack([g.precision, g.scaled_mu / balance])
    return exact.matmul_exact(left, right.T, slices=slices, out=out)


def kl_offset(g: GaussianTerms) -> Array:
    """The part of KL(N_i ‖ N_j) that depends on j alone, of shape (n_labels,)."""
    return 0.5 * (g.log_volume + g.scaled_norm)


def kl_backward(
    G: NDArray[np.floating], mu: NDArray[np.floating] | GaussianTerms, log_var: NDArray[np.floating] | None = None
) -> tuple[Array, Array]:
    """Gradients of ``sum(G * kl_divergence(mu, log_var))``, each (n_labels, n_components)."""
    g = mu if isinstance(mu, GaussianTerms) else gaussian_terms(mu, np.asarray(log_var))
    n_labels, n_components = g.mu.shape
    # Entries of G are integers of two bits, at most: the rest of the mantissa is left for the other factor.
    bits = exact.MANTISSA - 3 - n_labels.bit_length()
    to_i = matmul(G, exact.round_to_bits(np.hstack([g.precision, g.scaled_mu]), bits, axis=0))
    to_j = matmul(G.T, exact.round_to_bits(np.hstack([g.second_moment, g.mu]), bits, axis=0))
    by_precision_i, by_scaled_mu_i = to_i[:, :n_components], to_i[:, n_components:]
    by_second_moment_j, by_mu_j = to_j[:, :n_components], to_j[:, n_components:]
    row_sums, column_sums = G.sum(axis=1)[:, None], G.sum(axis=0)[:, None]

    grad_mu = g.mu * by_precision_i - by_scaled_mu_i
    grad_mu += column_sums * g.scaled_mu - g.precision * by_mu_j
    grad_log_var = 0.5 * (g.variance * by_precision_i - row_sums + column_sums * (1 - g.mu * g.scaled_mu))
    grad_log_var += g.scaled_mu * by_mu_j - 0.5 * g.precision * by_second_moment_j
    return grad_mu, grad_log_var


def js_divergence(
    mu: NDArray[np.floating] | GaussianTerms, log_var: NDArray[np.floating] | None = None, *, slices: int = 2
) -> Array:
    """Jensen-Shannon divergence for all pairs, with the mixture replaced by the Gaussian of equal moments.

    The mixture of two Gaussians is not Gaussian and its divergence has no closed form. With
    ``m = (v_i + v_j)/2 + (mu_i - mu_j)²/4``, the mixture's variance, the two KL terms to that Gaussian collapse to
    ``sum_k (log m - (log v_i + log v_j)/2)/2``: zero for equal Gaussians, and symmetric, which is what the ablation
    "without asymmetric correlation" asks for. ``slices`` is there for the sake of :func:`kl_divergence` and ignored.

    Returns
    -------
    ndarray of shape (n_labels, n_labels), float64
    """
    g = mu if isinstance(mu, GaussianTerms) else gaussian_terms(mu, np.asarray(log_var))
    half_log_volume = 0.5 * g.log_volume
    total = log_mixture_volumes(g.mu, g.variance)
    total -= half_log_volume
    total -= half_log_volume[:, None]
    total *= 0.5
    return total


def js_backward(
    G: NDArray[np.floating], mu: NDArray[np.floating] | GaussianTerms, log_var: NDArray[np.floating] | None = None
) -> tuple[Array, Array]:
    """Gradients of ``sum(G * js_divergence(mu, log_var))``, each (n_labels, n_components)."""
    g = mu if isinstance(mu, GaussianTerms) else gaussian_terms(mu, np.asarray(log_var))
    S = np.asarray(G + G.T, dtype=np.float64)
    by_mu, by_variance = mixture_pulls(S, g.mu, g.variance)
    return 0.25 * by_mu, 0.25 * (g.variance * by_variance - S.sum(axis=1)[:, None])


def _power_of_two(x: Array) -> float:
    """The power of two just above the largest absolute value."""
    return float(np.ldexp(1.0, np.frexp(np.max(np.abs(x), initial=0.0))[1]))
