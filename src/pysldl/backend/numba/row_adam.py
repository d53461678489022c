"""Adam row by row: the steps of the NumPy form in the same order, bit for bit."""

import numpy as np
from numba import njit, prange

from pysldl.backend.row_adam import BETA1, BETA2, EPSILON

__all__ = ["adam_update_rows"]


@njit(parallel=True, cache=True, error_model="numpy")
def adam_update_rows(parameters, first, second, rows, gradient, rates, shrink=1.0):
    for at in prange(len(rows)):
        row = rows[at]
        p, m, v, g, rate = parameters[row], first[row], second[row], gradient[at], rates[at]
        for k in range(len(p)):
            m[k] = m[k] + (1 - BETA1) * (g[k] - m[k])
            v[k] = v[k] + (1 - BETA2) * (g[k] * g[k] - v[k])
            p[k] = shrink * p[k] - rate * np.float64(m[k]) / (np.sqrt(np.float64(v[k])) + EPSILON)
