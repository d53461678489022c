"""Votes added up in an array of all labels, of which only those voted for are looked at."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pysldl.backend.numba.heap import pop_sorted, push
from pysldl.backend.threads import concatenate_parts


def vote_top(
    neighbors: NDArray[np.int32], weights: NDArray[np.float32], Y: Any, m: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    return concatenate_parts(_vote, len(neighbors), neighbors, weights, Y.indptr, Y.indices, Y.shape[1], m)


@njit(nogil=True, cache=True)
def _vote(start, stop, neighbors, weights, yp, yi, n_labels, m):
    labels = np.full((stop - start, m), -1, np.int32)
    votes = np.zeros((stop - start, m), np.float32)
    total = np.zeros(n_labels, np.float32)
    voted = np.empty(n_labels, np.int32)
    heap_vote = np.empty(m, np.float32)
    heap_label = np.empty(m, np.int32)
    for row in range(start, stop):
        n_voted = 0
        for slot in range(neighbors.shape[1]):
            neighbor, weight = neighbors[row, slot], weights[row, slot]
            if neighbor < 0 or weight <= 0:
                continue
            for at in range(yp[neighbor], yp[neighbor + 1]):
                label = yi[at]
                if total[label] == 0:
                    voted[n_voted] = label
                    n_voted += 1
                total[label] += weight
        size, worst = 0, np.float32(0.0)
        for at in range(n_voted):
            label = voted[at]
            if total[label] >= worst:
                size = push(heap_vote, heap_label, size, total[label], label)
                if size == m:
                    worst = heap_vote[0]
            total[label] = 0
        pop_sorted(heap_vote, heap_label, size, votes[row - start], labels[row - start])
    return labels, votes
