"""The hinge in one pass along every ranking."""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

__all__ = ["ranking_hinge"]


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
