"""Ridge regressions of the same rows on several targets, with one Cholesky factor."""

import time
from typing import Any, Self

from pysldl._utils.light_estimator import inherit_parameters
from pysldl.backend.linear_algebra import DesignMatrix
from pysldl.mapping.ridge import RidgeMapping
from pysldl.mapping.solvers import ridge_factor


@inherit_parameters
class SharedFactorRidge(RidgeMapping):
    """A ridge mapping whose copies share the Cholesky factor of the rows, on which all of them must be fitted.

    Fitting the same rows to other targets then costs two triangular solves, and the weights are those of
    :class:`RidgeMapping`, bit for bit. Another solver shares nothing and is right all the same. Give one object to each
    set of rows: the factor is not computed again for other rows.

    Parameters
    ----------
    solver : {"auto", "cholesky", "cg", "lbfgs"}, default="auto"
        All give the same weights; only ``"cholesky"`` has a factor to share.

    Attributes
    ----------
    saved_seconds : float
        Seconds that all copies together would have taken longer on their own.

    Examples
    --------
    >>> import numpy as np
    >>> X, Z = np.eye(3), np.ones((3, 2))
    >>> mapping = SharedFactorRidge(alpha=1.0, solver="cholesky")
    >>> [float(mapping.fit(X, targets).coef_[0, 0]) for targets in (Z, 4 * Z)]
    [0.5, 2.0]
    """

    _factors: "_Factors"

    @classmethod
    def of(cls, mapping: RidgeMapping) -> Self:
        """A mapping with the parameters of ``mapping`` and nothing to share yet."""
        return cls(**mapping.get_params(deep=False))

    @property
    def _shared(self) -> "_Factors":
        if not hasattr(self, "_factors"):
            self._factors = _Factors()
        return self._factors

    def __sklearn_clone__(self) -> Self:
        copy = type(self)(**self.get_params(deep=False))
        copy._factors = self._shared
        return copy

    @property
    def saved_seconds(self) -> float:
        """Seconds that all copies together would have taken longer on their own."""
        return self._shared.saved_seconds

    def _factor(self, design: DesignMatrix, penalty: float) -> Any:
        # The matrices of a penalty differ with the intercept, whose mean is taken out of them.
        return self._shared.factor(design, penalty, centered=self.fit_intercept)


class _Factors:
    """Factors by shape and penalty, and the seconds that having them saved."""

    def __init__(self) -> None:
        self.saved_seconds = 0.0
        self._found: dict[tuple[Any, ...], tuple[Any, float]] = {}

    def factor(self, design: DesignMatrix, penalty: float, *, centered: bool) -> Any:
        key = (type(design), design.X.shape, penalty, centered)
        if key in self._found:
            factor, seconds = self._found[key]
            self.saved_seconds += seconds
            return factor
        started = time.perf_counter()
        factor = ridge_factor(design, penalty)
        self._found[key] = factor, time.perf_counter() - started
        return factor
