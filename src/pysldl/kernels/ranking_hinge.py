"""The hinge over consecutive labels of all rankings: the loop of Eq. 7."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pysldl.kernels import compiled

__all__ = ["ranking_hinge"]


def ranking_hinge(
    D: NDArray[np.float64], ranking: NDArray[np.int32], margin: float, sign: int = 1
) -> tuple[float, NDArray[np.float64]]:
    """``sum_j [sign (D(i, j) - D(i, j+1)) + margin]₊`` along the ranking of every row, summed over the rows.

    Parameters
    ----------
    D : ndarray of shape (n_rows, n_labels), float64
    ranking : ndarray of shape (n_rows, n_ranked), int32
        Columns of ``D``, in the order in which they should come.
    margin : float
    sign : {1, -1}
        -1 asks for the opposite order.

    Returns
    -------
    loss : float
    G : ndarray of shape (n_rows, n_labels), float64
        The derivative with respect to ``D``: 1, 0 or -1.
    """
    if compiled():
        G, losses = _compiled_hinge()(np.ascontiguousarray(D), ranking, float(margin), float(sign))
        return float(losses.sum()), G
    ranked = np.take_along_axis(D, ranking, axis=1)
    violation = sign * (ranked[:, :-1] - ranked[:, 1:]) + margin
    np.maximum(violation, 0.0, out=violation)
    active = np.zeros((ranking.shape[0], ranking.shape[1] + 1))
    np.greater(violation, 0.0, out=active[:, 1:-1], casting="unsafe")
    G = np.zeros(D.shape)
    np.put_along_axis(G, ranking, sign * (active[:, 1:] - active[:, :-1]), axis=1)
    return float(violation.sum()), G


@cache
def _compiled_hinge() -> Any:
    from numba import njit, prange

    @njit(parallel=True, cache=True)
    def hinge(D, ranking, margin, sign):  # type: ignore[no-untyped-def]
        n_rows, n_ranked = ranking.shape
        G = np.zeros(D.shape, np.float64)
        losses = np.zeros(n_rows, np.float64)
        for i in prange(n_rows):
            row, order, to = D[i], ranking[i], G[i]
            loss = 0.0
            for j in range(n_ranked - 1):
                violation = sign * (row[order[j]] - row[order[j + 1]]) + margin
                if violation > 0.0:
                    loss += violation
                    to[order[j]] += sign
                    to[order[j + 1]] -= sign
            losses[i] = loss
        return G, losses

    return hinge
