"""Standardized features, for those that are measurements and not counts of words."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["column_scales", "is_mostly_dense", "standardized"]

MOSTLY = 0.5


def is_mostly_dense(X: Any) -> bool:
    """Whether more than half of the values are not zero, so that nothing is lost where a mean is taken off them."""
    n_filled = X.count_nonzero() if sparse.issparse(X) else np.count_nonzero(X)
    return bool(X.shape[1] > 1 and n_filled > MOSTLY * X.shape[0] * X.shape[1])


def column_scales(X: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and deviation of every feature by scikit-learn's ``StandardScaler``, (n_features,) each."""
    from sklearn.preprocessing import StandardScaler  # not above: a model that only answers has its scales

    scaler = StandardScaler().fit(X.toarray() if sparse.issparse(X) else X)
    return scaler.mean_.astype(np.float32), scaler.scale_.astype(np.float32)


def standardized(X: Any, means: NDArray[Any], scales: NDArray[Any] | None) -> NDArray[Any]:
    """``(X - means) / scales``, dense of shape (n_rows, n_features)."""
    rows = X.toarray() if sparse.issparse(X) else X
    return np.asarray((rows - means.astype(rows.dtype)) / (1 if scales is None else scales.astype(rows.dtype)))
