"""Ridge regressions of the same rows on several targets, with one Cholesky factor."""

import time
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pysldl.backend.device import current_device
from pysldl.mapping.ridge import RidgeMapping
from pysldl.mapping.solvers import Design, Factor, Solution, cholesky_factor, solve_cholesky

__all__ = ["SharedFactorRidge"]


class SharedFactorRidge(RidgeMapping):
    """A ridge mapping whose copies share the Cholesky factor of the rows, on which all of them must be fitted.

    Fitting the same rows to other targets then costs two triangular solves, and the weights are those of
    :class:`RidgeMapping`, bit for bit. Another solver, or another device, shares nothing and is right all the same.
    Give one object to each set of rows: the factor is not computed again for other rows.

    Parameters
    ----------
    **parameters
        As in :class:`RidgeMapping`.

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

    def __init__(self, *args: Any, **parameters: Any) -> None:
        super().__init__(*args, **parameters)
        self._shared = _Factors()

    @classmethod
    def of(cls, mapping: RidgeMapping) -> Self:
        """A mapping with the parameters of ``mapping`` and nothing to share yet."""
        return cls(**mapping.get_params(deep=False))

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return RidgeMapping._get_param_names()

    def __sklearn_clone__(self) -> Self:
        copy = type(self)(**self.get_params(deep=False))
        copy._shared = self._shared
        return copy

    @property
    def saved_seconds(self) -> float:
        return self._shared.saved_seconds

    def _solve_cholesky(
        self, design: Design, targets: NDArray[Any], penalty: float, leverage_of: NDArray[np.integer] | None
    ) -> Solution:
        if current_device() is not None:
            return super()._solve_cholesky(design, targets, penalty, leverage_of)
        # The matrices of a penalty differ with the intercept, whose mean is taken out of them.
        factor = self._shared.factor(design, penalty, centered=self.fit_intercept)
        return solve_cholesky(design, targets, penalty, leverage_of, factor)


class _Factors:
    """Factors by shape and penalty, and the seconds that having them saved."""

    def __init__(self) -> None:
        self.saved_seconds = 0.0
        self._found: dict[tuple[Any, ...], tuple[Factor, float]] = {}

    def factor(self, design: Design, penalty: float, *, centered: bool) -> Factor:
        key = (design.X.shape, penalty, centered)
        if key in self._found:
            factor, seconds = self._found[key]
            self.saved_seconds += seconds
            return factor
        started = time.perf_counter()
        factor = cholesky_factor(design, penalty)
        self._found[key] = factor, time.perf_counter() - started
        return factor
