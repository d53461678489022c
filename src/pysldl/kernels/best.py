"""The k largest of a stream of values, in a heap, for the compiled loops.

The root of the heap is the worst that is kept: the smallest value, of equals the highest number. So a stream of many
values costs one comparison each, and nothing is sorted that is thrown away.
"""

from functools import cache
from typing import Any

import numpy as np

__all__ = ["compiled_best"]


@cache
def compiled_best() -> tuple[Any, Any]:
    """``offer(values, numbers, size, value, number) -> size`` and ``drain(values, numbers, size, to_values,
    to_numbers)``, which empties the heap into two rows, best first."""
    from numba import njit

    @njit(inline="always")
    def worse(values, numbers, a, b):  # type: ignore[no-untyped-def]
        return values[a] < values[b] or (values[a] == values[b] and numbers[a] > numbers[b])

    @njit(inline="always")
    def swap(values, numbers, a, b):  # type: ignore[no-untyped-def]
        values[a], values[b] = values[b], values[a]
        numbers[a], numbers[b] = numbers[b], numbers[a]

    @njit(nogil=True, cache=True)
    def sift_down(values, numbers, size):  # type: ignore[no-untyped-def]
        parent = np.int64(0)
        while True:
            child = 2 * parent + 1
            if child >= size:
                return
            if child + 1 < size and worse(values, numbers, child + 1, child):
                child += 1
            if not worse(values, numbers, child, parent):
                return
            swap(values, numbers, child, parent)
            parent = child

    @njit(nogil=True, cache=True)
    def offer(values, numbers, size, value, number):  # type: ignore[no-untyped-def]
        if size < len(values):
            values[size], numbers[size] = value, number
            child = size
            while child > 0:
                parent = (child - 1) >> 1
                if not worse(values, numbers, child, parent):
                    break
                swap(values, numbers, child, parent)
                child = parent
            return size + 1
        if value > values[0] or (value == values[0] and number < numbers[0]):
            values[0], numbers[0] = value, number
            sift_down(values, numbers, size)
        return size

    @njit(nogil=True, cache=True)
    def drain(values, numbers, size, to_values, to_numbers):  # type: ignore[no-untyped-def]
        for place in range(size - 1, -1, -1):
            to_values[place], to_numbers[place] = values[0], numbers[0]
            values[0], numbers[0] = values[place], numbers[place]
            sift_down(values, numbers, place)

    return offer, drain
