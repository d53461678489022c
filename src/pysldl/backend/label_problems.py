"""Candidates of rows, turned round: the rows of every label's classifier."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import primitive

__all__ = ["HeldPairs", "LabelProblems", "held_pairs", "label_problems", "without_rows"]


class LabelProblems(NamedTuple):
    """The rows of every label: ``rows[indptr[l]:indptr[l + 1]]`` belong to label l.

    Row i stands there as ``i`` if it has the label, and as ``~i`` if not.
    """

    indptr: NDArray[np.int64]
    rows: NDArray[np.int32]


class HeldPairs(NamedTuple):
    """The pairs of a label and a row held out: ``rows[indptr[l]:indptr[l + 1]]`` belong to label l, ascending.

    ``is_held``, of shape (n_samples,), tells which rows they are.
    """

    is_held: NDArray[np.bool_]
    indptr: NDArray[np.int64]
    rows: NDArray[np.int32]

    def places_of(self, labels: NDArray[np.integer], rows: NDArray[np.integer]) -> NDArray[np.intp]:
        """Where the pairs of a label and a row stand; all of them must be there."""
        n = len(self.is_held)
        keys = np.repeat(np.arange(len(self.indptr) - 1) * n, np.diff(self.indptr)) + self.rows
        return np.searchsorted(keys, labels.astype(np.int64) * n + rows)


def held_pairs(problems: LabelProblems, n_samples: int, held_out: NDArray[np.integer] | None = None) -> HeldPairs:
    """Those of the labels' rows that are held out: none where ``held_out`` is None."""
    is_held = np.zeros(n_samples, dtype=np.bool_)
    if held_out is None:
        return HeldPairs(is_held, np.zeros_like(problems.indptr), np.zeros(0, dtype=np.int32))
    is_held[held_out] = True
    rows = np.where(problems.rows >= 0, problems.rows, ~problems.rows)
    places = np.flatnonzero(is_held[rows])
    return HeldPairs(is_held, np.searchsorted(places, problems.indptr), rows[places])


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


def without_rows(problems: LabelProblems, rows: NDArray[np.integer], n_samples: int) -> LabelProblems:
    """The problems without some of their rows."""
    is_out = np.zeros(n_samples, dtype=np.bool_)
    is_out[rows] = True
    kept = ~is_out[np.where(problems.rows >= 0, problems.rows, ~problems.rows)]
    return LabelProblems(np.concatenate([[0], np.cumsum(kept)])[problems.indptr], problems.rows[kept])


@primitive(numba=True, torch="arrays")
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
