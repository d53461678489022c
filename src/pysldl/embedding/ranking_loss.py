"""The ranking hinge over consecutive labels (Eq. 7)."""

import numpy as np
from numpy.typing import NDArray

from pysldl.backend.device import to_device
from pysldl.backend.ranking_hinge import ranking_hinge

__all__ = ["ConsecutiveHinge", "consecutive_violations"]


class ConsecutiveHinge:
    """``sum_j [D(i, j) - D(i, j+1) + margin]₊`` along each anchor's ranking, summed over the anchors.

    Parameters
    ----------
    ranking : ndarray of shape (n_anchors, n_ranked), int32
        Column indices of the divergence matrix, most related first.
    margin : float
        The paper's threshold tau.
    related_closer : bool
        True is the paper: the more related of two neighbors in the ranking has the smaller divergence.
        False is the sign of the authors' code, which asks for the opposite.
    """

    def __init__(self, ranking: NDArray[np.int32], margin: float, *, related_closer: bool = True) -> None:
        self._ranking = to_device(ranking)
        self._margin = margin
        self._sign = 1 if related_closer else -1

    def __call__(
        self,
        D: NDArray[np.float64],
        *,
        offset: NDArray[np.float64] | None = None,
        out: NDArray[np.float64] | None = None,
    ) -> tuple[float, NDArray[np.float64]]:
        """Loss, and its derivative by the (n_anchors, n_anchors) divergence matrix ``D``: integers from -1 to 1.

        ``offset`` and ``out`` are those of :func:`~pysldl.backend.ranking_hinge.ranking_hinge`.
        """
        return ranking_hinge(D, self._ranking, self._margin, self._sign, offset=offset, out=out)


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
