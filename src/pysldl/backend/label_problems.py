"""Candidates of rows, turned round: the rows of every label's classifier."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import primitive

__all__ = ["LabelProblems", "label_problems"]


class LabelProblems(NamedTuple):
    """The rows of every label: ``rows[indptr[l]:indptr[l + 1]]`` belong to label l.

    Row i stands there as ``i`` if it has the label, and as ``~i`` if not.
    """

    indptr: NDArray[np.int64]
    rows: NDArray[np.int32]


def label_problems(
    candidates: NDArray[np.int32],
    Y: sparse.csr_array,
    *,
    everywhere: NDArray[np.int32] | None = None,
    left_out: NDArray[np.integer] | None = None,
) -> LabelProblems:
    """The rows that have a label, and the rows that were offered it and do not have it, both ascending.

    Parameters
    ----------
    candidates : ndarray of shape (n_samples, m), int32
        Labels of every row, from any number of sources; -1 for none.
    Y : csr_array of shape (n_samples, n_labels)
    everywhere : ndarray of int32, optional
        Labels that every row is offered.
    left_out : array of int, optional
        Rows that take no part.
    """
    everywhere = np.zeros(0, dtype=np.int32) if everywhere is None else everywhere
    kept = np.ones(Y.shape[0], dtype=np.bool_)
    if left_out is not None:
        kept[left_out] = False
    return LabelProblems(*group_rows_by_label(candidates, everywhere, Y.indptr, Y.indices, Y.shape[1], kept))


@primitive(numba=True)
def group_rows_by_label(
    candidates: NDArray[np.int32],
    everywhere: NDArray[np.int32],
    indptr: NDArray[np.integer],
    indices: NDArray[np.integer],
    n_labels: int,
    kept: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The arrays of :class:`LabelProblems`; ``indptr`` and ``indices`` are those of the label indicator."""
    n_rows = len(candidates)
    candidates = np.hstack([candidates, np.tile(everywhere, (n_rows, 1))])
    offered = candidates >= 0
    row = np.concatenate([np.repeat(np.arange(n_rows), np.diff(indptr)), np.nonzero(offered)[0]])
    label = np.concatenate([indices, candidates[offered]]).astype(np.int64)
    _, first = np.unique(label * n_rows + row, return_index=True)  # where a row has the label, that comes first
    first = first[kept[row[first]]]
    counts = np.bincount(label[first], minlength=n_labels)
    signed = np.where(first < len(indices), row[first], ~row[first]).astype(np.int32)
    return np.concatenate([[0], np.cumsum(counts)]), signed
