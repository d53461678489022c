"""A product row by row, in parts of about as many stored values."""

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import DTypeLike, NDArray

__all__ = ["equal_shares", "sparse_times"]

N_PARTS = 64


def sparse_times(X: Any, P: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
    dtype = np.result_type(X.dtype, P.dtype) if dtype is None else np.dtype(dtype)
    product = np.zeros((X.shape[0], P.shape[1]), dtype=dtype)
    values = X.data.astype(dtype, copy=False)
    _times(X.indptr, X.indices, values, np.ascontiguousarray(P), equal_shares(X.indptr), product)
    return product


def equal_shares(indptr: NDArray[np.integer], n_parts: int = N_PARTS) -> NDArray[np.int64]:
    """Bounds (n_parts + 1,) of consecutive rows that store about as many values each."""
    cuts = np.linspace(0, indptr[-1] - indptr[0], n_parts + 1)[1:-1] + indptr[0]
    inner = np.searchsorted(indptr, cuts)
    return np.concatenate([[0], inner, [len(indptr) - 1]]).astype(np.int64)


@njit(parallel=True, cache=True)
def _times(xp, xi, xd, P, bounds, product):
    width = P.shape[1]
    for part in prange(len(bounds) - 1):
        for row in range(bounds[part], bounds[part + 1]):
            out = product[row]
            at, end = xp[row], xp[row + 1]
            while at + 3 < end:  # four rows of P at a time: a quarter of the reads and writes of `out`
                v0, v1, v2, v3 = xd[at], xd[at + 1], xd[at + 2], xd[at + 3]
                p0, p1, p2, p3 = P[xi[at]], P[xi[at + 1]], P[xi[at + 2]], P[xi[at + 3]]
                for j in range(width):
                    out[j] = (((out[j] + v0 * p0[j]) + v1 * p1[j]) + v2 * p2[j]) + v3 * p3[j]
                at += 4
            while at < end:
                v0, p0 = xd[at], P[xi[at]]
                for j in range(width):
                    out[j] += v0 * p0[j]
                at += 1
