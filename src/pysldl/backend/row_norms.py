"""Lengths of rows, and rows scaled to length 1."""

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from pysldl.backend.dispatch import primitive
from pysldl.backend.workspace import current_workspace, row_parts

SMALLEST_SQUARE = 1e-35  # below, numbers of single precision lose digits
NEARLY = 1e-6  # how far from 1 the length of a row may be that stays as it is
BLOCK_VALUES = 1 << 22
ROWS_A_PART = 1 << 13


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
    workspace, parts = current_workspace(), row_parts(X.shape[0], ROWS_A_PART)
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
