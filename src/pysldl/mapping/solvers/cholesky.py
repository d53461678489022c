"""The closed form: one factor of the smaller Gram matrix, and two triangular solves."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pysldl.backend.cholesky import cholesky_factor, cholesky_solve, triangular_solve
from pysldl.backend.design_matrix import DesignMatrix
from pysldl.backend.device import to_host
from pysldl.mapping.solvers import Solution

LEVERAGE_BLOCK = 1024


def ridge_factor(design: DesignMatrix, alpha: float) -> Any:
    """Cholesky factor of the smaller of the two Gram matrices, ``XᵀX + alpha I`` or ``XXᵀ + alpha I``.

    It does not depend on the targets, so that regressions of the same rows can share it.
    """
    n_samples, n_features = design.X.shape
    return cholesky_factor(design.gram() if n_features <= n_samples else design.kernel(), alpha)


def solve_cholesky(
    design: DesignMatrix,
    Z: NDArray[np.float64],
    alpha: float,
    leverage_of: NDArray[np.integer] | None = None,
    factor: Any = None,
) -> Solution:
    """Solve in double precision with :func:`ridge_factor`, which may be given; with the leverage of some rows."""
    n_samples, n_features = design.X.shape
    factor = ridge_factor(design, alpha) if factor is None else factor
    if n_features <= n_samples:
        W = to_host(cholesky_solve(factor, design.transposed_times(Z)))
        if leverage_of is None:
            return Solution(W)
        leverage = np.empty(len(leverage_of))
        for start in range(0, len(leverage_of), LEVERAGE_BLOCK):
            rows = design.dense_rows(leverage_of[start : start + LEVERAGE_BLOCK])
            half = triangular_solve(factor, rows.T)
            leverage[start : start + len(rows)] = to_host((half**2).sum(axis=0))
        return Solution(W, leverage)
    W = to_host(design.transposed_times(cholesky_solve(factor, Z)))
    if leverage_of is None:
        return Solution(W)
    own = np.arange(len(leverage_of))
    columns = np.zeros((n_samples, len(leverage_of)))
    columns[leverage_of, own] = 1.0
    inverse = to_host(cholesky_solve(factor, columns))
    return Solution(W, 1.0 - alpha * inverse[leverage_of, own])
