"""The loops of the label embeddings, row by row; Adam takes the steps of the NumPy form, bit for bit."""

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from pysldl.backend.label_embedding import BETA1, BETA2, EPSILON
from pysldl.backend.threads import n_threads


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


def ranking_hinge(
    D: NDArray[np.float64],
    ranking: NDArray[np.int32],
    margin: float,
    sign: int = 1,
    *,
    offset: NDArray[np.float64] | None = None,
    out: NDArray[np.float64] | None = None,
) -> tuple[float, NDArray[np.float64]]:
    G = np.zeros(D.shape) if out is None else out
    if ranking.shape[1] < 2:
        return 0.0, G
    offset = np.zeros(D.shape[1]) if offset is None else offset
    losses = _hinge(np.ascontiguousarray(D), ranking, float(margin), float(sign), offset, G)
    return float(losses.sum()), G


@njit(parallel=True, cache=True)
def _hinge(D, ranking, margin, sign, offset, G):
    n_rows, n_ranked = ranking.shape
    losses = np.zeros(n_rows, np.float64)
    for i in prange(n_rows):
        row, order, to = D[i], ranking[i], G[i]
        loss, before = 0.0, 0.0
        this = order[0]
        here = row[this] + offset[this]
        for j in range(1, n_ranked):
            label = order[j]
            there = row[label] + offset[label]
            violation = max(sign * (here - there) + margin, 0.0)
            active = 1.0 if violation > 0.0 else 0.0  # no branch: it would be foreseen half of the time
            loss += violation
            to[this] = sign * (active - before)
            this, here, before = label, there, active
        to[this] = -sign * before
        losses[i] = loss
    return losses


@njit(parallel=True, cache=True, error_model="numpy")
def adam_update_rows(parameters, first, second, rows, gradient, rates, shrink=1.0):
    for at in prange(len(rows)):
        row = rows[at]
        p, m, v, g, rate = parameters[row], first[row], second[row], gradient[at], rates[at]
        for k in range(len(p)):
            m[k] = m[k] + (1 - BETA1) * (g[k] - m[k])
            v[k] = v[k] + (1 - BETA2) * (g[k] * g[k] - v[k])
            p[k] = shrink * p[k] - rate * np.float64(m[k]) / (np.sqrt(np.float64(v[k])) + EPSILON)
