"""Variances of the mixtures of all pairs of labels: the loops of the Jensen-Shannon divergence.

A pair (i, j) has along axis k the mixture variance ``m = (v_i + v_j)/2 + (mu_i - mu_j)²/4``. Compiled, the sum over k
of its logarithms is one logarithm of a product, and only half of the pairs are visited, m being that of (j, i) too.
The plain twins take a logarithm of every number. Neither forms more than a few (n_labels, n_labels) arrays.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pysldl.backend import exact
from pysldl.backend.dispatch import has_numba

__all__ = ["log_mixture_volumes", "mixture_pulls"]

Array = NDArray[np.float64]

# Eight factors as large or as small as single precision allows stay within the range of double precision.
FACTORS_AT_ONCE = 8
LN2 = 0.6931471805599453


def log_mixture_volumes(mu: Array, variance: Array) -> NDArray[np.float64]:
    """``sum_k log m_ijk`` for all pairs.

    Parameters
    ----------
    mu, variance : ndarray of shape (n_labels, n_components)

    Returns
    -------
    ndarray of shape (n_labels, n_labels), float64
        Of divergences it is the large part, and nearly all of it cancels.
    """
    if has_numba():
        halves = (np.ascontiguousarray(0.5 * array.T, dtype=np.float64) for array in (mu, variance))
        products, powers = _compiled_volumes()(*halves)
        volumes = exact.log(products)
        volumes += powers * np.float64(LN2)
        return np.where(np.tri(len(mu), dtype=bool), volumes.T, volumes)
    total = np.zeros((len(mu), len(mu)))
    for mu_k, var_k in zip(mu.T, variance.T, strict=True):
        total += exact.log(_mixture_variance(mu_k, var_k))
    return total


def mixture_pulls(S: Array, mu: Array, variance: Array) -> tuple[Array, Array]:
    """``sum_j S_ij (mu_i - mu_j)/m_ijk`` and ``sum_j S_ij/m_ijk``, each (n_labels, n_components).

    Parameters
    ----------
    S : ndarray of shape (n_labels, n_labels)
        Symmetric weights of the pairs.
    mu, variance : ndarray of shape (n_labels, n_components)
    """
    if has_numba():
        halves = (np.ascontiguousarray(0.5 * array, dtype=np.float64) for array in (mu, variance))
        by_mu, by_variance = _compiled_pulls()(np.ascontiguousarray(S), *halves)
        return by_mu, by_variance
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


@cache
def _compiled_volumes() -> Any:
    from numba import njit, prange

    # Without fastmath, and with sums along one fixed order: the same bits on every processor.
    @njit(parallel=True, cache=True, error_model="numpy")
    def volumes(half_mu, half_var):  # type: ignore[no-untyped-def]
        n_axes, n = half_mu.shape
        # A product is kept as a number from 1 to 2 and a power of two, both read from its bits: it never overflows.
        products = np.ones((n, n), np.float64)
        powers = np.zeros((n, n), np.int64)
        fraction, one = np.int64((1 << 52) - 1), np.int64(1023 << 52)
        for i in prange(n):
            product, power = products[i, i:], powers[i, i:]
            bits = product.view(np.int64)
            for start in range(0, n_axes, FACTORS_AT_ONCE):
                for k in range(start, min(start + FACTORS_AT_ONCE, n_axes)):
                    mu_i, var_i = half_mu[k, i], half_var[k, i]
                    mu_j, var_j = half_mu[k, i:], half_var[k, i:]
                    for j in range(n - i):
                        apart = mu_i - mu_j[j]
                        product[j] *= var_i + var_j[j] + apart * apart
                for j in range(n - i):
                    power[j] += (bits[j] >> 52) - 1023
                    bits[j] = (bits[j] & fraction) | one
        return products, powers

    return volumes


@cache
def _compiled_pulls() -> Any:
    from numba import njit, prange

    @njit(parallel=True, cache=True, error_model="numpy")
    def pulls(S, half_mu, half_var):  # type: ignore[no-untyped-def]
        n, n_axes = half_mu.shape
        by_mu, by_var = np.zeros_like(half_mu), np.zeros_like(half_mu)
        for i in prange(n):
            mu_i, var_i = half_mu[i], half_var[i]
            pull, share = by_mu[i], by_var[i]
            for j in range(n):
                s = S[i, j]
                if s == 0:
                    continue
                mu_j, var_j = half_mu[j], half_var[j]
                for k in range(n_axes):
                    apart = mu_i[k] - mu_j[k]
                    weight = s / (var_i[k] + var_j[k] + apart * apart)
                    share[k] += weight
                    pull[k] += weight * (apart + apart)
        return by_mu, by_var

    return pulls
