"""Sums over chosen rows of a sparse matrix, for the forms of a single row."""

import numpy as np
from numba import njit

from pysldl.backend.numba.heap import pop_sorted, push
from pysldl.backend.numba.trees import add_trees

__all__ = ["add_trees", "best_sums", "dot_rows"]


@njit(cache=True, nogil=True)
def dot_rows(products, rows, x, mp, mi, md):
    for at in range(len(rows)):
        total = np.float32(0.0)
        for place in range(mp[rows[at]], mp[rows[at] + 1]):
            total += x[mi[place]] * md[place]
        products[at] = total


@njit(cache=True, nogil=True)
def best_sums(rows, values, mp, mi, md, total, met, left_out, numbers, sums):
    """The largest positive sums of columns over given rows, each times its value; ``total`` is zero and stays so."""
    n_met = 0
    for at in range(len(rows)):
        value = values[at]
        for place in range(mp[rows[at]], mp[rows[at] + 1]):
            column = mi[place]
            before = total[column]
            if before == 0:
                met[min(n_met, len(total))] = column
                n_met += 1
            total[column] = before + value * md[place]
    if n_met > len(total):  # sums that came back to nothing were met again
        n_met = len(total)
        met[:n_met] = np.arange(n_met)
    size, worst = 0, np.float32(1e-30)
    heap_sum, heap_number = np.empty(len(sums), np.float32), np.empty(len(sums), np.int32)
    for at in range(n_met):
        column = met[at]
        found = total[column]
        total[column] = 0
        if found >= worst and column != left_out:
            size = push(heap_sum, heap_number, size, found, np.int32(column))
            if size == len(sums):
                worst = heap_sum[0]
    pop_sorted(heap_sum, heap_number, size, sums, numbers)
