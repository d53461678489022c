"""The k largest of a stream of values, in a heap, for the compiled loops.

The root of the heap is the worst that is kept: the smallest value, of equals the highest number. Nothing is sorted
that is thrown away. A call costs more than a comparison: compare with the root of a full heap before you push.
"""

from typing import Any

from numba import njit


@njit(nogil=True, cache=True)
def _sink(values: Any, numbers: Any, size: int, value: Any, number: Any) -> None:
    """Put a value in place of the root of a heap of ``size``."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            values[other] < values[child] or (values[other] == values[child] and numbers[other] > numbers[child])
        ):
            child = other
        if values[child] > value or (values[child] == value and numbers[child] < number):
            break
        values[place], numbers[place] = values[child], numbers[child]
        place = child
    values[place], numbers[place] = value, number


@njit(nogil=True, cache=True)
def push(values: Any, numbers: Any, size: int, value: Any, number: Any) -> int:
    """Keep a value if it is among the best ``len(values)`` so far; returns how many are kept."""
    if size == len(values):
        if value > values[0] or (value == values[0] and number < numbers[0]):
            _sink(values, numbers, size, value, number)
        return size
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        if values[parent] < value or (values[parent] == value and numbers[parent] > number):
            break
        values[place], numbers[place] = values[parent], numbers[parent]
        place = parent
    values[place], numbers[place] = value, number
    return size + 1


@njit(nogil=True, cache=True)
def pop_sorted(values: Any, numbers: Any, size: int, to_values: Any, to_numbers: Any) -> None:
    """Empty the heap into two rows, best first."""
    for place in range(size - 1, -1, -1):
        to_values[place], to_numbers[place] = values[0], numbers[0]
        _sink(values, numbers, place, values[place], numbers[place])
