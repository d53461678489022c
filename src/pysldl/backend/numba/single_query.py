"""Sums over chosen rows of a sparse matrix, for the forms of one row and of a few, one after the other."""

import math

import numpy as np
from numba import njit

from pysldl.backend.numba.heap import number_of, pop_sorted, push, value_of
from pysldl.backend.numba.label_pairs import support_of_row
from pysldl.backend.numba.trees import add_trees
from pysldl.backend.trees import TIE

__all__ = ["add_trees", "rank_rows", "score_candidates", "search_by_terms", "vote_top"]


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
        for column in range(len(total)):
            met[column] = column
    size, worst = 0, np.float32(1e-30)
    heap = np.empty(len(sums), np.uint64)
    for at in range(n_met):
        column = met[at]
        found = total[column]
        total[column] = nothing
        if found >= worst and column != left_out:
            size = push(heap, size, found, column)
            if size == len(sums):
                worst = value_of(heap[0])
    pop_sorted(heap, size, sums, numbers)


@njit(cache=True, nogil=True)
def _rarest_of_heaviest(xi, xd, n_terms, max_postings, mp):
    """The heaviest terms of a row and their values, the rarest first, as many as have so many postings together."""
    n_terms = min(n_terms, len(xi))
    heap = np.empty(n_terms, np.uint64)
    size = 0
    for at in range(len(xi)):
        if size < n_terms or xd[at] >= value_of(heap[0]):
            size = push(heap, size, xd[at], xi[at])
    terms, values, counts = np.empty(size, np.int32), np.empty(size, np.float32), np.empty(size, np.int64)
    for at in range(size):  # insertion sort: a row has few terms
        term = number_of(heap[at])
        count = np.int64(mp[term + 1] - mp[term])
        place = at
        while place > 0 and (counts[place - 1] > count or (counts[place - 1] == count and terms[place - 1] > term)):
            terms[place], values[place], counts[place] = terms[place - 1], values[place - 1], counts[place - 1]
            place -= 1
        terms[place], values[place], counts[place] = term, value_of(heap[at]), count
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


@njit(cache=True, nogil=True)
def rank_rows(
    xp, xi, xd, n_terms, max_postings, n_neighbors, temperature, n_candidates, centroid_terms, centroid_postings,
    n_centroids, vote_power, n_rescored, baseline, pp, pi, pd, yp, yi, yd, cp, ci, cd, wp, wi, wd, qp, qi, qd, frequent,
    bias, counts, roots, feature, threshold, left, right, value, row_total, row_met, label_total, label_met, x,
    labels, scores,
):  # fmt: skip
    """Search, votes, candidates, linear scores and trees, one row after the other, as the stages themselves do."""
    width, first_frequent = labels.shape[1], n_candidates + n_centroids
    for row in range(len(labels)):
        terms, values = xi[xp[row] : xp[row + 1]], xd[xp[row] : xp[row + 1]]
        near, likeness = np.full(n_neighbors, -1, np.int32), np.zeros(n_neighbors, np.float32)
        asked, weights = _rarest_of_heaviest(terms, values, n_terms, max_postings, pp)
        _best_sums(asked, weights, pp, pi, pd, row_total, row_met, -1, near, likeness)
        offered, votes = labels[row], np.zeros(width, np.float32)
        shares = _vote_weights(near, likeness, temperature)
        _best_sums(near, shares, yp, yi, yd, label_total, label_met, -1, offered[:n_candidates], votes[:n_candidates])
        if n_centroids > 0:
            asked, weights = _rarest_of_heaviest(terms, values, centroid_terms, centroid_postings, cp)
            alike = np.zeros(n_centroids, np.float32)
            _best_sums(
                asked, weights, cp, ci, cd, label_total, label_met, -1, offered[n_candidates:first_frequent], alike
            )
        offered[first_frequent:] = frequent
        _drop_repeated(offered, label_total)
        linear = np.full(width, -np.inf, np.float32)
        _score_labels(offered, terms, values, wp, wi, wd, bias, x, linear)
        _mix(linear, votes, vote_power, scores[row])
        if len(roots) > 0:
            _rescore(
                offered, linear, votes, scores[row], counts, qp, qi, qd, n_rescored, baseline,
                roots, feature, threshold, left, right, value,
            )  # fmt: skip


@njit(cache=True, nogil=True)
def _vote_weights(near, likeness, temperature):
    """See :func:`pysldl.decoding.voting.vote_weights`."""
    weights, total = np.zeros(len(near)), 0.0
    for at in range(len(near)):
        if near[at] >= 0:
            weights[at] = max(math.exp(np.float64(likeness[at] - likeness[0]) / temperature), 1e-30)
            total += weights[at]
    shares = np.empty(len(near), np.float32)
    for at in range(len(near)):
        shares[at] = weights[at] / total if total > 0 else weights[at]
    return shares


@njit(cache=True, nogil=True)
def _drop_repeated(labels, total):
    """Put -1 in place of every repetition; ``total`` is zero and stays so."""
    for at in range(len(labels)):
        if labels[at] >= 0:
            if total[labels[at]] != 0:
                labels[at] = -1
            else:
                total[labels[at]] = 1
    for label in labels:
        if label >= 0:
            total[label] = 0


@njit(cache=True, nogil=True)
def _mix(linear, votes, vote_power, scores):
    """The score of the first ranking stage, see :mod:`pysldl.ranking.linear`."""
    best = np.float32(1e-30)
    for vote in votes:
        best = max(best, vote)
    for at in range(len(linear)):
        if linear[at] == -np.inf:
            scores[at] = -np.inf
            continue
        belief = 1.0 / (1.0 + math.exp(-2.0 * np.float64(linear[at])))
        share = max(np.float32(votes[at] / best), np.float32(1e-3))
        scores[at] = belief * np.float64(share) ** vote_power


@njit(cache=True, nogil=True)
def _rescore(
    labels, linear, votes, scores, counts, qp, qi, qd, n_rescored, baseline, roots, feature, threshold, left, right,
    value,
):  # fmt: skip
    """Put the scores of the second ranking stage in place of the first, see :mod:`pysldl.ranking.reranker`."""
    n_best, tiny = min(n_rescored, len(labels)), np.float32(1e-30)
    heap = np.empty(n_best, np.uint64)
    size = 0
    for at in range(len(labels)):
        size = push(heap, size, scores[at], at)
    kept, places = np.empty(n_best, np.float32), np.empty(n_best, np.int32)
    pop_sorted(heap, size, kept, places)
    own, support = labels[places], np.empty((n_best, 2), np.float32)
    best_vote, total = np.float32(0.0), 0.0
    for slot in range(n_best):
        best_vote = max(best_vote, votes[places[slot]])
        if labels[places[slot]] < 0:
            kept[slot] = 0.0
        total += np.float64(kept[slot])
    support_of_row(own, kept, counts, qp, qi, qd, support)
    x = np.empty(13, np.float32)
    x[7], x[8], x[9], x[10] = kept[0], kept[1] if n_best > 1 else np.float32(0.0), total, best_vote
    rescored, lowest, last = np.full(n_best, -np.inf, np.float32), 1.0, np.float32(1.0)
    for slot in range(n_best):
        place = places[slot]
        if labels[place] < 0:
            continue
        x[0], x[1], x[2] = linear[place], votes[place], votes[place] / max(best_vote, tiny)
        x[3], x[4], x[5], x[6] = counts[labels[place]], slot, kept[slot], kept[slot] / max(kept[0], tiny)
        x[11], x[12] = support[slot]
        logit = 0.0
        for root in roots:
            node = root
            while left[node] != node:
                node = left[node] if x[feature[node]] <= threshold[node] else right[node]
            logit += value[node]
        probability = (1.0 - TIE * slot) / (1.0 + math.exp(-(baseline + logit)))
        rescored[slot], lowest, last = probability, min(lowest, probability), min(last, kept[slot])
    for at in range(len(scores)):
        scores[at] = np.float64(np.float32(scores[at] / max(last, tiny))) * lowest
    for slot in range(n_best):
        scores[places[slot]] = rescored[slot]
