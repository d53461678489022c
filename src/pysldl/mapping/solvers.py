"""Direct and quasi-Newton solvers of ``‖Z - XW‖² + alpha ‖W‖²`` (Eq. 10): Cholesky, and the paper's L-BFGS.

Conjugate gradients are in :mod:`pysldl.mapping.conjugate_gradient`. All of them find the same W.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from pysldl.backend.dispatch import to_host
from pysldl.backend.linear_algebra import DesignMatrix, cholesky_factor, cholesky_solve, triangular_solve

LEVERAGE_BLOCK = 1024
LARGEST_GRAM = 2000  # features up to which L-BFGS forms the Gram matrix once

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Solution:
    """What a solver found: weights W (n_features, n_components), and leverages of the rows that were asked for.

    ``left`` is the length of the residual relative to that of the right-hand side.
    """

    W: NDArray[Any]
    leverage: NDArray[np.floating] | None = None
    n_iter: int = 1
    left: float = 0.0


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


def solve_lbfgs(
    design: DesignMatrix,
    Z: Matrix,
    alpha: float,
    *,
    tol: float,
    max_iter: int,
    positive: bool = False,
    start: Matrix | None = None,
) -> Solution:
    """L-BFGS with a line search that satisfies the strong Wolfe conditions (Eqs. 11 to 16), as in the paper.

    With ``positive`` every weight is kept at zero or above (L-BFGS-B), which is what the authors' code does.
    """
    B = to_host(design.transposed_times(Z))
    n_features, n_targets = B.shape
    gram = to_host(design.gram()) if n_features <= min(design.X.shape[0], LARGEST_GRAM) else None

    def loss(flat: Matrix) -> tuple[float, Matrix]:
        W = flat.reshape(n_features, n_targets)
        image = gram @ W if gram is not None else to_host(design.transposed_times(design.times(W)))
        image += alpha * W
        value = np.vdot(W, image) - 2.0 * np.vdot(W, B)
        image -= B
        image *= 2.0
        return float(value), image.ravel()

    found = optimize.minimize(
        loss,
        np.zeros(B.size) if start is None else start.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=optimize.Bounds(0.0, np.inf) if positive else None,
        options={
            "maxcor": 20,
            "maxiter": max_iter,
            "maxfun": 2 * max_iter,
            "ftol": 0.0,
            "gtol": 2.0 * tol * float(np.abs(B).max(initial=0.0)),
        },
    )
    return Solution(found.x.reshape(n_features, n_targets), n_iter=max(int(found.nit), 1))
