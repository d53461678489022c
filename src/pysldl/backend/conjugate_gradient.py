"""The vector part of block conjugate gradients, one pass over memory where NumPy would take several.

Sums over rows are taken part by part in double precision, in as many parts whatever the number of threads.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pysldl.backend.dispatch import has_numba

__all__ = ["advance", "column_dots", "turn"]

N_PARTS = 64
PLAIN_ROWS = 8192

Array = NDArray[Any]


def column_dots(A: Array, B: Array) -> NDArray[np.float64]:
    """``sum_i A[i, j] B[i, j]`` for every column j of two (n_rows, n_columns) arrays."""
    if has_numba():
        return _compiled_loops()[0](A, B).sum(axis=0)
    return _plain_dots(A, B)


def advance(
    W: Array, residual: Array, direction: Array, image: Array, length: Array, scale: Array
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Go ``length`` along ``direction``, in place, and measure what is left.

    Parameters
    ----------
    W, residual, direction, image : ndarrays of shape (n_rows, n_columns)
        The solution and its residual, which change; the direction and its image under the matrix.
    length : ndarray of shape (n_columns,)
    scale : ndarray of shape (n_rows,)
        The preconditioner's diagonal.

    Returns
    -------
    left, energy : ndarrays of shape (n_columns,), float64
        ``residual · residual`` and ``residual · scale residual`` of every column.
    """
    if has_numba():
        left, energy = _compiled_loops()[1](W, residual, direction, image, length, scale)
        return left.sum(axis=0), energy.sum(axis=0)
    W += length * direction
    residual -= length * image
    return _plain_dots(residual, residual), _plain_dots(residual, scale[:, None] * residual)


def turn(direction: Array, residual: Array, scale: Array, share: Array) -> None:
    """The next direction in place: ``scale * residual + share * direction``, ``share`` of shape (n_columns,)."""
    if has_numba():
        _compiled_loops()[2](direction, residual, scale, share)
        return
    direction *= share
    direction += scale[:, None] * residual


def _plain_dots(A: Array, B: Array) -> NDArray[np.float64]:
    total = np.zeros(A.shape[1])
    for start in range(0, len(A), PLAIN_ROWS):
        rows = slice(start, start + PLAIN_ROWS)
        total += np.einsum("ij,ij->j", A[rows].astype(np.float64, copy=False), B[rows].astype(np.float64, copy=False))
    return total


@cache
def _compiled_loops() -> Any:
    from numba import njit, prange

    @njit(parallel=True, cache=True)
    def dots(A, B):  # type: ignore[no-untyped-def]
        n, width = A.shape
        total = np.zeros((N_PARTS, width), np.float64)
        for part in prange(N_PARTS):
            own = total[part]
            for i in range(n * part // N_PARTS, n * (part + 1) // N_PARTS):
                for j in range(width):
                    own[j] += np.float64(A[i, j]) * np.float64(B[i, j])
        return total

    @njit(parallel=True, cache=True)
    def step(W, residual, direction, image, length, scale):  # type: ignore[no-untyped-def]
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
    def steer(direction, residual, scale, share):  # type: ignore[no-untyped-def]
        n, width = direction.shape
        for part in prange(N_PARTS):
            for i in range(n * part // N_PARTS, n * (part + 1) // N_PARTS):
                by = scale[i]
                for j in range(width):
                    direction[i, j] = by * residual[i, j] + share[j] * direction[i, j]

    return dots, step, steer
