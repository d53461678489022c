"""Block conjugate gradients: one symmetric system, many right-hand sides, the columns of a matrix.

Sums over rows are taken in double precision. The vector part of a step is one pass over memory where NumPy would take
several; matrices may lie on a device, while the numbers of the columns are NumPy's in every form.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pysldl.backend.device import to_device, to_host
from pysldl.backend.dispatch import primitive

__all__ = ["Deflation", "advance", "column_dots", "conjugate_gradients", "relative_norm", "turn"]

ROWS_AT_ONCE = 8192

Array = NDArray[Any]


@dataclass(frozen=True)
class Deflation:
    """A correction of the diagonal preconditioner ``scale``: ``scale * r + V (gain * (Vᵀ r))``.

    With texts, a few dozen directions, those of the common words, hold eigenvalues far above all others, and the steps
    grow with the root of the largest. The correction brings them down to the smallest of theirs.

    Attributes
    ----------
    V : matrix of shape (n_features, n_directions)
    gain : ndarray of shape (n_directions, 1), from -1 to 0
    """

    V: Any
    gain: NDArray[Any]

    def parts(self, residual: Any) -> NDArray[Any]:
        """The residual along the directions, (n_directions, n_columns)."""
        return to_host(self.V.T @ residual)

    def energy(self, parts: NDArray[Any]) -> NDArray[np.float64]:
        """What the correction adds to ``residual · scale residual`` of every column."""
        return np.asarray(np.einsum("kj,kj->j", self.gain * parts, parts, dtype=np.float64))

    def correct(self, direction: Any, parts: NDArray[Any]) -> None:
        """Add the correction of a residual with those parts to a direction, in place."""
        direction += self.V @ to_device(self.gain * parts)


def conjugate_gradients(
    operator: Callable[[Any], Any],
    W: Any,
    residual: Any,
    scale: Any,
    goal: NDArray[np.float64],
    *,
    max_iter: int,
    whole: NDArray[np.float64],
    on_step: Callable[[int, float], None] | None = None,
    stop: Callable[[int, Any], bool] | None = None,
    deflation: Deflation | None = None,
) -> tuple[int, float]:
    """Solve ``A W = B`` for a symmetric positive definite ``A``, from ``W`` on, which is changed in place.

    Parameters
    ----------
    operator : callable
        From a matrix ``P`` of shape (n_rows, n_columns) to ``A P``.
    W, residual : matrices of shape (n_rows, n_columns)
        Where to start, and ``B - A W`` there; both change.
    scale : array of shape (n_rows,)
        The inverse of the diagonal of ``A``, which scales the steps.
    goal : ndarray of shape (n_columns,)
        Length of every column's residual at which to stop.
    max_iter : int
    whole : ndarray of shape (n_columns,)
        Lengths of the columns of ``B``, against which residuals are told.
    on_step : callable, optional
        Told the number of every step and the relative length of the residual.
    stop : callable, optional
        Asked after every step, with its number and ``W``, whether to stop.
    deflation : Deflation, optional
        Directions that shall not slow the steps down; worth their cost where many steps are to be taken.

    Returns
    -------
    steps : int
        At least 1.
    left : float
        Length of the residual against ``whole``.
    """
    direction = scale[:, None] * residual
    if deflation is not None:
        deflation.correct(direction, deflation.parts(residual))
    energy = column_dots(residual, direction)
    left = column_dots(residual, residual)
    step = 0
    while step < max_iter and not (left <= goal**2).all():
        step += 1
        image = operator(direction)
        curvature = column_dots(direction, image)
        length = np.divide(energy, curvature, out=np.zeros_like(energy), where=curvature > 0)
        left, fresh = advance(W, residual, direction, image, length, scale)
        if on_step is not None:
            on_step(step, relative_norm(np.sqrt(left), whole))
        if stop is not None and stop(step, W):
            break
        if deflation is not None:
            parts = deflation.parts(residual)
            fresh = np.maximum(fresh + deflation.energy(parts), 0.0)
        share = np.divide(fresh, energy, out=np.zeros_like(energy), where=energy > 0)
        turn(direction, residual, scale, share)
        if deflation is not None:
            deflation.correct(direction, parts)
        energy = fresh
    return max(step, 1), relative_norm(np.sqrt(left), whole)


def relative_norm(part: NDArray[np.float64], whole: NDArray[np.float64]) -> float:
    """Length of a matrix against that of another, from the lengths of their columns."""
    return float(np.linalg.norm(part)) / max(float(np.linalg.norm(whole)), 1e-300)


@primitive(numba=True, torch="tensors")
def column_dots(A: Array, B: Array) -> NDArray[np.float64]:
    """``sum_i A[i, j] B[i, j]`` for every column j of two (n_rows, n_columns) arrays."""
    total = np.zeros(A.shape[1])
    for start in range(0, len(A), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        total += np.einsum("ij,ij->j", A[rows].astype(np.float64, copy=False), B[rows].astype(np.float64, copy=False))
    return total


@primitive(numba=True, torch="tensors")
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
    length = length.astype(W.dtype)
    W += length * direction
    residual -= length * image
    return column_dots(residual, residual), column_dots(residual, scale[:, None] * residual)


@primitive(numba=True, torch="tensors")
def turn(direction: Array, residual: Array, scale: Array, share: Array) -> None:
    """The next direction in place: ``scale * residual + share * direction``, ``share`` of shape (n_columns,)."""
    direction *= share.astype(direction.dtype)
    direction += scale[:, None] * residual
