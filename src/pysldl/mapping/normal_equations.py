"""Sums over rows from which ridge regression follows: rows can come and go, and the others are not read again."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from sklearn.base import BaseEstimator

from pysldl.backend.linear_algebra import as_dense


class NormalEquations(BaseEstimator):
    """``XᵀX``, ``XᵀZ`` and the sums of both over the rows, in double precision.

    ``gram_`` has the shape (n_features, n_features), ``moments_`` (n_features, n_components).
    """

    _saved_state = ("gram_", "moments_", "feature_sums_", "target_sums_", "n_samples_")

    def fit(self, X: Any, Z: NDArray[Any]) -> Self:
        """Sum over the rows of ``X`` (n_samples, n_features) and their targets ``Z`` (n_samples, n_components)."""
        n_features, n_components = X.shape[1], Z.shape[1]
        self.gram_ = np.zeros((n_features, n_features))
        self.moments_ = np.zeros((n_features, n_components))
        self.feature_sums_ = np.zeros(n_features)
        self.target_sums_ = np.zeros(n_components)
        self.n_samples_ = 0
        return self.add(X, Z)

    def add(self, X: Any, Z: NDArray[Any]) -> Self:
        """Take rows in. Targets may have more components than before: earlier rows have zeros there."""
        missing = Z.shape[1] - len(self.target_sums_)
        if missing > 0:
            self.moments_ = np.pad(self.moments_, ((0, 0), (0, missing)))
            self.target_sums_ = np.pad(self.target_sums_, (0, missing))
        return self._count(X, Z, 1)

    def remove(self, X: Any, Z: NDArray[Any]) -> Self:
        """Take rows out that were taken in before, with the same targets."""
        return self._count(X, Z, -1)

    def solve(self, alpha: float, *, fit_intercept: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights (n_features, n_components) and intercept (n_components,) of all rows that are in."""
        gram, moments = self.gram_.copy(), self.moments_
        mean, target_mean = np.zeros_like(self.feature_sums_), np.zeros_like(self.target_sums_)
        if fit_intercept:
            mean, target_mean = self.feature_sums_ / self.n_samples_, self.target_sums_ / self.n_samples_
            gram -= np.outer(self.feature_sums_, mean)
            moments = moments - np.outer(mean, self.target_sums_)
        # A singular Gram matrix has no Cholesky factor; a penalty at the rounding error changes nothing else.
        gram.flat[:: len(gram) + 1] += max(alpha, 1e-10 * max(float(np.trace(self.gram_)), 1.0))
        factor = linalg.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
        W = linalg.cho_solve(factor, moments, check_finite=False)
        return W, target_mean - mean @ W

    def _count(self, X: Any, Z: NDArray[Any], sign: int) -> Self:
        X = X.astype(np.float64)
        Z = np.asarray(Z, dtype=np.float64)
        # Not in place: the arrays of a loaded model are read-only, and another copy of the model may hold them.
        self.gram_ = self.gram_ + sign * as_dense(X.T @ X)
        self.moments_ = self.moments_ + sign * (X.T @ Z)
        self.feature_sums_ = self.feature_sums_ + sign * np.asarray(X.sum(axis=0)).ravel()
        self.target_sums_ = self.target_sums_ + sign * Z.sum(axis=0)
        self.n_samples_ = self.n_samples_ + sign * X.shape[0]
        return self
