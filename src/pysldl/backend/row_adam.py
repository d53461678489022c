"""A step of Adam on some rows of a matrix, each row with a count of its own."""

import numpy as np
from numpy.typing import NDArray

from pysldl.backend.dispatch import primitive

__all__ = ["BETA1", "BETA2", "EPSILON", "adam_update_rows"]

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


@primitive(numba=True)
def adam_update_rows(
    parameters: NDArray[np.floating],
    first: NDArray[np.floating],
    second: NDArray[np.floating],
    rows: NDArray[np.integer],
    gradient: NDArray[np.float64],
    rates: NDArray[np.float64],
    shrink: float = 1.0,
) -> None:
    """Move ``rows`` of ``parameters`` against their gradient, in place, and no other row.

    Both forms take the same steps in the same order, so that they agree bit for bit.

    Parameters
    ----------
    parameters, first, second : ndarrays of shape (n_labels, n_components)
        What is optimized, and the running means of its gradient and of the gradient's square.
    rows : ndarray of shape (n_rows,)
        Each at most once.
    gradient : ndarray of shape (n_rows, n_components)
    rates : ndarray of shape (n_rows,)
        Learning rate of each row, with Adam's correction for the steps that the row has made.
    shrink : float
        Factor on the parameters before the step: decoupled weight decay.
    """
    first[rows] += (1 - BETA1) * (gradient - first[rows])
    second[rows] += (1 - BETA2) * (gradient * gradient - second[rows])
    m, v = first[rows].astype(np.float64), second[rows].astype(np.float64)
    parameters[rows] = shrink * parameters[rows].astype(np.float64) - rates[:, None] * m / (np.sqrt(v) + EPSILON)
