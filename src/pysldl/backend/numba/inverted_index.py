"""Products added up for a window of the indexed rows at a time, in one array that stays in the cache."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.numba.heap import pop_sorted, push, value_of
from pysldl.backend.threads import concatenate_parts

WINDOW = 1 << 18  # rows whose sums are a megabyte


def search_inverted_index(
    queries: Any, postings: Any, k: int, exclude: NDArray[np.integer] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    left_out = np.full(queries.shape[0], -1, dtype=np.int64) if exclude is None else np.asarray(exclude, np.int64)
    return concatenate_parts(
        _search, queries.shape[0], queries.indptr, queries.indices, queries.data,
        postings.indptr, postings.indices, postings.data, postings.shape[1], k, left_out,
    )  # fmt: skip


def best_terms(X: Any, n_terms: int) -> tuple[NDArray[np.integer], NDArray[np.float32]]:
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return concatenate_parts(_best_terms, X.shape[0], X.indptr, X.indices, X.data, n_terms)


def limit_postings(queries: sparse.csr_array, counts: NDArray[np.integer], max_postings: int) -> sparse.csr_array:
    places, kept = concatenate_parts(
        _rarest_first, queries.shape[0], queries.indptr, queries.indices, counts, max_postings
    )
    indptr = np.concatenate([[0], np.cumsum(kept)]).astype(queries.indptr.dtype)
    return sparse.csr_array((queries.data[places], queries.indices[places], indptr), shape=queries.shape)


@njit(nogil=True, cache=True)
def _best_terms(start, stop, xp, xi, xd, n_terms):
    columns = np.full((stop - start, n_terms), -1, np.int32)
    values = np.zeros((stop - start, n_terms), np.float32)
    heap = np.empty(n_terms, np.uint64)
    for row in range(start, stop):
        size = 0
        for at in range(xp[row], xp[row + 1]):
            if size < n_terms or xd[at] >= value_of(heap[0]):
                size = push(heap, size, xd[at], xi[at])
        pop_sorted(heap, size, values[row - start], columns[row - start])
    return columns, values


@njit(nogil=True, cache=True)
def _rarest_first(start, stop, qp, qi, counts, max_postings):
    places = np.empty(qp[stop] - qp[start], np.int64)
    kept = np.zeros(stop - start, np.int64)
    used = 0
    for query in range(start, stop):
        first = used
        for at in range(qp[query], qp[query + 1]):  # insertion sort: a query has few terms
            place = used
            while place > first and (
                counts[places[place - 1]] > counts[at]
                or (counts[places[place - 1]] == counts[at] and qi[places[place - 1]] > qi[at])
            ):
                places[place] = places[place - 1]
                place -= 1
            places[place] = at
            used += 1
        read, last = 0, first
        while last < used and (last == first or read + counts[places[last]] <= max_postings):
            read += counts[places[last]]
            last += 1
        used = last
        kept[query - start] = last - first
    return places[:used], kept


@njit(nogil=True, cache=True)
def _end_below(numbers, start, stop, bound):
    """Where numbers that ascend from ``start`` to ``stop`` reach ``bound``: steps that double, then halves."""
    step = np.uint64(16)
    while start + step < stop and numbers[start + step] < bound:
        start += step
        step += step
    stop = min(start + step, stop)
    while start < stop:
        middle = (start + stop) >> np.uint64(1)
        if numbers[middle] < bound:
            start = middle + np.uint64(1)
        else:
            stop = middle
    return stop


@njit(nogil=True, cache=True)
def _search(start, stop, qp, qi, qd, pp, pi, pd, n_rows, k, left_out):
    rows = np.full((stop - start, k), -1, np.int32)
    products = np.zeros((stop - start, k), np.float32)
    total = np.zeros(min(n_rows, WINDOW), np.float32)  # of the rows of a window
    nothing = np.float32(0.0)
    heap = np.empty(k, np.uint64)
    most_terms = 0
    for query in range(start, stop):
        most_terms = max(most_terms, qp[query + 1] - qp[query])
    begin, end = np.empty(most_terms, np.uint64), np.empty(most_terms, np.uint64)  # of each term's rows in a window
    for query in range(start, stop):
        first, n_terms = qp[query], qp[query + 1] - qp[query]
        size, worst, skipped = 0, np.float32(1e-30), np.uint32(left_out[query])
        for term in range(n_terms):
            end[term] = pp[qi[first + term]]
        for bound in range(WINDOW, n_rows + WINDOW, WINDOW):
            before = np.uint32(bound - WINDOW)
            for term in range(n_terms):
                value, last = qd[first + term], np.uint64(pp[qi[first + term] + 1])
                begin[term] = end[term]
                end[term] = _end_below(pi, begin[term], last, bound) if bound < n_rows else last
                for place in range(begin[term], end[term]):
                    total[np.uint32(pi[place]) - before] += value * pd[place]
            # The rows are read once more instead of being noted when they are first met: whether that is so cannot be
            # foreseen, and to find out costs more than this. Sums that were looked at are nothing afterwards.
            for term in range(n_terms):
                for place in range(begin[term], end[term]):
                    row = np.uint32(pi[place])
                    value = total[row - before]
                    total[row - before] = nothing
                    if value >= worst and row != skipped:
                        size = push(heap, size, value, row)
                        if size == k:
                            worst = value_of(heap[0])
        pop_sorted(heap, size, products[query - start], rows[query - start])
    return rows, products
