"""Products, Cholesky factors and conjugate gradients, on the processor or where the matrix is.

Each row of a sparse product belongs to one thread, which adds in one fixed order. A design matrix is the features of a
regression as an operator: centered on the fly, rows held out without a copy of the others. Conjugate gradients solve
one symmetric system for many right-hand sides, the columns of a matrix: sums over rows are taken in double precision,
the vector part of a step is one pass over memory where NumPy would take several, and the numbers of the columns are
NumPy's in every form.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import linalg, sparse

from pysldl.backend.dispatch import as_int32_indices, primitive, to_device, to_host
from pysldl.backend.threads import matmul

Array = NDArray[Any]

ROWS_AT_ONCE = 8192


@primitive(numba=True, single_row="single_query")
def sparse_times(X: sparse.csr_array, P: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
    """``X @ P``, in the precision of both if no other is given; for ``Xᵀ @ P`` pass the transpose, stored by rows."""
    dtype = np.result_type(X.dtype, P.dtype) if dtype is None else np.dtype(dtype)
    return np.asarray(X @ P.astype(dtype, copy=False)).astype(dtype, copy=False)


@primitive(torch="tensors")
def cholesky_factor(A: Array, alpha: float) -> Array:
    """The lower triangle L of ``A + alpha I = L Lᵀ``, written over ``A``; what is above the diagonal is undefined."""
    A.flat[:: len(A) + 1] += alpha
    return np.asarray(linalg.cho_factor(A, lower=True, overwrite_a=True, check_finite=False)[0])


@primitive(torch="tensors")
def cholesky_solve(factor: Array, B: Array) -> Array:
    """``A⁻¹ B``, from the factor of ``A``."""
    return np.asarray(linalg.cho_solve((factor, True), B, check_finite=False))


@primitive(torch="tensors")
def triangular_solve(factor: Array, B: Array) -> Array:
    """``L⁻¹ B``, from the factor L."""
    return np.asarray(linalg.solve_triangular(factor, B, lower=True, check_finite=False))


@primitive(torch="arrays")
def design_matrix(X: Any, mean: NDArray[np.floating] | None = None) -> "DesignMatrix":
    """The operator ``X - mean``, whose products are computed on the device where one is in use.

    The mean is taken off every row on the fly: an intercept costs no dense copy of sparse input.
    """
    return DesignMatrix(X, mean)


@dataclass(frozen=True)
class DesignMatrix:
    """See :func:`design_matrix`; ``without`` are rows that count as zero, because they are held out."""

    X: Any
    mean: NDArray[np.floating] | None
    without: NDArray[np.integer] | None = None

    @cached_property
    def transpose(self) -> Any:
        """``X`` by columns, so that each row of ``XᵀZ`` is one thread's."""
        return as_int32_indices(sparse.csr_array(self.X.T)) if sparse.issparse(self.X) else self.X.T

    def without_rows(self, rows: NDArray[np.integer]) -> Self:
        """The same, with some rows held out."""
        fewer = replace(self, without=rows)
        fewer.__dict__["transpose"] = self.transpose  # one serves both
        return fewer

    def only_rows(self, rows: NDArray[np.integer]) -> Self:
        """The operator of some rows."""
        return replace(self, X=self.X[rows], without=None)

    def single(self) -> Self:
        """The same in single precision."""
        if self.X.dtype == np.float32:
            return self
        mean = None if self.mean is None else self.mean.astype(np.float32)
        return replace(self, X=self.X.astype(np.float32), mean=mean)

    def double(self) -> Self:
        """The same for products with double precision; on the processor any design can have them."""
        return self

    def times(self, W: Any) -> Any:
        """``(X - mean) @ W``."""
        product = _times(self.X, W)
        if self.mean is not None:
            product -= (self.mean @ W).astype(product.dtype)
        if self.without is not None:
            product[self.without] = 0
        return product

    def transposed_times(self, Z: Any) -> Any:
        """``(X - mean).T @ Z``; with ``without``, rows of ``Z`` that are to be zero must be."""
        product = _times(self.transpose, Z)
        if self.mean is not None:
            product -= np.outer(self.mean, Z.sum(axis=0)).astype(product.dtype)
        return product

    def ridge_times(self, W: Any, alpha: float) -> Any:
        """``((X - mean).T @ (X - mean) + alpha I) @ W``."""
        product = self.transposed_times(self.times(W))
        product += alpha * W
        return product

    def residual(self, B: Any, W: Any, alpha: float) -> Any:
        """What ``W`` leaves of the right-hand side ``B`` of the normal equations."""
        return B - self.transposed_times(self.times(W)) - alpha * W

    def zeros(self, n_columns: int, dtype: DTypeLike) -> Any:
        """Weights of zero, (n_features, n_columns)."""
        return np.zeros((self.X.shape[1], n_columns), dtype=dtype)

    def gram(self) -> Any:
        """``(X - mean).T @ (X - mean)``, dense (n_features, n_features), float64."""
        gram = as_dense(self.X.T @ self.X) if sparse.issparse(self.X) else matmul(self.X.T, self.X)
        return gram if self.mean is None else gram - self.X.shape[0] * np.outer(self.mean, self.mean)

    def kernel(self) -> Any:
        """``(X - mean) @ (X - mean).T``, dense (n_samples, n_samples), float64."""
        kernel = as_dense(self.X @ self.X.T) if sparse.issparse(self.X) else matmul(self.X, self.X.T)
        if self.mean is None:
            return kernel
        across = self.X @ self.mean
        return kernel - across - across[:, None] + self.mean @ self.mean

    def dense_rows(self, rows: Any) -> Any:
        """Some rows, dense and centered, float64."""
        block = as_dense(self.X[rows])
        return block if self.mean is None else block - self.mean

    def column_squares(self) -> NDArray[np.float64]:
        """Diagonal of the Gram matrix, (n_features,)."""
        X = self.X
        if sparse.issparse(X):
            squares: NDArray[Any] = np.bincount(X.indices, weights=X.data.astype(np.float64) ** 2, minlength=X.shape[1])
        else:
            squares = np.einsum("ij,ij->j", X, X, dtype=np.float64)
        return squares if self.mean is None else np.maximum(squares - X.shape[0] * self.mean.astype(float) ** 2, 0.0)


def _times(X: Any, P: NDArray[Any]) -> NDArray[Any]:
    return sparse_times(X, P) if sparse.issparse(X) else matmul(X, P)


def as_dense(matrix: Any, dtype: DTypeLike | None = np.float64) -> NDArray[Any]:
    """A matrix, sparse or not, as an array of that type, or of its own where None is given."""
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix, dtype=dtype)


@dataclass(frozen=True)
class Deflation:
    """A correction of the diagonal preconditioner ``scale``: ``scale * r + V (gain * (Vᵀ r))``, gains from -1 to 0.

    With texts, a few dozen directions, those of the common words, hold eigenvalues far above all others, and the steps
    grow with the root of the largest. The correction brings them down to the smallest of theirs.
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

    ``operator`` maps a matrix ``P`` to ``A P``; ``residual`` is ``B - A W`` at the start; ``scale`` is the inverse of
    the diagonal of ``A``; ``goal`` is the length of every column's residual at which to stop, and ``whole`` the lengths
    of the columns of ``B``, against which residuals are told. ``on_step`` hears the number of every step and the
    relative length of the residual; ``stop`` is asked after every step, with its number and ``W``, whether to stop.
    ``deflation`` names directions that shall not slow the steps down; it is worth its cost where many steps are to be
    taken. Returns the number of steps, at least 1, and the length of the residual against ``whole``.
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
    """Go ``length`` along ``direction``, with its ``image`` under the matrix, changing ``W`` and ``residual`` in place.

    Returns ``residual · residual`` and ``residual · scale residual`` of every column.
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
