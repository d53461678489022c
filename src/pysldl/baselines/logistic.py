"""L2-regularized logistic regression of one label."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression


def fit_logistic(
    X: Any, y: NDArray[np.bool_], C: float, weights: NDArray[np.floating] | None = None
) -> tuple[NDArray[np.float64], float]:
    """Fit ``P(y | x) = sigmoid(x · w + b)``; returns the coefficients (n_features,) and the intercept.

    Both values of the boolean ``y`` must occur. ``C`` is the weight of the loss against the L2 penalty.
    """
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        indices, indptr = (part.astype(np.int32, copy=False) for part in (X.indices, X.indptr))  # all liblinear takes
        X = sparse.csr_array((X.data, indices, indptr), shape=X.shape)
    model = LogisticRegression(C=C, solver="liblinear", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a hundred passes rank well enough
        model.fit(X, y, sample_weight=weights)
    return model.coef_[0], float(model.intercept_[0])
