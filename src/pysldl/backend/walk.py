"""One step of a random walk over a sparse graph, of every row only the strongest entries kept."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import has_numba
from pysldl.metrics.topk import top_k

__all__ = ["walk_step"]

PLAIN_BLOCK = 1 << 22  # products formed at once by the plain twin

Strongest = tuple[NDArray[np.int32], NDArray[np.float32]]


def walk_step(
    P: sparse.csr_array, labels: NDArray[np.int32], values: NDArray[np.float32], discount: float
) -> Strongest:
    """The strongest entries of each row of ``P + discount * P @ T``, strongest first, ties to the lower label.

    The cost is that of the stored entries of P times the entries kept, whatever the number of labels.

    Parameters
    ----------
    P : csr_array of shape (n_labels, n_labels), float32
        Rows of sum 1, indices sorted.
    labels, values : ndarrays of shape (n_labels, n_kept)
        The entries of ``T``; -1 and 0 where a row has fewer.
    discount : float

    Returns
    -------
    labels : ndarray of shape (n_labels, n_kept), int32
    values : ndarray of shape (n_labels, n_kept), float32
    """
    if has_numba():
        from numba import get_num_threads

        return _compiled_walk()(P.indptr, P.indices, P.data, labels, values, np.float64(discount), get_num_threads())
    n_labels, n_kept = labels.shape
    kept = labels >= 0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    T = sparse.csr_array((values[kept].astype(np.float64), labels[kept], indptr), shape=(n_labels, n_labels))
    found, strengths = np.empty_like(labels), np.empty_like(values)
    products = np.cumsum(np.diff(P.indptr)) * (n_kept + 1)
    start = 0
    while start < n_labels:
        before = products[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(products, before + PLAIN_BLOCK, side="right")))
        step = P[start:stop].astype(np.float64)
        walked = (step + discount * (step @ T)).astype(np.float32)
        best, strength = top_k(walked, n_kept)
        found[start:stop] = best
        strengths[start:stop] = np.where(best < 0, 0.0, strength)
        start = stop
    return found, strengths


@cache
def _compiled_walk() -> Any:
    from numba import njit, prange

    @njit(parallel=True, cache=True)
    def walk(pp, pi, pd, labels, values, discount, n_parts):  # type: ignore[no-untyped-def]
        n_labels, n_kept = labels.shape
        found = np.full((n_labels, n_kept), -1, np.int32)
        strengths = np.zeros((n_labels, n_kept), np.float32)
        for part in prange(n_parts):
            total = np.zeros(n_labels, np.float64)
            touched = np.empty(n_labels, np.int32)
            left = np.empty(n_labels, np.float32)
            # Every n_parts-th row: frequent labels, whose rows are long, often stand together.
            for row in range(part, n_labels, n_parts):
                n_touched = 0
                for at in range(pp[row], pp[row + 1]):
                    link, share = pi[at], np.float64(pd[at])
                    if total[link] == 0.0:
                        touched[n_touched] = link
                        n_touched += 1
                    total[link] += share
                    share *= discount
                    for slot in range(n_kept):
                        label = labels[link, slot]
                        if label < 0:
                            break
                        if total[label] == 0.0:
                            touched[n_touched] = label
                            n_touched += 1
                        total[label] += share * values[link, slot]
                # The kept entry that is now the weakest bounds the new ones from below: few are left to be sorted.
                bound = np.float32(0.0)
                if labels[row, n_kept - 1] >= 0:
                    bound = np.float32(total[labels[row, 0]])
                    for slot in range(1, n_kept):
                        bound = min(bound, np.float32(total[labels[row, slot]]))
                n_left = 0
                for i in range(n_touched):
                    label = touched[i]
                    strength = np.float32(total[label])  # rounded, so that ties do not hang on the order of the sum
                    total[label] = 0.0
                    if strength >= bound:
                        touched[n_left] = label
                        left[n_left] = strength
                        n_left += 1
                reached, strength_of = touched[:n_left], left[:n_left]
                by_label = np.argsort(reached)
                order = by_label[np.argsort(-strength_of[by_label], kind="mergesort")]
                for slot in range(min(n_kept, len(order))):
                    found[row, slot] = reached[order[slot]]
                    strengths[row, slot] = strength_of[order[slot]]
        return found, strengths

    return walk
