"""How many rows two labels share, and what that says about the candidates of a row."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import as_int32_indices, primitive

FEWEST_SHARED = 2  # rows: pairs of one row are most of all pairs, and say least
MOST_LABELS = 100  # of a row whose pairs are counted: of so many labels hardly one speaks for another
# Pairs kept: so many in any case, and so many a label. Rows with dozens of labels have far more of them.
KEPT_PAIRS, KEPT_PAIRS_OF_LABEL = 1 << 20, 32
PRODUCTS_AT_ONCE = 1 << 22
LOOKED_UP_AT_ONCE = 1 << 18
# Rows that have one of two labels alone, beside those that are counted: few rows prove little.
SMOOTHING = 5.0


def count_pairs(Y: sparse.csr_array, left_out: NDArray[np.integer] | None = None) -> sparse.csr_array:
    """Rows that have both of two labels, (n_labels, n_labels), float32, above the diagonal; ``left_out`` do not count.

    Pairs that only one row has are left out, and so are the pairs of rows with more than a hundred labels. Where more
    are left than a million and 32 for each label, as many rows are asked of a pair as that takes.
    """
    most, fewest = max(KEPT_PAIRS, KEPT_PAIRS_OF_LABEL * Y.shape[1]), FEWEST_SHARED
    lengths = np.diff(Y.indptr)
    counts = (lengths > 1) & (lengths <= MOST_LABELS)
    if left_out is not None:
        counts[left_out] = False
    rows = sparse.csr_array(Y[np.flatnonzero(counts)], dtype=np.float32)
    rows.data = np.ones(rows.nnz, dtype=np.float32)
    by_label = sparse.csr_array(rows.T)
    done = np.concatenate([[0], np.cumsum(by_label @ np.diff(rows.indptr).astype(np.float32), dtype=np.float64)])
    starts = np.unique(np.searchsorted(done, np.arange(0.0, max(done[-1], 1.0), PRODUCTS_AT_ONCE)))
    parts, n_pairs = [], 0
    for start, stop in zip(starts, np.append(starts[1:], Y.shape[1]), strict=True):
        parts.append(_common_pairs(by_label, rows, start, stop, fewest))
        n_pairs += parts[-1].nnz
        while n_pairs > most:  # a threshold that is only raised keeps the same pairs, whatever the parts are
            fewest += 1
            parts = [_shared_by(part, fewest) for part in parts]
            n_pairs = sum(part.nnz for part in parts)
    pairs = sparse.csr_array(sparse.vstack(parts, format="csr"), dtype=np.float32)
    pairs.sort_indices()
    return as_int32_indices(pairs)


def _common_pairs(
    by_label: sparse.csr_array, rows: sparse.csr_array, start: int, stop: int, fewest: int
) -> sparse.csr_array:
    """The pairs of some neighboring labels and later ones that at least ``fewest`` rows share."""
    shared = sparse.coo_array(by_label[start:stop] @ rows)
    return _kept(shared, (shared.col > shared.row + start) & (shared.data >= fewest))


def _shared_by(pairs: sparse.csr_array, fewest: int) -> sparse.csr_array:
    """The pairs that at least ``fewest`` rows share."""
    listed = pairs.tocoo()
    return _kept(listed, listed.data >= fewest)


def _kept(pairs: sparse.coo_array, chosen: NDArray[np.bool_]) -> sparse.csr_array:
    return sparse.csr_array((pairs.data[chosen], (pairs.row[chosen], pairs.col[chosen])), shape=pairs.shape)


@primitive(numba=True, single_row="numpy")
def pair_support(
    labels: NDArray[np.int32], scores: NDArray[np.float32], counts: NDArray[np.integer], pairs: sparse.csr_array
) -> NDArray[np.float32]:
    """How much the candidates of a row speak for each other, (n_rows, n_candidates, 2).

    First the sum, over the other candidates, of their score times the share of their training rows that has this
    label, too: how much they imply it. Then the sum of their score times the share of this label's rows that has
    theirs: how much it implies them.

    Parameters
    ----------
    labels, scores : ndarrays of shape (n_rows, n_candidates)
        Candidates, -1 for none.
    counts : ndarray of shape (n_labels,)
        Training rows of each label.
    pairs : csr_array of shape (n_labels, n_labels)
        See :func:`count_pairs`.
    """
    support = np.empty((*labels.shape, 2), dtype=np.float32)
    at_once = max(1, LOOKED_UP_AT_ONCE // max(labels.shape[1] ** 2, 1))
    for start in range(0, len(labels), at_once):
        part = slice(start, start + at_once)
        is_label = labels[part] >= 0
        own = np.where(is_label, labels[part], 0).astype(np.int64)
        asked = np.unique(own)
        known = pairs[asked]
        keys = np.repeat(asked, np.diff(known.indptr)) * pairs.shape[1] + known.indices
        values = np.append(known.data, np.float32(0))
        mine, other = own[:, :, None], own[:, None, :]
        wanted = np.minimum(mine, other) * pairs.shape[1] + np.maximum(mine, other)
        places = np.searchsorted(keys, wanted)
        is_pair = np.append(keys, -1)[places] == wanted
        is_pair &= is_label[:, :, None] & is_label[:, None, :]
        shared = np.where(is_pair, values[places], np.float32(0)).astype(np.float64)
        rows = counts[own] + SMOOTHING
        weights = np.where(is_label, scores[part], 0).astype(np.float64)[:, None, :]
        for side, of in enumerate((rows[:, None, :], rows[:, :, None])):
            # Summed one by one: NumPy's own order of a sum depends on the processor.
            support[part, :, side] = np.cumsum(weights * (shared / of), axis=2)[:, :, -1]
    return support
