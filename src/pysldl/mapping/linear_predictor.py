"""From features to codes by one product."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.linear_algebra import sparse_times
from pysldl.backend.threads import matmul

SUMS_AT_ONCE = 1 << 21


class LinearPredictor:
    """The predicting half of :class:`~pysldl.mapping.RidgeMapping`: ``X @ coef_ + intercept_``."""

    fit_intercept: bool
    coef_: NDArray[np.float32]
    intercept_: NDArray[np.float32]
    one_dimensional_: bool

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
            if self.fit_intercept:
                sums += self.intercept_
            codes[part] = sums
        return codes.ravel() if self.one_dimensional_ else codes
