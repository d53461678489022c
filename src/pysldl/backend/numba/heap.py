"""The k largest of a stream of values, in a heap, for the compiled loops.

A value and its number are one key, of which the largest is the best: the highest value, of equals the lowest number.
So a comparison is one of integers, and which child of a node is the smaller is added up, not branched on: nobody could
foresee it. The root of the heap is the worst that is kept. Nothing is sorted that is thrown away.
"""

from typing import Any

import numpy as np
from numba import njit

ONE, HALF = np.uint64(1), np.uint64(32)
SIGN, ALL = np.uint32(1 << 31), np.uint32((1 << 32) - 1)


@njit(nogil=True, cache=True)
def key_of(value: Any, number: Any) -> Any:
    """The key of a value and a number that is not negative."""
    bits = np.float32(value + np.float32(0.0)).view(np.uint32)  # the two zeros are equal
    bits ^= ALL if bits & SIGN else SIGN  # in this form they ascend with the value
    return np.uint64(bits) << HALF | np.uint64(ALL - np.uint32(number))


@njit(nogil=True, cache=True)
def value_of(key: Any) -> Any:
    """The value of a key; of the root of a full heap, what a further value must reach."""
    bits = np.uint32(key >> HALF)
    return np.uint32(bits ^ (SIGN if bits & SIGN else ALL)).view(np.float32)


@njit(nogil=True, cache=True)
def number_of(key: Any) -> Any:
    """The number of a key."""
    return np.int32(ALL - np.uint32(key))


@njit(nogil=True, cache=True)
def _sink(heap: Any, size: Any, key: Any) -> None:
    """Put a key in place of the root of a heap of ``size``."""
    place, child, last = np.uint64(0), np.uint64(1), np.uint64(size) - ONE
    while child < last:
        child += np.uint64(heap[child + ONE] < heap[child])
        if heap[child] > key:
            heap[place] = key
            return
        heap[place] = heap[child]
        place = child
        child = place + place + ONE
    if child == last and heap[child] < key:
        heap[place] = heap[child]
        place = child
    heap[place] = key


@njit(nogil=True, cache=True)
def push(heap: Any, size: Any, value: Any, number: Any) -> Any:
    """Keep a value if it is among the best ``len(heap)`` so far; returns how many are kept."""
    key = key_of(value, number)
    if size == len(heap):
        if key > heap[0]:
            _sink(heap, size, key)
        return size
    place = np.uint64(size)
    while place > 0:
        parent = (place - ONE) >> ONE
        if heap[parent] < key:
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = key
    return size + 1


@njit(nogil=True, cache=True)
def pop_sorted(heap: Any, size: Any, to_values: Any, to_numbers: Any) -> None:
    """Empty the heap into two rows, best first."""
    for place in range(size - 1, -1, -1):
        to_values[place], to_numbers[place] = value_of(heap[0]), number_of(heap[0])
        if place > 0:
            _sink(heap, place, heap[place])
