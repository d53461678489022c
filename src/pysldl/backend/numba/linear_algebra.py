"""Sparse products row by row, and conjugate gradients in one pass over memory a step.

Sums over all rows are taken part by part, in as many parts whatever the number of threads.
"""

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import DTypeLike, NDArray

from pysldl.backend.threads import parallel_for, parallel_map

N_PARTS = 64
PRODUCTS_OF_PART = 1 << 18  # a tenth of a millisecond

Array = NDArray[Any]


def sparse_times(X: Any, P: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
    dtype = np.result_type(X.dtype, P.dtype) if dtype is None else np.dtype(dtype)
    product = np.zeros((X.shape[0], P.shape[1]), dtype=dtype)
    values, P = X.data.astype(dtype, copy=False), np.ascontiguousarray(P)
    n_parts = min(N_PARTS, 1 + X.nnz * P.shape[1] // PRODUCTS_OF_PART)
    bounds = equal_shares(X.indptr, n_parts)
    # Not in a parallel loop of numba, whose threads wait for each other, and for the next loop, at full speed.
    parallel_map(
        lambda part: _times(bounds[part], bounds[part + 1], X.indptr, X.indices, values, P, product), range(n_parts)
    )
    return product


def dense_product(A: Any, B: Any) -> NDArray[np.float64]:
    product = np.zeros((A.shape[0], B.shape[1]), dtype=np.result_type(A.dtype, B.dtype))
    parallel_for(_multiply, A.shape[0], A.indptr, A.indices, A.data, B.indptr, B.indices, B.data, product)
    return product.astype(np.float64, copy=False)


@njit(nogil=True, cache=True)
def _multiply(start, stop, ap, ai, ad, bp, bi, bd, product):
    for row in range(start, stop):
        out = product[row]
        for at in range(np.uint64(ap[row]), np.uint64(ap[row + 1])):
            value, other = ad[at], ai[at]
            for place in range(np.uint64(bp[other]), np.uint64(bp[other + 1])):
                out[np.uint64(bi[place])] += value * bd[place]


def equal_shares(indptr: NDArray[np.integer], n_parts: int = N_PARTS) -> NDArray[np.int64]:
    """Bounds (n_parts + 1,) of consecutive rows that store about as many values each."""
    cuts = np.linspace(0, indptr[-1] - indptr[0], n_parts + 1)[1:-1] + indptr[0]
    inner = np.searchsorted(indptr, cuts)
    return np.concatenate([[0], inner, [len(indptr) - 1]]).astype(np.int64)


@njit(nogil=True, cache=True)
def _times(start, stop, xp, xi, xd, P, product):
    width = P.shape[1]
    for row in range(start, stop):
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


def column_dots(A: Array, B: Array) -> NDArray[np.float64]:
    return np.asarray(_dots(A, B).sum(axis=0))


def advance(
    W: Array, residual: Array, direction: Array, image: Array, length: Array, scale: Array
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    left, energy = _advance(W, residual, direction, image, length.astype(W.dtype), scale)
    return left.sum(axis=0), energy.sum(axis=0)


def turn(direction: Array, residual: Array, scale: Array, share: Array) -> None:
    _turn(direction, residual, scale, share.astype(direction.dtype))


@njit(parallel=True, cache=True)
def _dots(A, B):
    n, width = A.shape
    total = np.zeros((N_PARTS, width), np.float64)
    for part in prange(N_PARTS):
        own = total[part]
        for i in range(n * part // N_PARTS, n * (part + 1) // N_PARTS):
            for j in range(width):
                own[j] += np.float64(A[i, j]) * np.float64(B[i, j])
    return total


@njit(parallel=True, cache=True)
def _advance(W, residual, direction, image, length, scale):
    n, width = W.shape
    left = np.zeros((N_PARTS, width), np.float64)
    energy = np.zeros((N_PARTS, width), np.float64)
    for part in prange(N_PARTS):
        own_left, own_energy = left[part], energy[part]
        for i in range(n * part // N_PARTS, n * (part + 1) // N_PARTS):
            by = scale[i]
            for j in range(width):
                W[i, j] += length[j] * direction[i, j]
                r = residual[i, j] - length[j] * image[i, j]
                residual[i, j] = r
                square = np.float64(r) * np.float64(r)
                own_left[j] += square
                own_energy[j] += by * square
    return left, energy


@njit(parallel=True, cache=True)
def _turn(direction, residual, scale, share):
    n, width = direction.shape
    for part in prange(N_PARTS):
        for i in range(n * part // N_PARTS, n * (part + 1) // N_PARTS):
            by = scale[i]
            for j in range(width):
                direction[i, j] = by * residual[i, j] + share[j] * direction[i, j]
