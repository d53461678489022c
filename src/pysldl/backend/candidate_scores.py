"""Linear scores, one sparse weight vector a label: of given candidates, or the best of all labels."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import primitive
from pysldl.backend.topk import top_k_dense
from pysldl.backend.workspace import row_parts

PAIRS_AT_ONCE = 20_000
SCORES_AT_ONCE = 1 << 20


@primitive(numba=True, torch="arrays", triton=True, single_row="single_query", few_rows=True)
def score_candidates(
    X: sparse.csr_array, labels: NDArray[np.int32], W: sparse.csr_array, bias: NDArray[np.float32]
) -> NDArray[np.float32]:
    """``x_i · w_l + b_l`` for every candidate ``l`` of every row ``i``; -inf beside a label of -1.

    ``W`` has the weights of the labels as its rows, (n_labels, n_features).
    """
    scores = np.full(labels.shape, -np.inf, dtype=np.float32)
    rows, slots = np.nonzero(labels >= 0)
    for start in range(0, len(rows), PAIRS_AT_ONCE):
        row, slot = rows[start : start + PAIRS_AT_ONCE], slots[start : start + PAIRS_AT_ONCE]
        label = labels[row, slot]
        scores[row, slot] = X[row].multiply(W[label]).sum(axis=1) + bias[label]
    return scores


@primitive(numba=True, single_row="numpy")
def best_by_weights(
    X: sparse.csr_array, by_feature: sparse.csr_array, bias: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k labels with the largest ``x_i · w_l + b_l`` of every row, best first, of equals the lower label.

    ``by_feature`` are the weights, transposed; a bias of -inf hides a label. Behind the last stand -1 and -inf.
    """
    labels = np.empty((X.shape[0], k), dtype=np.int32)
    best = np.empty((X.shape[0], k), dtype=np.float32)
    for part in row_parts(X.shape[0], max(1, SCORES_AT_ONCE // max(len(bias), 1))):
        labels[part], best[part] = top_k_dense((X[part] @ by_feature).toarray() + bias, k)
    return labels, best
