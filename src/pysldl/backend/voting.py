"""Weighted votes of neighbors, only the best labels of each row kept."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import primitive
from pysldl.backend.topk import top_k_or_zero

__all__ = ["vote_top"]

ROWS_AT_ONCE = 4096


@primitive(numba=True, triton=True, single_row="single_query", few_rows=True)
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
    m : int

    Returns
    -------
    labels : ndarray of shape (n_rows, m), int32
        -1 where fewer labels have a vote.
    votes : ndarray of shape (n_rows, m), float32
        0 beside a label of -1.
    """
    labels = np.empty((len(neighbors), m), dtype=np.int32)
    votes = np.empty((len(neighbors), m), dtype=np.float32)
    for start in range(0, len(neighbors), ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        there = neighbors[block] >= 0
        indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        ballots = sparse.csr_array(
            (weights[block][there], neighbors[block][there], indptr), shape=(len(there), Y.shape[0])
        )
        labels[block], votes[block] = top_k_or_zero(ballots @ Y, m)
    return labels, votes
