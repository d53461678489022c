"""Candidates of rows, turned round: the rows of every label's classifier."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import has_numba

__all__ = ["LabelProblems", "drop_duplicates", "label_problems"]


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
    if has_numba():
        return LabelProblems(*_compiled_turn()(candidates, everywhere, Y.indptr, Y.indices, Y.shape[1], kept))
    candidates = np.hstack([candidates, np.tile(everywhere, (len(candidates), 1))])
    offered = candidates >= 0
    row = np.concatenate([np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr)), np.nonzero(offered)[0]])
    label = np.concatenate([Y.indices, candidates[offered]]).astype(np.int64)
    _, first = np.unique(label * Y.shape[0] + row, return_index=True)  # where a row has the label, that comes first
    first = first[kept[row[first]]]
    counts = np.bincount(label[first], minlength=Y.shape[1])
    signed = np.where(first < Y.nnz, row[first], ~row[first]).astype(np.int32)
    return LabelProblems(np.concatenate([[0], np.cumsum(counts)]), signed)


def drop_duplicates(candidates: NDArray[np.int32]) -> NDArray[np.int32]:
    """Candidates of shape (n_rows, m) with -1 in place of every repetition within a row."""
    order = np.argsort(candidates, axis=1, kind="stable")
    ascending = np.take_along_axis(candidates, order, axis=1)
    repeated = np.zeros(candidates.shape, dtype=np.bool_)
    np.put_along_axis(repeated, order[:, 1:], ascending[:, 1:] == ascending[:, :-1], axis=1)
    return np.where(repeated, np.int32(-1), candidates)


@cache
def _compiled_turn() -> Any:
    from numba import njit

    @njit(nogil=True, cache=True)
    def turn(candidates, everywhere, yp, yi, n_labels, kept):  # type: ignore[no-untyped-def]
        n_samples, m = candidates.shape
        indptr = np.zeros(n_labels + 1, np.int64)
        place = np.zeros(0, np.int64)
        rows = np.zeros(0, np.int32)
        seen = np.empty(n_labels, np.int32)  # the last row that met the label
        for counting in (True, False):
            seen[:] = -1
            for row in range(n_samples):
                if not kept[row]:
                    continue
                for at in range(yp[row], yp[row + 1]):
                    label = yi[at]
                    seen[label] = row
                    if counting:
                        indptr[label + 1] += 1
                    else:
                        rows[place[label]] = row
                        place[label] += 1
                for slot in range(m + len(everywhere)):
                    label = candidates[row, slot] if slot < m else everywhere[slot - m]
                    if label < 0 or seen[label] == row:
                        continue
                    seen[label] = row
                    if counting:
                        indptr[label + 1] += 1
                    else:
                        rows[place[label]] = ~row
                        place[label] += 1
            if counting:
                indptr = np.cumsum(indptr)
                place = indptr[:-1].copy()
                rows = np.empty(indptr[-1], np.int32)
        return indptr, rows

    return turn
