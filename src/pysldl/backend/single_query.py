"""The loops for a single row, with the very bits of those for many.

A service is asked row by row. For one row a loop that is compiled for many spends more on its threads and their work
space than on the row, and numba takes as long to load as all the rest of a service. So a single row begins in NumPy;
whoever has the time may load compiled loops meanwhile, see :func:`compile_loops`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import has_numba

__all__ = ["compile_loops", "score_one", "search_one", "times_one", "vote_one"]


# So many that one counter each costs less than to sort those that are voted for.
FEW_LABELS = 1 << 16


class _Loops(NamedTuple):
    add_rows: Callable[..., None]
    dot_rows: Callable[..., None]


_loops: _Loops | None = None


def compile_loops(matrices: Sequence[sparse.csr_array]) -> None:
    """Compile the loops, or load them from numba's cache; nobody uses them before they are ready for ``matrices``."""
    global _loops
    if not has_numba():
        return
    loops = _loops or _compile()
    for matrix in matrices:
        parts = (matrix.indptr, matrix.indices, matrix.data)
        nothing = np.zeros(0, dtype=np.float32)
        loops.add_rows(nothing, np.zeros(0, dtype=np.int64), nothing, *parts)
        loops.dot_rows(nothing, np.zeros(0, dtype=np.int64), nothing, *parts)
    _loops = loops


def search_one(
    query: sparse.csr_array, postings: sparse.csr_array, k: int, left_out: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """:func:`~pysldl.backend.inverted_index.search_inverted_index` for a query of shape (1, n_features)."""
    products = np.zeros(postings.shape[1], dtype=np.float32)
    _add_rows(products, query.indices, query.data, postings)
    if left_out >= 0:
        products[left_out] = 0.0
    met = np.flatnonzero(products > 0)
    return _best(met, products[met], k)


def vote_one(
    neighbors: NDArray[np.int32], weights: NDArray[np.float32], Y: sparse.csr_array, m: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """:func:`~pysldl.backend.voting.vote_top` for one row: ``neighbors`` and ``weights`` of shape (1, k)."""
    there = neighbors[0] >= 0
    if _loops is not None and Y.shape[1] <= FEW_LABELS:
        votes = np.zeros(Y.shape[1], dtype=np.float32)
        _add_rows(votes, neighbors[0, there], weights[0, there], Y)  # Y holds ones
        voted = np.flatnonzero(votes)
        return _best(voted, votes[voted], m)
    starts, ends = Y.indptr[neighbors[0, there]], Y.indptr[neighbors[0, there] + 1]
    ballots = [Y.indices[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    voted, slot = np.unique(np.concatenate([Y.indices[:0], *ballots]), return_inverse=True)
    votes = np.zeros(len(voted), dtype=np.float32)
    # Added up one after the other, as the loop does; bincount would do it in double precision.
    np.add.at(votes, slot, np.repeat(weights[0, there], ends - starts))
    return _best(voted, votes, m)


def score_one(
    X: sparse.csr_array, labels: NDArray[np.int32], W: sparse.csr_array, bias: NDArray[np.float32]
) -> NDArray[np.float32]:
    """:func:`~pysldl.backend.candidate_scores.score_candidates` for one row: ``labels`` of shape (1, m)."""
    x = np.zeros(X.shape[1], dtype=np.float32)
    x[X.indices] = X.data
    there = labels[0] >= 0
    scores = np.full(labels.shape, -np.inf, dtype=np.float32)
    scores[0, there] = _dot_rows(labels[0, there], x, W) + bias[labels[0, there]]
    return scores


def times_one(X: sparse.csr_array, P: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """:func:`~pysldl.backend.sparse_product.sparse_times` for one row ``X`` of shape (1, n_inner)."""
    terms = X.data.astype(dtype, copy=False)[:, None] * P[X.indices].astype(dtype, copy=False)
    return np.cumsum(np.concatenate([np.zeros_like(P[:1], dtype=dtype), terms]), axis=0)[-1:]


def _add_rows(
    total: NDArray[np.float32], rows: NDArray[np.integer], values: NDArray[np.float32], matrix: sparse.csr_array
) -> None:
    """Add the given rows of a matrix, each times its value, one after the other."""
    if _loops is not None:
        _loops.add_rows(total, rows.astype(np.int64), values, matrix.indptr, matrix.indices, matrix.data)
        return
    for row, value in zip(rows.tolist(), values, strict=True):
        places = slice(matrix.indptr[row], matrix.indptr[row + 1])
        total[matrix.indices[places]] += value * matrix.data[places]


def _dot_rows(rows: NDArray[np.integer], x: NDArray[np.float32], matrix: sparse.csr_array) -> NDArray[np.float32]:
    """Products of the given rows of a matrix with ``x``, each added up from the left, as SciPy does."""
    if _loops is None:
        return matrix[rows] @ x
    products = np.empty(len(rows), dtype=np.float32)
    _loops.dot_rows(products, rows.astype(np.int64), x, matrix.indptr, matrix.indices, matrix.data)
    return products


def _compile() -> _Loops:
    from numba import njit

    @njit(cache=True, nogil=True)
    def add_rows(total, rows, values, mp, mi, md):  # type: ignore[no-untyped-def]
        for at in range(len(rows)):
            value = values[at]
            for place in range(mp[rows[at]], mp[rows[at] + 1]):
                total[mi[place]] += value * md[place]

    @njit(cache=True, nogil=True)
    def dot_rows(products, rows, x, mp, mi, md):  # type: ignore[no-untyped-def]
        for at in range(len(rows)):
            total = np.float32(0.0)
            for place in range(mp[rows[at]], mp[rows[at] + 1]):
                total += x[mi[place]] * md[place]
            products[at] = total

    return _Loops(add_rows, dot_rows)


def _best(
    numbers: NDArray[np.integer], values: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k largest values, best first, ties to the lower of the ascending ``numbers``; padded with -1 and 0."""
    if len(values) > k:
        reached = values >= np.partition(values, len(values) - k)[len(values) - k]
        numbers, values = numbers[reached], values[reached]
    order = np.argsort(-values, kind="stable")[:k]
    found = np.full((1, k), -1, dtype=np.int32)
    best = np.zeros((1, k), dtype=np.float32)
    found[0, : len(order)] = numbers[order]
    best[0, : len(order)] = values[order]
    return found, best
