"""Votes added up in an array of all labels, of which only those voted for are looked at."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pysldl.backend.numba.heap import number_of, pop_sorted, push, value_of
from pysldl.backend.threads import concatenate_parts, parallel_for


def vote_top(
    neighbors: NDArray[np.int32], weights: NDArray[np.float32], Y: Any, m: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    return concatenate_parts(_vote, len(neighbors), neighbors, weights, Y.indptr, Y.indices, Y.shape[1], m)


def vote_twice(
    neighbors: NDArray[np.int32], of_some: NDArray[np.float32], of_all: NDArray[np.float32], Y: Any, m: int
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32]]:
    n_rows = len(neighbors)
    labels, votes = np.full((n_rows, m), -1, dtype=np.int32), np.zeros((n_rows, m), dtype=np.float32)
    of_both = np.full((n_rows, m), -1, dtype=np.int32)
    parallel_for(
        _vote_twice, n_rows, neighbors, of_some, of_all, Y.indptr, Y.indices, Y.shape[1], labels, votes, of_both
    )
    return labels, votes, of_both


def mixed_top(
    neighbors: NDArray[np.int32],
    weights: NDArray[np.float32],
    Y: Any,
    prior: Any,
    scores: NDArray[np.float32] | None,
    share: float,
    m: int,
    least: float = -np.inf,
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
    n_rows = len(neighbors)
    labels = np.empty((n_rows, m), dtype=np.int32)
    votes, mixed = np.empty((n_rows, m), dtype=np.float32), np.empty((n_rows, m), dtype=np.float32)
    ballots = neighbors, weights, Y.indptr, Y.indices, prior.indices, prior.data
    shares = np.float32(share), np.float32(1.0 - share), np.float32(least)
    scores = np.empty((0, 0), dtype=np.float32) if scores is None else scores
    parallel_for(_mixed_top, n_rows, *ballots, scores, Y.shape[1], *shares, labels, votes, mixed)
    return labels, votes, mixed


@njit(nogil=True, cache=True)
def _mixed_top(start, stop, neighbors, weights, yp, yi, pi, pd, scores, n_labels, share, other, least, *found):
    labels, votes, mixed = found
    m = labels.shape[1]
    nothing = np.float32(0.0)
    total, both = np.zeros(n_labels, np.float32), np.zeros(n_labels, np.float32)
    voted = np.empty(n_labels + 1, np.uint32)
    heap = np.empty(m, np.uint64)
    for row in range(start, stop):
        n_voted, has_neighbors = np.uint64(0), False
        for slot in range(neighbors.shape[1]):
            neighbor, weight = neighbors[row, slot], weights[row, slot]
            has_neighbors |= neighbor >= 0
            if neighbor < 0 or weight <= nothing:
                continue
            for at in range(np.uint64(yp[neighbor]), np.uint64(yp[neighbor + 1])):
                label = np.uint32(yi[at])
                voted[n_voted] = label
                n_voted += np.uint64(total[label] == nothing)
                total[label] += weight
        if not has_neighbors:
            for at in range(len(pi)):
                voted[n_voted] = pi[at]
                n_voted += np.uint64(1)
                total[pi[at]] = pd[at]
        if len(scores) > 0:
            own = scores[row]
            for label in range(n_labels):
                both[label] = share * own[label]
        for at in range(n_voted):
            both[voted[at]] += other * total[voted[at]]
        size, worst = 0, np.float32(-np.inf)
        for label in range(n_labels):
            value = both[label] if both[label] > least else least
            if size < m or value > worst:  # of equals the first stays
                size = push(heap, size, value, label)
                if size == m:
                    worst = value_of(heap[0])
        pop_sorted(heap, size, mixed[row], labels[row])
        for at in range(m):
            votes[row, at] = total[labels[row, at]]
        for at in range(n_voted):
            total[voted[at]] = both[voted[at]] = nothing


@njit(nogil=True, cache=True)
def _vote_twice(start, stop, neighbors, of_some, of_all, yp, yi, n_labels, labels, votes, of_both):
    """The labels of a neighbor are read once for both sums: how many it has cannot be foreseen."""
    m = labels.shape[1]
    nothing = np.float32(0.0)
    total, total_of_some = np.zeros(n_labels, np.float32), np.zeros(n_labels, np.float32)
    voted = np.empty(n_labels + 1, np.uint32)
    heap = np.empty(m, np.uint64)
    for row in range(start, stop):
        n_voted = np.uint64(0)
        for slot in range(neighbors.shape[1]):
            neighbor, weight, own_weight = neighbors[row, slot], of_all[row, slot], of_some[row, slot]
            if weight <= 0:
                continue
            for at in range(np.uint64(yp[neighbor]), np.uint64(yp[neighbor + 1])):
                label = np.uint32(yi[at])
                voted[n_voted] = label
                n_voted += np.uint64(total[label] == nothing)
                total[label] += weight
                total_of_some[label] += own_weight
        size = n_of_both = 0
        worst = np.float32(1e-38)
        for at in range(n_voted):
            value = total_of_some[voted[at]]
            if value >= worst:
                size = push(heap, size, value, voted[at])
                if size == m:
                    worst = value_of(heap[0])
            total_of_some[voted[at]] = nothing
        pop_sorted(heap, size, votes[row], labels[row])
        if n_voted > m:
            for at in range(n_voted):
                n_of_both = push(heap, n_of_both, total[voted[at]], voted[at])
        for at in range(min(n_voted, np.uint64(m))):
            of_both[row, at] = voted[at] if n_voted <= m else number_of(heap[at])
        for at in range(n_voted):
            total[voted[at]] = nothing


@njit(nogil=True, cache=True)
def _vote(start, stop, neighbors, weights, yp, yi, n_labels, m):
    labels = np.full((stop - start, m), -1, np.int32)
    votes = np.zeros((stop - start, m), np.float32)
    total = np.zeros(n_labels, np.float32)
    voted = np.empty(n_labels, np.int32)
    heap = np.empty(m, np.uint64)
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
                size = push(heap, size, total[label], label)
                if size == m:
                    worst = value_of(heap[0])
            total[label] = 0
        pop_sorted(heap, size, votes[row - start], labels[row - start])
    return labels, votes
