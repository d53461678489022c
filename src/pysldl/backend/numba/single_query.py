"""Sums over chosen rows of a sparse matrix, for the forms of one row and of a few, one after the other."""

import numpy as np
from numba import njit

from pysldl.backend.numba.heap import pop_sorted, push
from pysldl.backend.numba.trees import add_trees

__all__ = ["add_trees", "score_candidates", "search_by_terms", "vote_top"]


@njit(cache=True, nogil=True)
def search_by_terms(xp, xi, xd, n_terms, max_postings, mp, mi, md, total, met, left_out, numbers, sums):
    for row in range(len(xp) - 1):
        terms, values = _rarest_of_heaviest(
            xi[xp[row] : xp[row + 1]], xd[xp[row] : xp[row + 1]], n_terms, max_postings, mp
        )
        _best_sums(terms, values, mp, mi, md, total, met, left_out[row], numbers[row], sums[row])


@njit(cache=True, nogil=True)
def vote_top(neighbors, weights, mp, mi, md, total, met, labels, votes):
    for row in range(len(neighbors)):
        _best_sums(neighbors[row], weights[row], mp, mi, md, total, met, -1, labels[row], votes[row])


@njit(cache=True, nogil=True)
def score_candidates(xp, xi, xd, labels, wp, wi, wd, bias, x, scores):
    for row in range(len(labels)):
        _score_labels(
            labels[row], xi[xp[row] : xp[row + 1]], xd[xp[row] : xp[row + 1]], wp, wi, wd, bias, x, scores[row]
        )


@njit(cache=True, nogil=True)
def _best_sums(rows, values, mp, mi, md, total, met, left_out, numbers, sums):
    """The largest positive sums of columns over given rows, each times its value; ``total`` is zero and stays so."""
    nothing, most = np.float32(0.0), np.uint64(len(total))
    n_met = np.uint64(0)
    for at in range(len(rows)):
        if rows[at] < 0:
            continue
        value = values[at]
        for place in range(np.uint64(mp[rows[at]]), np.uint64(mp[rows[at] + 1])):
            # No branch in here, as in the search of many rows: whether a column was met before cannot be foreseen.
            column = np.uint32(mi[place])
            before = total[column]
            met[min(n_met, most)] = column
            n_met += np.uint64(before == nothing)
            total[column] = before + value * md[place]
    if n_met > most:  # sums that came back to nothing were met again
        n_met = most
        met[: len(total)] = np.arange(len(total))
    size, worst = 0, np.float32(1e-30)
    heap_sum, heap_number = np.empty(len(sums), np.float32), np.empty(len(sums), np.int32)
    for at in range(n_met):
        column = met[at]
        found = total[column]
        total[column] = nothing
        if found >= worst and column != left_out:
            size = push(heap_sum, heap_number, size, found, np.int32(column))
            if size == len(sums):
                worst = heap_sum[0]
    pop_sorted(heap_sum, heap_number, size, sums, numbers)


@njit(cache=True, nogil=True)
def _rarest_of_heaviest(xi, xd, n_terms, max_postings, mp):
    """The heaviest terms of a row and their values, the rarest first, as many as have so many postings together."""
    n_terms = min(n_terms, len(xi))
    heap_value, heap_term = np.empty(n_terms, np.float32), np.empty(n_terms, np.int32)
    size = 0
    for at in range(len(xi)):
        if size < n_terms or xd[at] >= heap_value[0]:
            size = push(heap_value, heap_term, size, xd[at], xi[at])
    terms, values, counts = np.empty(size, np.int32), np.empty(size, np.float32), np.empty(size, np.int64)
    for at in range(size):  # insertion sort: a row has few terms
        term, count = heap_term[at], np.int64(mp[heap_term[at] + 1] - mp[heap_term[at]])
        place = at
        while place > 0 and (counts[place - 1] > count or (counts[place - 1] == count and terms[place - 1] > term)):
            terms[place], values[place], counts[place] = terms[place - 1], values[place - 1], counts[place - 1]
            place -= 1
        terms[place], values[place], counts[place] = term, heap_value[at], count
    n_read, n_kept = 0, 0
    while n_kept < size and (n_kept == 0 or n_read + counts[n_kept] <= max_postings):
        n_read += counts[n_kept]
        n_kept += 1
    return terms[:n_kept], values[:n_kept]


@njit(cache=True, nogil=True)
def _score_labels(labels, xi, xd, wp, wi, wd, bias, x, scores):
    """The product of a row and the weights of each label, and its bias; ``x`` is zero and stays so.

    Each product is added up from the left, and every addition waits for the one before: two products at a time take
    half as long.
    """
    for at in range(len(xi)):
        x[xi[at]] = xd[at]
    for at in range(0, len(labels), 2):
        first, first_end = _span(wp, labels[at])
        second, second_end = _span(wp, labels[at + 1] if at + 1 < len(labels) else -1)
        one, other = np.float32(0.0), np.float32(0.0)
        common = min(first_end - first, second_end - second)
        for place in range(common):
            one += x[np.uint32(wi[first + place])] * wd[first + place]
            other += x[np.uint32(wi[second + place])] * wd[second + place]
        for place in range(first + common, first_end):
            one += x[np.uint32(wi[place])] * wd[place]
        for place in range(second + common, second_end):
            other += x[np.uint32(wi[place])] * wd[place]
        if labels[at] >= 0:
            scores[at] = one + bias[labels[at]]
        if at + 1 < len(labels) and labels[at + 1] >= 0:
            scores[at + 1] = other + bias[labels[at + 1]]
    for at in range(len(xi)):
        x[xi[at]] = 0


@njit(cache=True, nogil=True)
def _span(indptr, row):
    """First place and end of a row of a CSR matrix; of no row, nothing."""
    if row < 0:
        return np.uint64(0), np.uint64(0)
    return np.uint64(indptr[row]), np.uint64(indptr[row + 1])
