"""Sums of decision trees, one candidate after the other."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pysldl.backend.threads import parallel_for
from pysldl.backend.trees import Trees

__all__ = ["add_trees", "sum_of_trees"]


def sum_of_trees(X: NDArray[np.float32], trees: Trees) -> NDArray[np.float64]:
    flat = np.ascontiguousarray(X.reshape(-1, X.shape[-1]))
    total = np.zeros(len(flat))
    parallel_for(add_trees, len(flat), flat, *trees[:-1], total)
    return total.reshape(X.shape[:-1])


@njit(nogil=True, cache=True)
def add_trees(start, stop, X, roots, feature, threshold, left, right, value, total):
    for row in range(start, stop):
        for root in roots:
            node = root
            while left[node] != node:
                node = left[node] if X[row, feature[node]] <= threshold[node] else right[node]
            total[row] += value[node]
