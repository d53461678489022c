"""Row norms, products, Cholesky factors and conjugate gradients, on the processor or where the matrix is.

Each row of a sparse product belongs to one thread, which adds in one fixed order. A design matrix is the features of a
regression as an operator: centered on the fly, rows held out without a copy of the others. Conjugate gradients solve
one symmetric system for many right-hand sides, the columns of a matrix: sums over rows are taken in double precision,
the vector part of a step is one pass over memory where NumPy would take several, and the numbers of the columns are
NumPy's in every form.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy  # which loads its linalg when that is first used: a service that only predicts does not
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from pysldl.backend.dispatch import as_int32_indices, primitive, to_device, to_host
from pysldl.backend.threads import matmul
from pysldl.backend.workspace import current_workspace, shared_parts

SMALLEST_SQUARE = 1e-35  # below, numbers of single precision lose digits
NEARLY = 1e-6  # how far from 1 the length of a row may be that stays as it is
BLOCK_VALUES = 1 << 22
FEWEST_ROWS, ROWS_A_PART = 1 << 14, 1 << 15

Array = NDArray[Any]

ROWS_AT_ONCE = 8192
SAMPLE, ROUNDS = 4096, 3  # vectors whose axes stand for those of all, and products with their second moments


def row_norms(X: Any) -> NDArray[np.float64]:
    """Euclidean length of every row of a dense or CSR matrix, added up in double precision."""
    if not sparse.issparse(X):
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64)))
    lengths = np.zeros(X.shape[0])
    mean = max(1, X.nnz // max(X.shape[0], 1))
    block = max(1, BLOCK_VALUES // mean)
    for start in range(0, X.shape[0], block):
        stop = min(start + block, X.shape[0])
        values = X.data[X.indptr[start] : X.indptr[stop]]
        rows = np.repeat(np.arange(stop - start), np.diff(X.indptr[start : stop + 1]))
        with np.errstate(over="ignore", under="ignore"):
            squares = values * values
        if values.dtype == np.float32:
            squares = _in_double_where_needed(values, squares, rows)
        lengths[start:stop] = np.bincount(rows, weights=squares, minlength=stop - start)
    return np.sqrt(lengths, out=lengths)


def _in_double_where_needed(values: NDArray[Any], squares: NDArray[Any], rows: NDArray[np.intp]) -> NDArray[Any]:
    """The squares, in double precision in rows where single precision ends; others keep their bits."""
    beyond = ~np.isfinite(squares) | ((squares < SMALLEST_SQUARE) & (values != 0))
    if not beyond.any():
        return squares
    needed = np.isin(rows, np.unique(rows[beyond]))
    return np.where(needed, values.astype(np.float64) ** 2, squares)


def _is_unit(values: NDArray[Any]) -> bool:
    """Whether :func:`l2_normalize` leaves a single row of these values as it is; False where that takes a closer look.

    A service is asked row by row: this takes a fraction of the time of :func:`row_norms`, and adds up the same.
    """
    if values.dtype != np.float32 or values.size == 0:
        return False
    with np.errstate(over="ignore", under="ignore"):
        squares = values * values
    length = math.sqrt(np.cumsum(squares, dtype=np.float64)[-1])
    return abs(length - 1.0) <= NEARLY and bool(squares.min() >= SMALLEST_SQUARE)


def _not_unit(lengths: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray((lengths > 0) & (np.abs(lengths - 1.0) > NEARLY))


def l2_normalize(X: Any) -> Any:
    """Rows scaled to length 1, in the precision of ``X``; zero rows stay zero.

    Of a sparse matrix a row whose length is 1 to seven digits stays as it is, and so does all of it where all have.
    """
    if not sparse.issparse(X):
        lengths = row_norms(X)
        return X / np.where(lengths > 0, lengths, 1).astype(X.dtype)[:, None]
    X = X if isinstance(X, sparse.csr_array) else sparse.csr_array(X)
    if X.shape[0] == 1 and _is_unit(X.data):
        return X
    lengths = row_norms(X)
    others = _not_unit(lengths)
    if not others.any():
        return X
    scales = np.divide(1.0, lengths, out=np.ones_like(lengths), where=others)
    with np.errstate(over="ignore"):
        factors = scales.astype(X.dtype)
        data = X.data * np.repeat(factors, np.diff(X.indptr))
    if not np.isfinite(factors).all() or (factors < SMALLEST_SQUARE).any():
        exact = X.data * np.repeat(scales, np.diff(X.indptr))
        extreme = ~np.isfinite(factors) | (factors < SMALLEST_SQUARE)
        data = np.where(np.repeat(extreme, np.diff(X.indptr)), exact, data).astype(X.dtype)
    return sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)


def l2_normalize_in_parts(X: sparse.csr_array) -> sparse.csr_array:
    """:func:`l2_normalize` of sparse rows in the workspace of the fit, which may be a cluster."""
    workspace, parts = current_workspace().for_pass(X), shared_parts(X.shape[0], FEWEST_ROWS, ROWS_A_PART)
    if has_unit_rows(X) if workspace.n_shards == 1 else all(workspace.map("scaling", _part_has_unit_rows, parts, X)):
        return X
    data = workspace.empty(X.nnz, X.dtype)
    workspace.map("scaling", _put_unit_rows, parts, X, data)
    return sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)


@primitive(torch="arrays")
def has_unit_rows(X: sparse.csr_array) -> bool:
    """Whether all rows that are not zero have length 1, to seven digits."""
    return not _not_unit(row_norms(X)).any()


def _part_has_unit_rows(part: slice, X: sparse.csr_array) -> bool:
    return has_unit_rows(X[part])


def _put_unit_rows(part: slice, X: sparse.csr_array, data: NDArray[Any]) -> None:
    """Scale some rows to length 1; the scaled values go to their places in ``data``."""
    data[X.indptr[part.start] : X.indptr[part.stop]] = l2_normalize(X[part]).data


def unit_vectors(Z: Any, dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Dense rows scaled to length 1, each quotient rounded once from double precision; zero rows stay zero."""
    Z = np.asarray(Z, dtype=dtype)
    lengths = row_norms(Z)[:, None]
    return np.asarray(np.divide(Z, lengths, out=np.zeros_like(Z), where=lengths > 0, casting="same_kind"))


def as_float32_rows(X: Any) -> sparse.csr_array:
    """Rows as CSR in single precision; those that are so already are not copied."""
    if isinstance(X, sparse.csr_array) and X.dtype == np.float32:
        return X
    return sparse.csr_array(X if sparse.issparse(X) else np.atleast_2d(X), dtype=np.float32)


def dense_rows(features: Any) -> NDArray[Any]:
    """One row or many, sparse or not, as an array of shape (n_rows, n_features)."""
    return np.asarray(features.toarray() if sparse.issparse(features) else np.atleast_2d(features))


@primitive(numba=True, single_row="single_query")
def sparse_times(X: sparse.csr_array, P: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
    """``X @ P``, in the precision of both if no other is given; for ``Xᵀ @ P`` pass the transpose, stored by rows."""
    dtype = np.result_type(X.dtype, P.dtype) if dtype is None else np.dtype(dtype)
    return np.asarray(X @ P.astype(dtype, copy=False)).astype(dtype, copy=False)


@primitive(numba=True)
def dense_product(A: sparse.csr_array, B: sparse.csr_array) -> NDArray[np.float64]:
    """``A @ B`` of two sparse matrices as an array in double precision, each entry added up along the row of ``A``."""
    return as_dense(A @ B)


@primitive(torch="tensors")
def cholesky_factor(A: Array, alpha: float) -> Array:
    """The lower triangle L of ``A + alpha I = L Lᵀ``, written over ``A``; what is above the diagonal is undefined."""
    A.flat[:: len(A) + 1] += alpha
    # LAPACK takes columns: rows of a symmetric matrix need no copy for that.
    return np.asarray(scipy.linalg.cho_factor(A.T, lower=True, overwrite_a=True, check_finite=False)[0])


@primitive(torch="tensors")
def cholesky_solve(factor: Array, B: Array) -> Array:
    """``A⁻¹ B``, from the factor of ``A``."""
    return np.asarray(scipy.linalg.cho_solve((factor, True), B, check_finite=False))


@primitive(torch="tensors")
def triangular_solve(factor: Array, B: Array) -> Array:
    """``L⁻¹ B``, from the factor L."""
    return np.asarray(scipy.linalg.solve_triangular(factor, B, lower=True, check_finite=False))


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
        """``(X - mean).T @ Z``; with ``without``, rows of ``Z`` that are to be zero must be.

        Without a mean, ``Z`` may be sparse.
        """
        if sparse.issparse(Z):
            both = sparse.issparse(self.X)
            return dense_product(self.transpose, sparse.csr_array(Z)) if both else as_dense(self.X.T @ Z)
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
        gram = dense_product(self.transpose, self.X) if sparse.issparse(self.X) else matmul(self.X.T, self.X)
        return gram if self.mean is None else gram - self.X.shape[0] * np.outer(self.mean, self.mean)

    def kernel(self) -> Any:
        """``(X - mean) @ (X - mean).T``, dense (n_samples, n_samples), float64."""
        kernel = dense_product(self.X, self.transpose) if sparse.issparse(self.X) else matmul(self.X, self.X.T)
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
    of the columns of ``B``, to which residuals are relative. ``on_step`` is called with the number of every step and
    the relative length of the residual; ``stop`` with the number and ``W`` after every step, and tells whether to stop.
    ``deflation`` holds directions that would slow convergence down; it is worth its cost where many steps are to be
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


def principal_axes(vectors: NDArray[np.floating], n_axes: int) -> NDArray[np.float32] | None:
    """Orthonormal axes of nearly the most variance around zero, (width, n_axes); None where there are not more.

    A random start is multiplied by the second moments of up to 4,096 vectors, which are evenly spread, and made
    orthonormal again, a few times. Single axes are not told apart, which another last bit could turn.

    Parameters
    ----------
    vectors : ndarray of shape (n_vectors, width)
    n_axes : int

    Examples
    --------
    >>> axes = principal_axes(np.outer(np.arange(9.0), [3.0, 0.0, 4.0]), 1)
    >>> np.abs(axes).ravel().round(3)
    array([0.6, 0. , 0.8], dtype=float32)
    """
    width = vectors.shape[1]
    if width <= n_axes:
        return None
    sample = evenly_spread(vectors).astype(np.float64)
    axes = np.random.RandomState(0).standard_normal((width, n_axes))
    for _ in range(ROUNDS):
        axes = np.linalg.qr(matmul(sample.T, matmul(sample, axes)))[0]
    return axes.astype(np.float32)


def evenly_spread(rows: Any) -> Any:
    """Up to 4,096 rows of a matrix, at equal distances."""
    return rows[:: max(1, -(-len(rows) // SAMPLE))]


def times_axes(vectors: NDArray[np.floating], axes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Coordinates along axes, (n_vectors, n_axes), summed in double precision and rounded once."""
    found = np.empty((len(vectors), axes.shape[1]), dtype=np.float32)
    wide = axes.astype(np.float64)
    for start in range(0, len(vectors), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        matmul(vectors[part].astype(np.float64), wide, out=found[part])
    return found
