"""Sums over chosen rows of a sparse matrix, for the forms of a single row."""

import numpy as np
from numba import njit

__all__ = ["add_rows", "dot_rows"]


@njit(cache=True, nogil=True)
def add_rows(total, rows, values, mp, mi, md):
    for at in range(len(rows)):
        value = values[at]
        for place in range(mp[rows[at]], mp[rows[at] + 1]):
            total[mi[place]] += value * md[place]


@njit(cache=True, nogil=True)
def dot_rows(products, rows, x, mp, mi, md):
    for at in range(len(rows)):
        total = np.float32(0.0)
        for place in range(mp[rows[at]], mp[rows[at] + 1]):
            total += x[mi[place]] * md[place]
        products[at] = total
