"""Label by label: its weights are spread out once, and every row that asks for it then reads its own few terms."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pysldl.backend.threads import parallel_for

__all__ = ["score_candidates"]


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
