"""The sums of one row after the other, and only what may be among the strongest sorted."""

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from pysldl.backend.threads import n_threads

__all__ = ["walk_step"]


def walk_step(
    P: Any, labels: NDArray[np.int32], values: NDArray[np.float32], discount: float
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    found: tuple[NDArray[np.int32], NDArray[np.float32]] = _walk(
        P.indptr, P.indices, P.data, labels, values, np.float64(discount), n_threads()
    )
    return found


@njit(parallel=True, cache=True)
def _walk(pp, pi, pd, labels, values, discount, n_parts):
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
