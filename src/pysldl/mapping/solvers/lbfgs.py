"""L-BFGS, the paper's choice (Eqs. 11 to 16)."""

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from pysldl.backend.design_matrix import DesignMatrix
from pysldl.backend.device import to_host
from pysldl.mapping.solvers import Solution

LARGEST_GRAM = 2000  # features up to which the Gram matrix is formed once

Matrix = NDArray[np.float64]


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
