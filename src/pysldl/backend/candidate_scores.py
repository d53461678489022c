"""Linear scores of given candidates: one sparse weight vector a label, a few labels a row."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import primitive

__all__ = ["score_candidates"]

PAIRS_AT_ONCE = 20_000


@primitive(numba=True, torch="arrays", single_row="single_query")
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
    scores = np.full(labels.shape, -np.inf, dtype=np.float32)
    rows, slots = np.nonzero(labels >= 0)
    for start in range(0, len(rows), PAIRS_AT_ONCE):
        row, slot = rows[start : start + PAIRS_AT_ONCE], slots[start : start + PAIRS_AT_ONCE]
        label = labels[row, slot]
        scores[row, slot] = X[row].multiply(W[label]).sum(axis=1) + bias[label]
    return scores
