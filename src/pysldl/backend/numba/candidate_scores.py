"""Scores of candidates label by label, and of all labels row by row.

Of candidates the weights of a label are spread out once, and every row that asks for it then reads its own few terms.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pysldl.backend.threads import parallel_for


def score_candidates(X: Any, labels: NDArray[np.int32], W: Any, bias: NDArray[np.float32]) -> NDArray[np.float32]:
    scores = np.full(labels.shape, -np.inf, dtype=np.float32)
    parallel_for(
        _score, W.shape[0], *_group_by_label(labels, W.shape[0]), X.indptr, X.indices, X.data, X.shape[1],
        W.indptr, W.indices, W.data, bias, labels.shape[1], scores,
    )  # fmt: skip
    return scores


@njit(nogil=True, cache=True)
def _group_by_label(labels, n_labels):
    n_rows, m = labels.shape
    indptr = np.zeros(n_labels + 1, np.int64)
    for row in range(n_rows):
        for slot in range(m):
            if labels[row, slot] >= 0:
                indptr[labels[row, slot] + 1] += 1
    indptr = np.cumsum(indptr)
    place = indptr[:-1].copy()
    pairs = np.empty(indptr[-1], np.int64)
    for row in range(n_rows):
        for slot in range(m):
            label = labels[row, slot]
            if label >= 0:
                pairs[place[label]] = row * m + slot
                place[label] += 1
    return indptr, pairs


@njit(nogil=True, cache=True)
def _score(start, stop, indptr, pairs, xp, xi, xd, n_features, wp, wi, wd, bias, m, scores):
    w = np.zeros(n_features, np.float32)
    for label in range(start, stop):
        if indptr[label] == indptr[label + 1]:
            continue
        for at in range(wp[label], wp[label + 1]):
            w[wi[at]] = wd[at]
        for at in range(indptr[label], indptr[label + 1]):
            row, slot = pairs[at] // m, pairs[at] % m
            total = np.float32(0.0)
            for j in range(np.uint64(xp[row]), np.uint64(xp[row + 1])):
                total += xd[j] * w[np.uint32(xi[j])]
            scores[row, slot] = total + bias[label]
        for at in range(wp[label], wp[label + 1]):
            w[wi[at]] = 0
    return 0


def best_by_weights(
    X: Any, by_feature: Any, bias: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    labels = np.full((X.shape[0], k), -1, dtype=np.int32)
    best = np.full((X.shape[0], k), -np.inf, dtype=np.float32)
    parallel_for(
        _best, X.shape[0], X.indptr, X.indices, X.data, by_feature.indptr, by_feature.indices, by_feature.data, bias,
        labels, best,
    )  # fmt: skip
    return labels, best


@njit(nogil=True, cache=True)
def _best(start, stop, xp, xi, xd, wp, wi, wd, bias, labels, best):
    """The best so far are a heap, the last of them on top; in the end they are taken off from there."""
    k = labels.shape[1]
    scores = np.empty(len(bias), np.float32)
    for row in range(start, stop):
        scores[:] = 0
        for j in range(np.uint64(xp[row]), np.uint64(xp[row + 1])):
            value, feature = xd[j], xi[j]
            for at in range(np.uint64(wp[feature]), np.uint64(wp[feature + 1])):
                scores[np.uint32(wi[at])] += value * wd[at]
        heap, label_at, n = best[row], labels[row], 0
        for label in range(len(bias)):
            score = scores[label] + bias[label]
            if n < k and score > -np.inf:
                heap[n], label_at[n] = score, label
                n += 1
                if n == k:
                    for place in range(k // 2 - 1, -1, -1):
                        _sink(heap, label_at, place, n)
            elif n == k and score > heap[0]:
                heap[0], label_at[0] = score, label
                _sink(heap, label_at, 0, n)
        if n < k:
            for place in range(n // 2 - 1, -1, -1):
                _sink(heap, label_at, place, n)
        for last in range(n - 1, 0, -1):
            heap[0], heap[last] = heap[last], heap[0]
            label_at[0], label_at[last] = label_at[last], label_at[0]
            _sink(heap, label_at, 0, last)
    return 0


@njit(nogil=True, cache=True)
def _sink(heap, label_at, place, n):
    """Let an entry sink below those that come after it in the order of the answer."""
    while True:
        child = 2 * place + 1
        if child >= n:
            return
        other = child + 1
        if other < n and (
            heap[other] < heap[child] or (heap[other] == heap[child] and label_at[other] > label_at[child])
        ):
            child = other
        if heap[place] < heap[child] or (heap[place] == heap[child] and label_at[place] > label_at[child]):
            return
        heap[place], heap[child] = heap[child], heap[place]
        label_at[place], label_at[child] = label_at[child], label_at[place]
        place = child
