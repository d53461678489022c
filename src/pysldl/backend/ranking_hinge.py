"""The hinge over consecutive labels of rankings (Eq. 7): of all labels for every anchor, and of short lists."""

import numpy as np
from numpy.typing import NDArray

from pysldl.backend.dispatch import primitive

__all__ = ["consecutive_violations", "ranking_hinge"]


@primitive(numba=True, torch="tensors")
def ranking_hinge(
    D: NDArray[np.float64],
    ranking: NDArray[np.int32],
    margin: float,
    sign: int = 1,
    *,
    offset: NDArray[np.float64] | None = None,
    out: NDArray[np.float64] | None = None,
) -> tuple[float, NDArray[np.float64]]:
    """``sum_j [sign (D(i, j) - D(i, j+1)) + margin]₊`` along the ranking of every row, summed over the rows.

    Parameters
    ----------
    D : ndarray of shape (n_rows, n_labels), float64
    ranking : ndarray of shape (n_rows, n_ranked), int32
        Columns of ``D``, each at most once, in the order in which they should come.
    margin : float
    sign : {1, -1}
        -1 asks for the opposite order.
    offset : ndarray of shape (n_labels,), optional
        Added to every row of ``D`` on the fly.
    out : ndarray of shape (n_rows, n_labels), float64, optional
        For the derivative. Columns that a row does not rank must be 0.

    Returns
    -------
    loss : float
    G : ndarray of shape (n_rows, n_labels), float64
        The derivative with respect to ``D``: 1, 0 or -1.
    """
    G = np.zeros(D.shape) if out is None else out
    ranked = np.take_along_axis(D if offset is None else D + offset, ranking, axis=1)
    violation = sign * (ranked[:, :-1] - ranked[:, 1:]) + margin
    np.maximum(violation, 0.0, out=violation)
    active = np.zeros((ranking.shape[0], ranking.shape[1] + 1))
    np.greater(violation, 0.0, out=active[:, 1:-1], casting="unsafe")
    np.put_along_axis(G, ranking, sign * (active[:, 1:] - active[:, :-1]), axis=1)
    return float(violation.sum()), G


def consecutive_violations(
    ranked: NDArray[np.floating], margin: float, there: NDArray[np.bool_]
) -> tuple[float, NDArray[np.int8]]:
    """The hinge of short lists, and its derivative by their divergences: 1, 0 or -1, as int8.

    ``ranked``, of shape (n_anchors, n_ranked), holds the divergences of each anchor to its labels, most related first;
    ``there``, of the same shape, is False behind the end of a shorter list.
    """
    violation = ranked[:, :-1] - ranked[:, 1:]
    violation += ranked.dtype.type(margin)
    np.maximum(violation, 0, out=violation)
    violation *= there[:, 1:]
    active = np.zeros((ranked.shape[0], ranked.shape[1] + 1), dtype=np.int8)
    np.greater(violation, 0, out=active[:, 1:-1], casting="unsafe")
    return float(violation.sum(dtype=np.float64)), active[:, 1:] - active[:, :-1]
