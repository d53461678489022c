"""Weighted votes of neighbors, only the best labels of each row kept."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import primitive
from pysldl.backend.inverted_index import search_by_terms
from pysldl.backend.topk import top_k_dense, top_k_or_zero

ROWS_AT_ONCE = 4096
FAINTEST = 1e-30


@primitive(numba=True, triton=True, single_row="single_query", few_rows=True)
def vote_top(
    neighbors: NDArray[np.int32], weights: NDArray[np.float32], Y: sparse.csr_array, m: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The m labels with the most votes of every row, best first, ties to the lower label; -1 and 0 behind the last.

    ``neighbors`` are rows of ``Y``, -1 for none; ``weights`` are those of their votes, above 0.
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


@primitive(triton=True)
def vote_by_terms(
    X: sparse.csr_array,
    postings: sparse.csr_array,
    Y: sparse.csr_array,
    m: int,
    exclude: NDArray[np.integer],
    *,
    n_neighbors: int,
    temperature: float,
    is_held: NDArray[np.bool_],
    n_terms: int,
    max_postings: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32]]:
    """:func:`split_votes` of the neighbors that :func:`search_by_terms` finds."""
    limits = {"n_terms": n_terms, "max_postings": max_postings}
    return split_votes(*search_by_terms(X, postings, n_neighbors, exclude, **limits), temperature, Y, m, is_held)


def split_votes(
    neighbors: NDArray[np.int32],
    similarities: NDArray[np.float32],
    temperature: float,
    Y: sparse.csr_array,
    m: int,
    is_held: NDArray[np.bool_],
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32]]:
    """:func:`vote_top` of the neighbors not held out, and the labels of :func:`vote_top` of all, in any order."""
    others = np.where(is_held[neighbors], np.int32(-1), neighbors)  # what -1 picks is -1 in any case
    of_others, of_all = (vote_weights(rows, similarities, temperature) for rows in (others, neighbors))
    return vote_twice(neighbors, of_others, of_all, Y, m)


@primitive(numba=True)
def vote_twice(
    neighbors: NDArray[np.int32],
    of_some: NDArray[np.float32],
    of_all: NDArray[np.float32],
    Y: sparse.csr_array,
    m: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32]]:
    """:func:`vote_top` of the neighbors with a weight in ``of_some``; by ``of_all`` the labels alone, in any order."""
    some = np.where(of_some > 0, neighbors, np.int32(-1))
    return *vote_top(some, of_some, Y, m), vote_top(neighbors, of_all, Y, m)[0]


@primitive(numba=True, single_row="numpy")
def mixed_top(
    neighbors: NDArray[np.int32],
    weights: NDArray[np.float32],
    Y: sparse.csr_array,
    prior: sparse.csr_array,
    scores: NDArray[np.float32] | None,
    share: float,
    m: int,
    least: float = -np.inf,
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
    """The m labels with the largest ``share * scores + (1 - share) * votes``, best first; their votes, and both mixed.

    Neighbors and weights are those of :func:`vote_top`; a row without neighbors has the ``prior``, (1, n_labels), for
    votes. ``scores`` is (n_rows, n_labels), or None where they have no share. No mixture is below ``least``. Of equals
    the lower label comes first.
    """
    labels = np.empty((len(neighbors), m), dtype=np.int32)
    votes, mixed = np.empty((len(neighbors), m), dtype=np.float32), np.empty((len(neighbors), m), dtype=np.float32)
    for start in range(0, len(neighbors), ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        total = vote_totals(neighbors[block], weights[block], Y, prior).toarray().astype(np.float32, copy=False)
        both = np.float32(1.0 - share) * total
        if scores is not None:
            both += np.float32(share) * scores[block]
        columns, mixed[block] = top_k_dense(np.maximum(both, np.float32(least)), m)
        labels[block], votes[block] = columns, np.take_along_axis(total, columns, axis=1)
    return labels, votes, mixed


def vote_totals(
    neighbors: NDArray[np.int32], weights: NDArray[np.float32], Y: sparse.csr_array, prior: sparse.csr_array
) -> sparse.csr_array:
    """Votes for all labels, (n_rows, n_labels), without stored zeros; ``prior`` for a row without neighbors."""
    there = neighbors >= 0
    indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    votes = sparse.csr_array((weights[there], neighbors[there], indptr), (len(neighbors), Y.shape[0])) @ Y
    if not (heard := there.any(axis=1)).all():
        silent = sparse.csr_array(np.logical_not(heard).astype(np.float32).reshape(-1, 1))
        votes = votes + silent @ prior
    votes = sparse.csr_array(votes)
    votes.eliminate_zeros()
    votes.sort_indices()
    return votes


def vote_weights(
    neighbors: NDArray[np.int32], similarities: NDArray[np.float32], temperature: float
) -> NDArray[np.float32]:
    """Weights ``exp((s - s_max) / temperature)``, scaled to sum to 1 in every row; 0 beside a neighbor of -1."""
    if similarities.shape[1] == 0:
        return similarities
    # In double precision: a single-precision exponential differs from processor to processor.
    weights = np.exp((similarities - similarities[:, :1]).astype(np.float64) / temperature)
    np.maximum(weights, FAINTEST, out=weights)  # a neighbor that is there has a vote
    weights[neighbors < 0] = 0.0
    totals = weights.sum(axis=1, keepdims=True)
    np.divide(weights, totals, out=weights, where=totals > 0)
    return np.asarray(weights, dtype=np.float32)
