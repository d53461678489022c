"""Folds for cross-validation, and parts for training and testing, in which every label keeps its share of rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.exceptions import DataError
from pysldl.preprocessing.labels import encode_labels


def stratified_folds(Y: Any, n_folds: int = 10, *, random_state: int = 0) -> NDArray[np.int64]:
    """Assign every row to a fold by iterative stratification [1]_.

    The labels are taken from the rarest to the most frequent. Each row of a label goes to the fold that lacks most rows
    of that label; ties go to the fold that lacks most rows of any kind, and further ties are drawn.

    Parameters
    ----------
    Y : indicator of shape (n_samples, n_labels), or rows of label names
        In any form that :meth:`pysldl.SLDLClassifier.fit` takes.
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
    Y = encode_labels(Y).Y
    return _parts(Y, np.full(n_folds, n_folds), np.random.RandomState(random_state))


def stratified_split(
    Y: Any, test_size: float = 0.1, *, random_state: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split rows into a training and a test part in which every label keeps its share, by iterative stratification.

    A label with a single row goes to the larger part, so that tests do not ask for what cannot have been learned.

    Parameters
    ----------
    Y : indicator of shape (n_samples, n_labels), or rows of label names
        In any form that :meth:`pysldl.SLDLClassifier.fit` takes.
    test_size : float
        Share of the rows that are tested, between 0 and 1.
    random_state : int
        Seed of the order of the rows and of the draws.

    Returns
    -------
    train, test : ndarrays of int64
        Row numbers, ascending.

    Examples
    --------
    >>> from pysldl.datasets import stratified_split
    >>> train, test = stratified_split([["sky"], ["sky"], ["sea"], ["sea"]], test_size=0.5)
    >>> len(train), len(test)
    (2, 2)
    """
    if not 0 < test_size < 1:
        raise DataError(f"test_size must lie between 0 and 1, but is {test_size}.")
    shares = np.array([1 - test_size, test_size])
    part = _parts(encode_labels(Y).Y, 1 / shares, np.random.RandomState(random_state))
    for number, name in enumerate(("train", "test")):
        if not (part == number).any():
            raise DataError(f"test_size={test_size}: no row is left to {name} on, there are only {len(part)}.")
    return np.flatnonzero(part == 0), np.flatnonzero(part == 1)


def _parts(Y: sparse.csr_array, divisors: NDArray[Any], rng: np.random.RandomState) -> NDArray[np.int64]:
    """Part of every row, (n_samples,); part i should have ``1 / divisors[i]`` of the rows, of all and of each label."""
    n_samples, n_labels = Y.shape
    rows_of_label = sparse.csc_array(Y)
    left = np.bincount(Y.indices, minlength=n_labels)
    lacking = left / divisors[:, None]
    room = n_samples / divisors
    part = np.full(n_samples, -1, dtype=np.int64)

    def assign(row: int, wanted: NDArray[np.float64]) -> None:
        best = np.flatnonzero(wanted == wanted.max())
        best = best[room[best] == room[best].max()]
        chosen = best[0] if len(best) == 1 else rng.choice(best)
        labels = Y.indices[Y.indptr[row] : Y.indptr[row + 1]]
        part[row] = chosen
        lacking[chosen, labels] -= 1
        room[chosen] -= 1
        left[labels] -= 1

    while left.any():
        label = int(np.argmin(np.where(left > 0, left, n_samples + 1)))
        rows = rows_of_label.indices[rows_of_label.indptr[label] : rows_of_label.indptr[label + 1]]
        for row in rng.permutation(rows[part[rows] < 0]):
            assign(int(row), lacking[:, label])
    for row in rng.permutation(np.flatnonzero(part < 0)):  # rows without labels even the sizes out
        assign(int(row), room)
    return part
