"""Ridge mappings of the same rows share their Cholesky factor: the work that a grid would repeat."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.base import clone

from pysldl.mapping import RidgeMapping
from pysldl.mapping.solvers import Design

__all__ = ["SharedRidge"]

Encoder = Callable[[Any], NDArray[np.float32]]
Factor = tuple[NDArray[np.float64], bool]


class SharedRidge:
    """Fits :class:`~pysldl.mapping.RidgeMapping` on one set of rows again and again.

    The factor of the smaller Gram matrix is computed once for every ``alpha``; each fit then costs two triangular
    solves and gives the weights that the mapping itself would, bit for bit. A mapping that needs
    another solver is fitted as it is.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
        Features as the mapping gets them.
    """

    def __init__(self, X: Any) -> None:
        self._X = X
        self._design = Design(X.astype(np.float64), None)
        self._factors: dict[float, tuple[Factor, float]] = {}

    def fit(self, mapping: RidgeMapping, Z: Any) -> tuple[Encoder, float]:
        """Fit a mapping to targets.

        Parameters
        ----------
        mapping : RidgeMapping
            Not modified.
        Z : ndarray or csr_array of shape (n_samples, n_components)

        Returns
        -------
        encode : callable
            From features to codes.
        seconds : float
            What the fit would take on its own: the shared factor is counted in full.
        """
        started = time.perf_counter()
        alpha = mapping.alpha
        solver = mapping._pick_solver(self._X, Z.shape[1])
        if not isinstance(alpha, int | float) or mapping.fit_intercept or solver != "cholesky":
            fitted = clone(mapping).fit(self._X, Z)
            return fitted.predict, time.perf_counter() - started
        factor, factored = self._factor(self._penalty(alpha))
        started = time.perf_counter()
        targets = np.asarray(Z.toarray() if sparse.issparse(Z) else Z, dtype=np.float64)
        coef = self._solve(factor, targets).astype(np.float32)
        return lambda X: X @ coef, factored + time.perf_counter() - started

    def _solve(self, factor: Factor, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        n_samples, n_features = self._X.shape
        if n_features <= n_samples:
            return linalg.cho_solve(factor, self._design.transposed_times(Z), check_finite=False)
        return self._design.transposed_times(linalg.cho_solve(factor, Z, check_finite=False))

    def _factor(self, alpha: float) -> tuple[Factor, float]:
        """The factor for one penalty, and the seconds it took."""
        if alpha not in self._factors:
            started = time.perf_counter()
            n_samples, n_features = self._X.shape
            gram = self._design.gram() if n_features <= n_samples else self._design.kernel()
            gram.flat[:: len(gram) + 1] += alpha
            factor = linalg.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
            self._factors[alpha] = factor, time.perf_counter() - started
        return self._factors[alpha]

    def _penalty(self, alpha: float) -> float:
        X = self._design.X
        energy = float((X.multiply(X) if sparse.issparse(X) else X**2).sum())
        return max(alpha, 1e-10 * max(energy, 1.0))
