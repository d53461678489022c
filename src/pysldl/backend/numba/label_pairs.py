"""How much the candidates of a row speak for each other: pairs are found in the rows of the matrix by halving."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pysldl.backend.label_pairs import SMOOTHING
from pysldl.backend.threads import parallel_for

ONE = np.uint64(1)


def pair_support(
    labels: NDArray[np.int32], scores: NDArray[np.float32], counts: NDArray[np.integer], pairs: Any
) -> NDArray[np.float32]:
    support = np.empty((*labels.shape, 2), dtype=np.float32)
    rows = np.ascontiguousarray(labels), np.ascontiguousarray(scores)
    parallel_for(_support, len(labels), *rows, counts, pairs.indptr, pairs.indices, pairs.data, support)
    return support


@njit(nogil=True, cache=True)
def _support(start, stop, labels, scores, counts, pp, pi, pd, support):
    for row in range(start, stop):
        support_of_row(labels[row], scores[row], counts, pp, pi, pd, support[row])
    return 0


@njit(nogil=True, cache=True, error_model="numpy")
def support_of_row(labels, scores, counts, pp, pi, pd, support):
    """Write both sums of every candidate of one row."""
    m = len(labels)
    sums = np.zeros((m, 2))
    for one in range(m):
        for two in range(one + 1, m):
            if labels[one] < 0 or labels[two] < 0:
                continue
            shared = np.float64(_shared(min(labels[one], labels[two]), max(labels[one], labels[two]), pp, pi, pd))
            if shared == 0.0:
                continue
            of_one, of_two = shared / (counts[labels[one]] + SMOOTHING), shared / (counts[labels[two]] + SMOOTHING)
            sums[one, 0] += np.float64(scores[two]) * of_two
            sums[one, 1] += np.float64(scores[two]) * of_one
            sums[two, 0] += np.float64(scores[one]) * of_one
            sums[two, 1] += np.float64(scores[one]) * of_two
    for at in range(m):
        support[at, 0], support[at, 1] = sums[at, 0], sums[at, 1]


@njit(nogil=True, cache=True)
def _shared(lower, higher, pp, pi, pd):
    # Which half is added up, not branched on: nobody could foresee it.
    first, size = np.uint64(pp[lower]), np.uint64(pp[lower + 1]) - np.uint64(pp[lower])
    if size == 0:
        return np.float32(0.0)
    while size > 1:
        half = size >> ONE
        first += half * np.uint64(pi[first + half] <= higher)
        size -= half
    return pd[first] if pi[first] == higher else np.float32(0.0)
