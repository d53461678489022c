"""Numbers that need only two bytes in a file."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["round_to_half"]

SMALLEST = 2.0**-14  # below it a half has fewer than eleven digits


def round_to_half(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Values rounded to half precision, in single precision; as they are where one of them is too large or too small.

    What is rounded when it is fitted is the same before a model is saved and after it is loaded.

    Parameters
    ----------
    values : ndarray of float32

    Examples
    --------
    >>> round_to_half(np.array([0.1, 2.0], dtype=np.float32))
    array([0.09997559, 2.        ], dtype=float32)
    >>> round_to_half(np.array([0.1, 1e6], dtype=np.float32))
    array([1.e-01, 1.e+06], dtype=float32)
    """
    sizes = np.abs(values)
    if sizes.size == 0 or sizes.max() > np.finfo(np.float16).max or sizes.min(where=sizes > 0, initial=1) < SMALLEST:
        return values
    return values.astype(np.float16).astype(np.float32)
