"""Three ways to the same W, the minimizer of ``‖Z - XW‖² + alpha ‖W‖²`` (Eq. 10)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Solution"]


@dataclass(frozen=True)
class Solution:
    """What a solver found: weights W (n_features, n_components), and leverages of the rows that were asked for.

    ``left`` is the length of the residual relative to that of the right-hand side.
    """

    W: NDArray[Any]
    leverage: NDArray[np.floating] | None = None
    n_iter: int = 1
    left: float = 0.0
