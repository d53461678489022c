"""Linear scores of given candidates: one sparse weight vector a label, a few labels a row."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.device import chosen_device
from pysldl.kernels import compiled, in_parts
from pysldl.kernels.one_row import score_one

__all__ = ["score_candidates"]

PLAIN_BLOCK = 20_000
SCAN_UP_TO = 32  # weights of a label that are read in the time in which one term is looked up among them


def score_candidates(
    X: sparse.csr_array, labels: NDArray[np.int32], W: sparse.csr_array, bias: NDArray[np.float32]
) -> NDArray[np.float32]:
    """``x_i · w_l + b_l`` for every candidate ``l`` of every row ``i``.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features), float32
    labels : ndarray of shape (n_rows, m), int32
        -1 for none.
    W : csr_array of shape (n_labels, n_features), float32, indices sorted
    bias : ndarray of shape (n_labels,), float32

    Returns
    -------
    ndarray of shape (n_rows, m), float32
        -inf beside a label of -1.
    """
    if len(labels) == 1:
        return score_one(X, labels, W, bias)
    if (device := chosen_device()) is not None:
        from pysldl.on_device.margins import linear_scores

        return linear_scores(device, X, labels, W, bias)
    if compiled():
        X = X if X.has_sorted_indices else X.sorted_indices()
        parts = in_parts(
            _compiled_score(), len(labels), X.indptr, X.indices, X.data, X.shape[1], labels,
            W.indptr, W.indices, W.data, bias,
        )  # fmt: skip
        return np.concatenate(parts)
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
    def score(start, stop, xp, xi, xd, n_features, labels, wp, wi, wd, bias):  # type: ignore[no-untyped-def]
        m = labels.shape[1]
        scores = np.full((stop - start, m), -np.inf, np.float32)
        x = np.zeros(n_features, np.float32)
        for row in range(start, stop):
            for at in range(xp[row], xp[row + 1]):
                x[xi[at]] = xd[at]
            for slot in range(m):
                label = labels[row, slot]
                if label < 0:
                    continue
                total = np.float32(0.0)
                low, end = wp[label], wp[label + 1]
                if end - low < SCAN_UP_TO * (xp[row + 1] - xp[row]):
                    for at in range(np.uint64(low), np.uint64(end)):
                        total += x[np.uint32(wi[at])] * wd[at]
                else:  # a frequent label has far more weights than the row has terms: look those up
                    for j in range(xp[row], xp[row + 1]):
                        high = end
                        while low < high:
                            middle = (low + high) >> 1
                            if wi[middle] < xi[j]:
                                low = middle + 1
                            else:
                                high = middle
                        if low < end and wi[low] == xi[j]:
                            total += xd[j] * wd[low]
                scores[row - start, slot] = total + bias[label]
            for at in range(xp[row], xp[row + 1]):
                x[xi[at]] = 0
        return scores

    return score
