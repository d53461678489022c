"""From features to codes by one product."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.kernels.products import sparse_times

__all__ = ["LinearCodes"]


class LinearCodes:
    """The answering half of :class:`~pysldl.mapping.RidgeMapping`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features, n_components), float32
    intercept_ : ndarray of shape (n_components,), float32
    """

    fit_intercept: bool
    coef_: NDArray[np.float32]
    intercept_: NDArray[np.float32]
    one_dimensional_: bool

    def predict(self, X: Any) -> NDArray[np.float32]:
        """Latent codes ``X W`` (Eqs. 17 and 18), of shape (n_samples, n_components)."""
        codes: NDArray[np.float32] = sparse_times(X, self.coef_) if sparse.issparse(X) else X @ self.coef_
        if self.fit_intercept:
            codes += self.intercept_
        return codes.ravel() if self.one_dimensional_ else codes
