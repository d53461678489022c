"""The training problems of the labels' classifiers: candidates of rows, grouped by label."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import primitive


class LabelProblems(NamedTuple):
    """The rows of every label: ``rows[indptr[l]:indptr[l + 1]]`` belong to label l.

    Row i stands there as ``i`` if it has the label, and as ``~i`` if not. ``late``, of the shape of ``rows``, marks
    those for which only held-out rows proposed the label; None: there are none.
    """

    indptr: NDArray[np.int64]
    rows: NDArray[np.int32]
    late: NDArray[np.bool_] | None = None


class HeldOutPairs(NamedTuple):
    """Pairs of a label and a row that join the second fit only: ``rows[indptr[l]:indptr[l + 1]]`` belong to label l.

    Each classifier is first fitted without held-out rows, scores them, and is then fitted to all. A pair joins late if
    its row is held out, or if only held-out rows proposed the label. ``waits`` marks these among the pairs of the
    problems; rows ascend within a label, and ``n_samples`` is the number of all rows.
    """

    waits: NDArray[np.bool_]
    indptr: NDArray[np.int64]
    rows: NDArray[np.int32]
    n_samples: int

    def places_of(self, labels: NDArray[np.integer], rows: NDArray[np.integer]) -> NDArray[np.intp]:
        """Where the pairs of a label and a row stand; all of them must be there."""
        n = self.n_samples
        keys = np.repeat(np.arange(len(self.indptr) - 1) * n, np.diff(self.indptr)) + self.rows
        wanted = labels.astype(np.int64) * n + rows
        order, places = np.argsort(wanted), np.empty(len(wanted), dtype=np.intp)
        places[order] = np.searchsorted(keys, wanted[order])  # in their order, a search reads what the last one read
        return places


@primitive(torch="arrays")
def held_out_pairs(
    problems: LabelProblems, n_samples: int, held_out: NDArray[np.integer] | None = None
) -> HeldOutPairs:
    """The pairs that join the second fit only; none where ``held_out`` is None."""
    if held_out is None:
        none = np.zeros(len(problems.rows), dtype=np.bool_)
        return HeldOutPairs(none, np.zeros_like(problems.indptr), np.zeros(0, dtype=np.int32), n_samples)
    is_held = np.zeros(n_samples, dtype=np.bool_)
    is_held[held_out] = True
    waits = is_held[_unsigned(problems.rows)]
    if problems.late is not None:
        waits |= problems.late
    places = np.flatnonzero(waits)
    return HeldOutPairs(waits, np.searchsorted(places, problems.indptr), _unsigned(problems.rows[places]), n_samples)


def label_problems(
    candidates: NDArray[np.int32],
    Y: sparse.csr_array,
    *,
    everywhere: NDArray[np.int32] | None = None,
    late: NDArray[np.int32] | None = None,
    left_out: NDArray[np.integer] | None = None,
) -> LabelProblems:
    """For every label its positives, the rows that have it, and its negatives, other rows of which it is a candidate.

    ``candidates`` are labels of every row from any number of sources, -1 for none; ``everywhere`` are candidates of
    every row; ``late`` those that held-out rows had a part in proposing. Rows of ``left_out`` take no part. Rows
    ascend within the positives and the negatives of a label.
    """
    everywhere = np.zeros(0, dtype=np.int32) if everywhere is None else everywhere
    kept = np.ones(Y.shape[0], dtype=np.bool_)
    if left_out is not None:
        kept[left_out] = False
    with_late = np.zeros((Y.shape[0], 0), dtype=np.int32) if late is None else late
    indptr, rows, is_late = group_rows_by_label(
        candidates, everywhere, with_late, Y.indptr, Y.indices, Y.shape[1], kept
    )
    return LabelProblems(indptr, rows, None if late is None else is_late)


def without_rows(problems: LabelProblems, rows: NDArray[np.integer], n_samples: int) -> LabelProblems:
    """The problems without some of their rows, and without pairs that only these had proposed."""
    stays = np.ones(n_samples, dtype=np.bool_)
    stays[rows] = False
    kept = stays[_unsigned(problems.rows)]
    if problems.late is not None:
        kept &= ~problems.late
    places = np.flatnonzero(kept)
    return LabelProblems(np.searchsorted(places, problems.indptr), problems.rows[places])


def _unsigned(rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """The numbers of rows that stand as ``i`` or as ``~i``."""
    return rows ^ (rows >> 31)


@primitive(numba=True, torch="arrays")
def group_rows_by_label(
    candidates: NDArray[np.int32],
    everywhere: NDArray[np.int32],
    late: NDArray[np.int32],
    indptr: NDArray[np.integer],
    indices: NDArray[np.integer],
    n_labels: int,
    kept: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]:
    """The arrays of :class:`LabelProblems`; ``indptr`` and ``indices`` are those of the label indicator."""
    n_rows = len(candidates)
    early = np.hstack([candidates, np.tile(everywhere, (n_rows, 1))])
    row = np.concatenate([
        np.repeat(np.arange(n_rows), np.diff(indptr)), np.nonzero(early >= 0)[0], np.nonzero(late >= 0)[0]
    ])  # fmt: skip
    label = np.concatenate([indices, early[early >= 0], late[late >= 0]]).astype(np.int64)
    _, first = np.unique(label * n_rows + row, return_index=True)  # where a row has the label, that comes first
    first = first[kept[row[first]]]
    counts = np.bincount(label[first], minlength=n_labels)
    signed = np.where(first < len(indices), row[first], ~row[first]).astype(np.int32)
    is_late = first >= len(row) - np.count_nonzero(late >= 0)
    return np.concatenate([[0], np.cumsum(counts)]), signed, is_late
