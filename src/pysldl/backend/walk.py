"""One step of a random walk over a sparse graph, of every row only the strongest entries kept."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import primitive
from pysldl.backend.topk import top_k_or_zero

__all__ = ["walk_step"]

PRODUCTS_AT_ONCE = 1 << 22


@primitive(numba=True)
def walk_step(
    P: sparse.csr_array, labels: NDArray[np.int32], values: NDArray[np.float32], discount: float
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The strongest entries of each row of ``P + discount * P @ T``, strongest first, ties to the lower label.

    The cost is that of the stored entries of P times the entries kept, whatever the number of labels.

    ``P``, of shape (n_labels, n_labels), has rows of sum 1 and sorted indices; ``labels`` and ``values``, of shape
    (n_labels, n_kept), are the entries of ``T`` before and, as returned, after the step: -1 and 0 for none.
    """
    n_labels, n_kept = labels.shape
    kept = labels >= 0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    T = sparse.csr_array((values[kept].astype(np.float64), labels[kept], indptr), shape=(n_labels, n_labels))
    found, strengths = np.empty_like(labels), np.empty_like(values)
    products = np.cumsum(np.diff(P.indptr)) * (n_kept + 1)
    start = 0
    while start < n_labels:
        before = products[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(products, before + PRODUCTS_AT_ONCE, side="right")))
        step = P[start:stop].astype(np.float64)
        walked = (step + discount * (step @ T)).astype(np.float32)
        found[start:stop], strengths[start:stop] = top_k_or_zero(walked, n_kept)
        start = stop
    return found, strengths
