"""Numbers that need only two bytes in a file."""

import numpy as np
from numpy.typing import NDArray

SMALLEST = 2.0**-14  # below it a half has fewer than eleven digits
VALUES_AT_ONCE = 1 << 18
LAST_BITS, ONE, BELOW_HALF, KEPT_BITS = (np.uint32(number) for number in (13, 1, 0x0FFF, 0xFFFFE000))


def round_to_half(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Values rounded to half precision, in single precision; as they are where one of them is too large or too small.

    What is rounded when it is fitted is the same before a model is saved and after it is loaded.

    Examples
    --------
    >>> round_to_half(np.array([0.1, 2.0], dtype=np.float32))
    array([0.09997559, 2.        ], dtype=float32)
    >>> round_to_half(np.array([0.1, 1e6], dtype=np.float32))
    array([1.e-01, 1.e+06], dtype=float32)
    """
    return values.astype(np.float16).astype(np.float32) if fits_half(values) else values


def nearest_halves(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """As :func:`round_to_half`, but small values may lose digits: for sums in which they do not count.

    Examples
    --------
    >>> nearest_halves(np.array([1.0, 1e-9], dtype=np.float32))
    array([1., 0.], dtype=float32)
    """
    largest = np.abs(values).max(initial=0.0)
    return values.astype(np.float16).astype(np.float32) if largest <= np.finfo(np.float16).max else values


def round_in_place(values: NDArray[np.float32]) -> None:
    """As :func:`round_to_half`, without a second array."""
    parts = [slice(start, start + VALUES_AT_ONCE) for start in range(0, len(values), VALUES_AT_ONCE)]
    if all(fits_half(values[part]) for part in parts):
        for part in parts:
            # As a conversion to half precision and back, in a fifth of the time: to the nearest of numbers whose last
            # thirteen bits are 0, of two that are as near to the even one.
            bits = values[part].view(np.uint32)
            bits += ((bits >> LAST_BITS) & ONE) + BELOW_HALF
            bits &= KEPT_BITS


def fits_half(values: NDArray[np.float32]) -> bool:
    """Whether all values but zeros keep eleven digits in half precision, and there are any."""
    sizes = np.abs(values)
    return bool(
        sizes.size and sizes.max() <= np.finfo(np.float16).max and sizes.min(where=sizes > 0, initial=1) >= SMALLEST
    )
