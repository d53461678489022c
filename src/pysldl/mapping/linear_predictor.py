"""From features to codes by one product."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.linear_algebra import sparse_times
from pysldl.backend.threads import matmul

SUMS_AT_ONCE = 1 << 21


def landmark_squares(X: Any, landmarks: sparse.csr_array) -> NDArray[np.float64]:
    """The squared products of rows with landmarks, (n_rows, n_landmarks), added up in double precision."""
    across = landmarks.T.toarray().astype(np.float64)
    if sparse.issparse(X):
        products = sparse_times(sparse.csr_array(X), across, dtype=np.float64)
    else:
        products = matmul(np.asarray(X, dtype=np.float64), across)
    products *= products
    return products


class LinearPredictor:
    """The predicting half of :class:`~pysldl.mapping.RidgeMapping`: ``X @ coef_ + intercept_``.

    Where there are ``landmarks_``, products with those, squared, times ``landmark_coef_`` come beside.
    """

    fit_intercept: bool
    coef_: NDArray[np.float32]
    intercept_: NDArray[np.float32]
    one_dimensional_: bool
    landmarks_: sparse.csr_array | None = None
    landmark_coef_: NDArray[np.float32] | None = None

    def predict(self, X: Any) -> NDArray[np.float32]:
        """Latent codes ``X W`` (Eqs. 17 and 18), of shape (n_samples, n_components)."""
        # Summed in double precision and rounded once, so that the codes are the same on every processor.
        codes = np.empty((X.shape[0], self.coef_.shape[1]), dtype=np.result_type(X.dtype, np.float32))
        weights = self.coef_ if sparse.issparse(X) else self.coef_.astype(np.float64)
        at_once = max(1, SUMS_AT_ONCE // max(self.coef_.shape[1], 1))
        for start in range(0, X.shape[0], at_once):
            part = slice(start, start + at_once)
            rows = X if X.shape[0] <= at_once else X[part]
            sums = (
                sparse_times(rows, weights, dtype=np.float64)
                if sparse.issparse(X)
                else matmul(np.asarray(rows, dtype=np.float64), weights)
            )
            if self.landmarks_ is not None and self.landmark_coef_ is not None:
                sums += matmul(landmark_squares(rows, self.landmarks_), self.landmark_coef_.astype(np.float64))
            if self.fit_intercept:
                sums += self.intercept_
            codes[part] = sums
        return codes.ravel() if self.one_dimensional_ else codes

    def weights_at(self, row: sparse.csr_array) -> NDArray[Any]:
        """Weights of the features of one row, (n_nonzeros, n_components): with its values they add up to its code.

        A landmark's weight times the squared product is shared by the features as the product is.
        """
        weights: NDArray[Any] = self.coef_[row.indices]
        if self.landmarks_ is not None and self.landmark_coef_ is not None:
            own = self.landmarks_[:, row.indices].toarray()
            weights = weights + own.T @ ((own @ row.data)[:, None] * self.landmark_coef_)
        return weights


class LandmarkPredictor(LinearPredictor):
    """The predicting half of :class:`~pysldl.mapping.LandmarkRidge`."""
