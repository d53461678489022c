"""From features to codes by one product."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.linear_algebra import sparse_times
from pysldl.backend.threads import matmul


class LinearPredictor:
    """The predicting half of :class:`~pysldl.mapping.RidgeMapping`: ``X @ coef_ + intercept_``."""

    fit_intercept: bool
    coef_: NDArray[np.float32]
    intercept_: NDArray[np.float32]
    one_dimensional_: bool

    def predict(self, X: Any) -> NDArray[np.float32]:
        """Latent codes ``X W`` (Eqs. 17 and 18), of shape (n_samples, n_components)."""
        # Summed in double precision and rounded once, so that the codes are the same on every processor.
        if sparse.issparse(X):
            sums = sparse_times(X, self.coef_, dtype=np.float64)
        else:
            sums = matmul(np.asarray(X, dtype=np.float64), self.coef_.astype(np.float64))
        if self.fit_intercept:
            sums += self.intercept_
        codes = sums.astype(np.result_type(X.dtype, np.float32), copy=False)
        return codes.ravel() if self.one_dimensional_ else codes
