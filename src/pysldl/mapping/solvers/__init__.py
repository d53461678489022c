"""Three ways to the same W, the minimizer of ``‖Z - XW‖² + alpha ‖W‖²`` (Eq. 10), and which one will be done first."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Solution", "choose_solver", "solver_seconds"]

# Seconds of one core for 1e9 multiply-adds, measured on two x86 cores: BLAS in double precision, a scattered sum into a
# sparse product, a dense row of single precision fetched for every stored value, and one pass over the CG's vectors.
DENSE, SCATTERED, FETCHED, VECTOR = 0.04, 4.0, 0.25, 2.0
STEPS = 40
LARGEST_FACTOR = 2 << 30


@dataclass(frozen=True)
class Solution:
    """What a solver found.

    Attributes
    ----------
    W : ndarray of shape (n_features, n_components)
        The weights.
    leverage : ndarray or None
        Leverage of the rows that were asked for.
    n_iter : int
        Steps taken.
    left : float
        Length of the residual against that of the right-hand side.
    """

    W: NDArray[Any]
    leverage: NDArray[np.floating] | None = None
    n_iter: int = 1
    left: float = 0.0


def solver_seconds(n_samples: int, n_features: int, n_nonzeros: int, n_targets: int) -> dict[str, float]:
    """Estimated seconds of one core, for ``"cholesky"`` and ``"cg"``.

    Cholesky forms the smaller Gram matrix, factors it and solves; conjugate gradients take about forty steps, each a
    product with X, one with its transpose, and a few passes over (n_features, n_targets) arrays.
    """
    side, other = sorted((n_samples, n_features))
    is_dense = n_nonzeros > 0.5 * n_samples * n_features
    # Every stored value of the longer side meets those that share its row.
    gram = DENSE * side**2 * other / 2 if is_dense else SCATTERED * n_nonzeros**2 / max(other, 1)
    cholesky = gram + DENSE * (side**3 / 3 + side**2 * n_targets) + FETCHED * n_nonzeros * n_targets
    product = (DENSE if is_dense else FETCHED) * n_nonzeros * n_targets
    cg = STEPS * (2 * product + VECTOR * n_features * n_targets)
    return {"cholesky": cholesky * 1e-9, "cg": cg * 1e-9}


def choose_solver(n_samples: int, n_features: int, n_nonzeros: int, n_targets: int) -> str:
    """``"cholesky"`` or ``"cg"``, whichever is estimated to take less; never a factor of more than 2 GiB."""
    seconds = solver_seconds(n_samples, n_features, n_nonzeros, n_targets)
    fits = 2 * 8 * min(n_samples, n_features) ** 2 <= LARGEST_FACTOR
    return "cholesky" if fits and seconds["cholesky"] <= seconds["cg"] else "cg"
