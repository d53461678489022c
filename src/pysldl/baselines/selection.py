"""How good scores are on validation rows: what decides which epoch of a network is kept."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.topk import top_k

__all__ = ["SELECTIONS"]

Quality = NDArray[np.float64]


def first_hit(scores: Any, Y: sparse.csr_array) -> Quality:
    """Whether the best label of a row is a true one; ties are broken by the hits among its five best.

    Parameters
    ----------
    scores : ndarray or csr_array of shape (n_rows, n_labels)
    Y : csr_array of shape (n_rows, n_labels)

    Returns
    -------
    ndarray of shape (n_rows, 2)
    """
    labels, _ = top_k(scores, min(5, Y.shape[1]))
    rows = np.repeat(np.arange(len(labels)), labels.shape[1])
    hits = np.asarray(Y[rows, labels.ravel()], dtype=np.float64).reshape(labels.shape) * (labels >= 0)
    return np.column_stack([hits[:, 0], hits @ (1.0 / np.log2(np.arange(2, labels.shape[1] + 2)))])


def average_precision(scores: NDArray[Any], Y: sparse.csr_array) -> Quality:
    """Average precision of the ranking of every row, of shape (n_rows, 1); 0 for a row without labels."""
    order = np.argsort(-scores, axis=1, kind="stable")
    hits = np.take_along_axis(Y.toarray() > 0, order, axis=1)
    precision = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
    return ((precision * hits).sum(axis=1) / np.maximum(hits.sum(axis=1), 1))[:, None]


def right_signs(scores: NDArray[Any], Y: sparse.csr_array) -> Quality:
    """Share of the labels of a row whose logit has the right sign (1 - Hamming loss), of shape (n_rows, 1)."""
    return ((scores > 0) == (Y.toarray() > 0)).mean(axis=1)[:, None]


SELECTIONS: dict[str, Callable[[Any, sparse.csr_array], Quality]] = {
    "P@1": first_hit,
    "AP": average_precision,
    "hamming": right_signs,
}
