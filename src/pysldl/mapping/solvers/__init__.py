"""Three ways to the same W, the minimizer of ``‖Z - XW‖² + alpha ‖W‖²`` (Eq. 10)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Solution"]


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
