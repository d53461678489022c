"""Linear scores of given candidates: one sparse weight vector a label, a few labels a row."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.device import current_device
from pysldl.backend.dispatch import has_numba, parallel_for
from pysldl.backend.single_query import score_one

__all__ = ["score_candidates"]

PLAIN_BLOCK = 20_000


def score_candidates(
    X: sparse.csr_array, labels: NDArray[np.int32], W: sparse.csr_array, bias: NDArray[np.float32]
) -> NDArray[np.float32]:
    """``x_i · w_l + b_l`` for every candidate ``l`` of every row ``i``.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features), float32
    labels : ndarray of shape (n_rows, m), int32
        -1 for none.
    W : csr_array of shape (n_labels, n_features), float32
    bias : ndarray of shape (n_labels,), float32

    Returns
    -------
    ndarray of shape (n_rows, m), float32
        -inf beside a label of -1.
    """
    if len(labels) == 1:
        return score_one(X, labels, W, bias)
    if (device := current_device()) is not None:
        from pysldl.backend.torch.squared_hinge import linear_scores

        return linear_scores(device, X, labels, W, bias)
    if has_numba():
        by_label, score = _compiled_score()
        scores = np.full(labels.shape, -np.inf, dtype=np.float32)
        parallel_for(
            score, W.shape[0], *by_label(labels, W.shape[0]), X.indptr, X.indices, X.data, X.shape[1],
            W.indptr, W.indices, W.data, bias, labels.shape[1], scores,
        )  # fmt: skip
        return scores
    scores = np.full(labels.shape, -np.inf, dtype=np.float32)
    rows, slots = np.nonzero(labels >= 0)
    for start in range(0, len(rows), PLAIN_BLOCK):
        row, slot = rows[start : start + PLAIN_BLOCK], slots[start : start + PLAIN_BLOCK]
        label = labels[row, slot]
        scores[row, slot] = X[row].multiply(W[label]).sum(axis=1) + bias[label]
    return scores


@cache
def _compiled_score() -> Any:
    from numba import njit

    @njit(nogil=True, cache=True)
    def by_label(labels, n_labels):  # type: ignore[no-untyped-def]
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

    # Label by label: its weights are spread out once, and every row that wants it then reads its own few terms.
    @njit(nogil=True, cache=True)
    def score(start, stop, indptr, pairs, xp, xi, xd, n_features, wp, wi, wd, bias, m, scores):  # type: ignore[no-untyped-def]
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

    return by_label, score
