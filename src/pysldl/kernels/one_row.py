"""The loops for a single row, in NumPy, with the very bits of the compiled ones.

A service is asked row by row. For one row a compiled loop spends more on its threads and their work space than on the
row, and numba takes as long to load as all the rest of a service.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["score_one", "search_one", "vote_one"]


def search_one(
    query: sparse.csr_array, postings: sparse.csr_array, k: int, left_out: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """:func:`~pysldl.kernels.postings.search_postings` for a query of shape (1, n_features)."""
    products = np.zeros(postings.shape[1], dtype=np.float32)
    for feature, value in zip(query.indices.tolist(), query.data, strict=True):
        places = slice(postings.indptr[feature], postings.indptr[feature + 1])
        products[postings.indices[places]] += value * postings.data[places]
    if left_out >= 0:
        products[left_out] = 0.0
    met = np.flatnonzero(products > 0)
    return _best(met, products[met], k)


def vote_one(
    neighbors: NDArray[np.int64], weights: NDArray[np.float32], Y: sparse.csr_array, m: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """:func:`~pysldl.kernels.voting.vote_top` for one row: ``neighbors`` and ``weights`` of shape (1, k)."""
    there = neighbors[0] >= 0
    ballots = Y[neighbors[0, there]]
    voted, slot = np.unique(ballots.indices, return_inverse=True)
    votes = np.zeros(len(voted), dtype=np.float32)
    # Added up one after the other, as the loop does; bincount would do it in double precision.
    np.add.at(votes, slot, np.repeat(weights[0, there], np.diff(ballots.indptr)))
    return _best(voted, votes, m)


def score_one(
    X: sparse.csr_array, labels: NDArray[np.int64], W: sparse.csr_array, bias: NDArray[np.float32]
) -> NDArray[np.float32]:
    """:func:`~pysldl.kernels.candidates.score_candidates` for one row: ``labels`` of shape (1, m)."""
    x = np.zeros(X.shape[1], dtype=np.float32)
    x[X.indices] = X.data
    there = labels[0] >= 0
    scores = np.full(labels.shape, -np.inf, dtype=np.float32)
    scores[0, there] = W[labels[0, there]] @ x + bias[labels[0, there]]
    return scores


def _best(
    numbers: NDArray[np.integer], values: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k largest values, best first, ties to the lower of the ascending ``numbers``; padded with -1 and 0."""
    if len(values) > k:
        reached = values >= np.partition(values, len(values) - k)[len(values) - k]
        numbers, values = numbers[reached], values[reached]
    order = np.argsort(-values, kind="stable")[:k]
    found = np.full((1, k), -1, dtype=np.int64)
    best = np.zeros((1, k), dtype=np.float32)
    found[0, : len(order)] = numbers[order]
    best[0, : len(order)] = values[order]
    return found, best
