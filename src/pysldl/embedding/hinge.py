"""The ranking hinge over consecutive labels (Eq. 7)."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["ConsecutiveHinge"]


class ConsecutiveHinge:
    """``sum_j [D(i, j) - D(i, j+1) + margin]₊`` along each anchor's ranking, averaged over the anchors.

    Parameters
    ----------
    ranking : ndarray of shape (n_anchors, n_ranked), int32
        Column indices of the divergence matrix, most related first.
    margin : float
        The paper's threshold tau.
    related_closer : bool
        True is the paper: the more related of two neighbours in the ranking has the smaller divergence.
        False is the sign of the authors' code, which asks for the opposite.
    """

    def __init__(self, ranking: NDArray[np.int32], margin: float, *, related_closer: bool = True) -> None:
        n_anchors, _ = ranking.shape
        rows = np.arange(n_anchors, dtype=np.intp)[:, None]
        self._flat = ranking + rows * n_anchors
        self._margin = margin
        self._sign = 1 if related_closer else -1

    def __call__(self, D: NDArray[np.floating]) -> tuple[float, NDArray[np.floating]]:
        """Loss, and its derivative with respect to the (n_anchors, n_anchors) divergence matrix ``D``."""
        n_anchors = D.shape[0]
        ranked = np.take(D.ravel(), self._flat, mode="clip")
        violation = ranked[:, :-1] - ranked[:, 1:]
        violation *= self._sign
        violation += D.dtype.type(self._margin)
        np.maximum(violation, 0, out=violation)
        loss = float(violation.sum(dtype=np.float64)) / n_anchors

        # A label is pulled in by the pair it leads and pushed out by the pair it trails.
        active = np.zeros((n_anchors, ranked.shape[1] + 1), dtype=np.int8)
        np.greater(violation, 0, out=active[:, 1:-1], casting="unsafe")
        pull = active[:, 1:] - active[:, :-1]
        G = np.zeros_like(D)
        G.ravel()[self._flat] = pull * D.dtype.type(self._sign / n_anchors)
        return loss, G
