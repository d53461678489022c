"""Weighted votes of neighbours, only the best labels of each row kept."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.kernels import compiled
from pysldl.kernels.one_row import vote_one
from pysldl.topk import top_k

__all__ = ["vote_top"]

PLAIN_BLOCK = 4096


def vote_top(
    neighbors: NDArray[np.int64], weights: NDArray[np.float32], Y: sparse.csr_array, m: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The m labels with the most votes of every row, best first, ties to the lower label.

    Parameters
    ----------
    neighbors : ndarray of shape (n_rows, k), int64
        Rows of ``Y``; -1 for none.
    weights : ndarray of shape (n_rows, k), float32
        The weight of each neighbour's vote, above 0.
    Y : csr_array of shape (n_samples, n_labels)

    Returns
    -------
    labels : ndarray of shape (n_rows, m), int64
        -1 where fewer labels have a vote.
    votes : ndarray of shape (n_rows, m), float32
        0 beside a label of -1.
    """
    if len(neighbors) == 1:
        return vote_one(neighbors, weights, Y, m)
    if compiled():
        return _compiled_vote()(neighbors, weights, Y.indptr, Y.indices, Y.shape[1], m)
    labels = np.full((len(neighbors), m), -1, dtype=np.int64)
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
    from numba import njit, prange

    @njit(parallel=True, cache=True)
    def vote(neighbors, weights, yp, yi, n_labels, m):  # type: ignore[no-untyped-def]
        n_rows, k = neighbors.shape
        labels = np.full((n_rows, m), -1, np.int64)
        votes = np.zeros((n_rows, m), np.float32)
        n_parts = 64
        for part in prange(n_parts):
            total = np.zeros(n_labels, np.float32)
            touched = np.empty(n_labels, np.int64)
            met_by = np.full(n_labels, -1, np.int64)
            for row in range(n_rows * part // n_parts, n_rows * (part + 1) // n_parts):
                n_touched = 0
                for j in range(k):
                    neighbor = neighbors[row, j]
                    if neighbor < 0:
                        continue
                    for at in range(yp[neighbor], yp[neighbor + 1]):
                        label = yi[at]
                        if met_by[label] != row:
                            met_by[label] = row
                            touched[n_touched] = label
                            n_touched += 1
                        total[label] += weights[row, j]
                voted = np.sort(touched[:n_touched])
                order = np.argsort(-total[voted], kind="mergesort")
                for place in range(min(m, n_touched)):
                    label = voted[order[place]]
                    labels[row, place] = label
                    votes[row, place] = total[label]
                for label in voted:
                    total[label] = 0
        return labels, votes

    return vote
