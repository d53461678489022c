"""Folds in which every label keeps its share of rows.

References
----------
.. [1] K. Sechidis, G. Tsoumakas, I. Vlahavas, "On the Stratification of Multi-Label Data", ECML PKDD 2011.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["iterative_stratification"]


def iterative_stratification(Y: sparse.csr_array, n_folds: int, seed: int) -> NDArray[np.int64]:
    """Deal rows to folds label by label, the rarest label first.

    Each row of that label goes to the fold that lacks the label most; ties go to the fold that lacks rows most, and
    further ties are drawn.

    Parameters
    ----------
    Y : csr_array of shape (n_samples, n_labels)
    n_folds, seed : int

    Returns
    -------
    ndarray of shape (n_samples,)
        The fold of every row.
    """
    rng = np.random.RandomState(seed)
    n_samples, n_labels = Y.shape
    rows_of_label = sparse.csc_array(Y)
    left = np.bincount(Y.indices, minlength=n_labels)
    lacking = np.tile(left / n_folds, (n_folds, 1))
    room = np.full(n_folds, n_samples / n_folds)
    fold = np.full(n_samples, -1, dtype=np.int64)

    def deal(row: int, wanted: NDArray[np.float64]) -> None:
        best = np.flatnonzero(wanted == wanted.max())
        best = best[room[best] == room[best].max()]
        chosen = best[0] if len(best) == 1 else rng.choice(best)
        labels = Y.indices[Y.indptr[row] : Y.indptr[row + 1]]
        fold[row] = chosen
        lacking[chosen, labels] -= 1
        room[chosen] -= 1
        left[labels] -= 1

    while left.any():
        label = int(np.argmin(np.where(left > 0, left, n_samples + 1)))
        rows = rows_of_label.indices[rows_of_label.indptr[label] : rows_of_label.indptr[label + 1]]
        for row in rng.permutation(rows[fold[rows] < 0]):
            deal(int(row), lacking[:, label])
    for row in rng.permutation(np.flatnonzero(fold < 0)):  # rows without labels even the sizes out
        deal(int(row), room)
    return fold
