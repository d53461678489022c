"""Folds for cross-validation in which every label keeps its share of rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.exceptions import DataError
from pysldl.preprocessing.labels import as_indicator

__all__ = ["stratified_folds"]


def stratified_folds(Y: Any, n_folds: int = 10, *, random_state: int = 0) -> NDArray[np.int64]:
    """Assign every row to a fold by iterative stratification [1]_.

    The labels are taken from the rarest to the most frequent. Each row of a label goes to the fold that lacks most rows
    of that label; ties go to the fold that lacks most rows of any kind, and further ties are drawn.

    Parameters
    ----------
    Y : array-like or sparse of shape (n_samples, n_labels)
        Label indicator, zeros and ones.
    n_folds : int
        At least 2.
    random_state : int
        Seed of the order of the rows and of the draws.

    Returns
    -------
    ndarray of shape (n_samples,), int64
        The fold of every row, from 0.

    References
    ----------
    .. [1] K. Sechidis, G. Tsoumakas, I. Vlahavas, "On the Stratification of Multi-Label Data", ECML PKDD 2011.

    Examples
    --------
    >>> from pysldl.datasets import stratified_folds
    >>> folds = stratified_folds([[1, 0], [1, 0], [0, 1], [0, 1]], n_folds=2)
    >>> sorted(folds[:2].tolist()), sorted(folds[2:].tolist())
    ([0, 1], [0, 1])
    """
    if n_folds < 2:
        raise DataError(f"n_folds must be at least 2, but is {n_folds}.")
    Y = as_indicator(Y)
    rng = np.random.RandomState(random_state)
    n_samples, n_labels = Y.shape
    rows_of_label = sparse.csc_array(Y)
    left = np.bincount(Y.indices, minlength=n_labels)
    lacking = np.tile(left / n_folds, (n_folds, 1))
    room = np.full(n_folds, n_samples / n_folds)
    fold = np.full(n_samples, -1, dtype=np.int64)

    def assign(row: int, wanted: NDArray[np.float64]) -> None:
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
            assign(int(row), lacking[:, label])
    for row in rng.permutation(np.flatnonzero(fold < 0)):  # rows without labels even the sizes out
        assign(int(row), room)
    return fold
