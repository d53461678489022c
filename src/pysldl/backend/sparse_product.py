"""Sparse times dense on all cores: each row of the product belongs to one thread, which adds in one fixed order."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from pysldl.backend.dispatch import primitive

__all__ = ["sparse_times"]


@primitive(numba=True, single_row="single_query")
def sparse_times(X: sparse.csr_array, P: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
    """``X @ P``; for ``Xᵀ @ P`` pass the transpose, stored by its own rows.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_inner)
    P : ndarray of shape (n_inner, n_columns)
    dtype : optional
        Precision of the product; that of ``X`` and ``P`` together by default.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
    """
    dtype = np.result_type(X.dtype, P.dtype) if dtype is None else np.dtype(dtype)
    return np.asarray(X @ P.astype(dtype, copy=False)).astype(dtype, copy=False)
