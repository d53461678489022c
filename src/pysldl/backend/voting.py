"""Weighted votes of neighbors, only the best labels of each row kept."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.device import current_device
from pysldl.backend.dispatch import has_numba, parallel_for
from pysldl.backend.heap import make_compilable, pop_sorted, push
from pysldl.backend.single_query import vote_one
from pysldl.metrics.topk import top_k

__all__ = ["vote_top"]

PLAIN_BLOCK = 4096


def vote_top(
    neighbors: NDArray[np.int32], weights: NDArray[np.float32], Y: sparse.csr_array, m: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The m labels with the most votes of every row, best first, ties to the lower label.

    Parameters
    ----------
    neighbors : ndarray of shape (n_rows, k), int32
        Rows of ``Y``; -1 for none.
    weights : ndarray of shape (n_rows, k), float32
        The weight of each neighbor's vote, above 0.
    Y : csr_array of shape (n_samples, n_labels)

    Returns
    -------
    labels : ndarray of shape (n_rows, m), int32
        -1 where fewer labels have a vote.
    votes : ndarray of shape (n_rows, m), float32
        0 beside a label of -1.
    """
    if len(neighbors) == 1:
        return vote_one(neighbors, weights, Y, m)
    if (device := current_device()) is not None:
        from pysldl.backend.torch.search import votes_of_neighbors

        return votes_of_neighbors(device, neighbors, weights, Y, m)
    if has_numba():
        parts = parallel_for(_compiled_vote(), len(neighbors), neighbors, weights, Y.indptr, Y.indices, Y.shape[1], m)
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    labels = np.full((len(neighbors), m), -1, dtype=np.int32)
    votes = np.zeros((len(neighbors), m), dtype=np.float32)
    for start in range(0, len(neighbors), PLAIN_BLOCK):
        block = slice(start, start + PLAIN_BLOCK)
        there = neighbors[block] >= 0
        indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        ballots = sparse.csr_array(
            (weights[block][there], neighbors[block][there], indptr), shape=(len(there), Y.shape[0])
        )
        labels[block], best = top_k(ballots @ Y, m)
        votes[block] = np.where(np.isneginf(best), 0.0, best)
    return labels, votes


@cache
def _compiled_vote() -> Any:
    from numba import njit

    make_compilable()

    @njit(nogil=True, cache=True)
    def vote(start, stop, neighbors, weights, yp, yi, n_labels, m):  # type: ignore[no-untyped-def]
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

    return vote
