"""One logarithm of a product instead of many, and only half of the pairs: (j, i) has the mixture of (i, j)."""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from pysldl.backend import exact

# Eight factors as large or as small as single precision allows stay within the range of double precision.
FACTORS_AT_ONCE = 8
LN2 = 0.6931471805599453

Array = NDArray[np.float64]


def log_mixture_volumes(mu: Array, variance: Array) -> Array:
    products, powers = _volumes(*(np.ascontiguousarray(0.5 * array.T, dtype=np.float64) for array in (mu, variance)))
    volumes = exact.log(products)
    volumes += powers * np.float64(LN2)
    return np.where(np.tri(len(mu), dtype=bool), volumes.T, volumes)


def mixture_pulls(S: Array, mu: Array, variance: Array) -> tuple[Array, Array]:
    halves = (np.ascontiguousarray(0.5 * array, dtype=np.float64) for array in (mu, variance))
    by_mu, by_variance = _pulls(np.ascontiguousarray(S), *halves)
    return by_mu, by_variance


# Without fastmath, and with sums along one fixed order: the same bits on every processor.
@njit(parallel=True, cache=True, error_model="numpy")
def _volumes(half_mu, half_var):
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


@njit(parallel=True, cache=True, error_model="numpy")
def _pulls(S, half_mu, half_var):
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
