"""One pass over memory a step. Sums are taken part by part, in as many parts whatever the number of threads."""

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

__all__ = ["advance", "column_dots", "turn"]

N_PARTS = 64

Array = NDArray[Any]


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
