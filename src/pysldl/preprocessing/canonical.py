"""Sparse rows in one form: columns ascend, and none comes twice."""

from typing import Any

from scipy import sparse

__all__ = ["canonical_rows"]


def canonical_rows(X: Any) -> Any:
    """Return sparse rows with ascending columns, entries of the same column added up; others are returned as they are.

    The arrays of the caller are not changed, and may be read-only.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> rows = sparse.csr_array((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    >>> canonical_rows(rows).toarray(), rows.nnz
    (array([[2., 0., 4.]]), 3)
    """
    if not sparse.issparse(X) or X.format != "csr":
        return X
    # Asked of a new matrix over the same arrays: what a matrix says of itself may be out of date.
    rows = type(X)((X.data, X.indices, X.indptr), shape=X.shape, copy=False)
    if rows.has_canonical_format:
        return X
    rows = rows.copy()
    rows.sum_duplicates()
    return rows
