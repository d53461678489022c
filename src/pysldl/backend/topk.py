"""The k best labels of every row: the one place where the library ranks labels.

Ties go to the lower label index, so the same scores give the same ranking whether they come
dense or sparse, on every machine. No row is ever sorted as a whole: a partition finds each
row's k-th largest score, what reaches it is a candidate, and only k candidates are put in order.
"""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from pysldl.exceptions import DataError

# Scores handled at once: 2 MB in float64, so that a block and its temporaries stay in the cache.
_BLOCK_SIZE = 2**18

FEW_PLACES = 24  # of many rows, up to so many are found one by one in less time than sorting takes
MANY_ROWS = 16

TopK = tuple[NDArray[np.int64], NDArray[Any]]


def top_k(scores: Any, k: int) -> TopK:
    """The k best labels of every row of a dense or sparse score matrix, best first, of equals the lower; their scores.

    Of a sparse matrix only the stored entries can be picked. Where a row has no further label there are -1 and -inf.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from pysldl.backend.topk import top_k
    >>> labels, scores = top_k(csr_array([[0.0, 0.2, 0.9], [0.0, 0.0, 0.4]]), k=2)
    >>> labels
    array([[ 2,  1],
           [ 2, -1]])
    """
    return top_k_sparse(scores, k) if issparse(scores) else top_k_dense(scores, k)


def top_k_or_zero(scores: Any, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """As :func:`top_k`, with 0 beside a label of -1, in 32 bits each: what votes and sums of products are."""
    labels, best = top_k(scores, k)
    return labels.astype(np.int32), np.where(labels < 0, 0.0, best).astype(np.float32)


def top_k_listed(numbers: NDArray[Any], values: NDArray[Any], k: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The k largest values among a few that are listed for every row, largest first, of equals the first listed.

    ``numbers`` say what the values belong to, -1 for none; behind the last stand -1 and -inf.

    Examples
    --------
    >>> top_k_listed(np.array([[7, -1, 3]]), np.array([[0.5, 0.9, 0.5]]), 3)
    (array([[ 7,  3, -1]]), array([[ 0.5,  0.5, -inf]]))
    """
    values = np.where(numbers < 0, values.dtype.type(-np.inf), values)
    rows, order = np.arange(len(numbers))[:, None], places_of_largest(values, k)
    return numbers[rows, order], values[rows, order]


def top_k_of_listed(labels: NDArray[np.integer], scores: NDArray[np.floating], k: int) -> TopK:
    """:func:`top_k` of scores that are listed beside their labels (-1 for none), in any order, no label twice in a row.

    Examples
    --------
    >>> top_k_of_listed(np.array([[7, 3, -1]]), np.array([[0.5, 0.5, 0.9]], dtype=np.float32), 3)
    (array([[ 3,  7, -1]]), array([[ 0.5,  0.5, -inf]], dtype=float32))
    """
    check_k(k)
    if np.isnan(scores).any():
        row, slot = np.argwhere(np.isnan(scores))[0]
        raise _nan_error(row, labels[row, slot])
    rows, scores = np.arange(len(labels))[:, None], np.where(labels < 0, scores.dtype.type(-np.inf), scores)
    if len(labels) < MANY_ROWS:
        order = np.lexsort((labels, -scores), axis=1)[:, :k]
    else:
        ascending = np.argsort(labels, axis=1)
        order = ascending[rows, places_of_largest(scores[rows, ascending], k)]
    all_labels, all_best = _empty_result(len(labels), k, scores.dtype)
    found, best = all_labels[:, : order.shape[1]], all_best[:, : order.shape[1]]
    found[:], best[:] = labels[rows, order], scores[rows, order]
    found[best == -np.inf] = -1
    return all_labels, all_best


def places_of_largest(values: NDArray[np.floating], k: int) -> NDArray[np.intp]:
    """Places of the k largest values of every row, largest first, of equals the first; all, where there are fewer.

    Examples
    --------
    >>> places_of_largest(np.array([[0.5, 0.9, 0.5]]), 2)
    array([[1, 0]])
    """
    n_rows, n_listed = values.shape
    k = min(k, n_listed)
    if k > FEW_PLACES or n_rows < MANY_ROWS:
        return np.argsort(-values, axis=1, kind="stable")[:, :k]
    # What was taken is below all that is left, and -inf among them.
    left, rows = np.maximum(values, np.finfo(values.dtype).min), np.arange(n_rows)
    places = np.empty((n_rows, k), dtype=np.intp)
    for at in range(k):
        places[:, at] = left.argmax(axis=1)
        left[rows, places[:, at]] = -np.inf
    return places


def drop_duplicates(listed: NDArray[Any]) -> NDArray[Any]:
    """Lists of shape (n_rows, m), from any number of sources side by side, with -1 in place of every repetition.

    Examples
    --------
    >>> drop_duplicates(np.array([[3, 1, 3, -1, 1]]))
    array([[ 3,  1, -1, -1, -1]])
    """
    rows, order = np.arange(len(listed))[:, None], np.argsort(listed, axis=1, kind="stable")
    ascending = listed[rows, order]
    repeated = np.zeros(listed.shape, dtype=np.bool_)
    repeated[rows, order[:, 1:]] = ascending[:, 1:] == ascending[:, :-1]
    return np.where(repeated, listed.dtype.type(-1), listed)


def top_k_dense(scores: ArrayLike, k: int) -> TopK:
    """:func:`top_k` of a dense score matrix, of shape (n_samples, n_labels); an entry of -inf is never picked."""
    dense = np.asarray(scores)
    _check_request(dense, k)
    n_rows, n_labels = dense.shape
    labels, best = _empty_result(n_rows, k, dense.dtype)

    rows_at_once = max(1, _BLOCK_SIZE // max(n_labels, 1))
    for start in range(0, n_rows, rows_at_once):
        rows = slice(start, start + rows_at_once)
        block = dense[rows].astype(best.dtype, copy=False)
        if np.isnan(block).any():
            row, label = np.argwhere(np.isnan(block))[0]
            raise _nan_error(start + row, label)
        kth = _kth_largest(block, k)
        row, label = np.nonzero((block >= kth[:, None]) & (block > -np.inf))
        labels[rows], best[rows] = _order(row, label, block[row, label], kth, k)
    return labels, best


def top_k_sparse(scores: Any, k: int) -> TopK:
    """:func:`top_k` of a sparse score matrix, of shape (n_samples, n_labels).

    Stored entries are the candidates, negative ones and stored zeros among them; what is not stored is never picked.
    Memory beyond the result is bounded by a block of 2^18 scores, or by the longest row where that is longer.
    """
    _check_request(scores, k)
    sparse = scores if isinstance(scores, csr_array) else csr_array(scores)
    labels, best = _empty_result(sparse.shape[0], k, sparse.dtype)
    if sparse.shape[0] == 1 and sparse.has_sorted_indices and sparse.has_canonical_format:
        return _top_k_of_one(sparse, labels, best)

    # Longest rows first: the rows of a block then have similar lengths and little is padded.
    lengths = np.diff(sparse.indptr)
    by_length = np.argsort(-lengths, kind="stable")
    start = 0
    while start < by_length.size:
        longest = lengths[by_length[start]]
        if longest == 0:
            break
        rows = by_length[start : start + max(1, _BLOCK_SIZE // longest)]
        labels[rows], best[rows] = _top_k_of_rows(sparse, rows, k, best.dtype)
        start += rows.size
    return labels, best


def _top_k_of_one(sparse: Any, labels: NDArray[np.int64], best: NDArray[Any]) -> TopK:
    """Fill in the result of a single row, without padding a block: services predict row by row."""
    k = labels.shape[1]
    label, value = sparse.indices, sparse.data.astype(best.dtype, copy=False)
    if np.isnan(value).any():
        raise _nan_error(0, label[np.argmax(np.isnan(value))])
    if value.size > k:
        reached = value >= np.partition(value, value.size - k)[value.size - k]
        label, value = label[reached], value[reached]
    order = np.argsort(-value, kind="stable")[:k]
    order = order[value[order] > -np.inf]
    labels[0, : order.size], best[0, : order.size] = label[order], value[order]
    return labels, best


def _top_k_of_rows(sparse: Any, rows: NDArray[np.intp], k: int, dtype: np.dtype[Any]) -> TopK:
    """Pad the chosen rows of a CSR array to the longest of them, and pick their k best."""
    block = sparse[rows]
    block.sum_duplicates()  # products of sparse matrices come unsorted; the block is a copy
    value = block.data.astype(dtype, copy=False)
    lengths = np.diff(block.indptr)
    row = np.repeat(np.arange(rows.size), lengths)
    if np.isnan(value).any():
        first = np.argmax(np.isnan(value))
        raise _nan_error(rows[row[first]], block.indices[first])

    padded = np.full((rows.size, lengths.max()), -np.inf, dtype=dtype)
    padded[row, np.arange(value.size) - block.indptr[row]] = value
    kth = _kth_largest(padded, k)
    candidate = (value >= kth[row]) & (value > -np.inf)
    return _order(row[candidate], block.indices[candidate], value[candidate], kth, k)


def _kth_largest(block: NDArray[Any], k: int) -> NDArray[Any]:
    """Return the k-th largest value of each row, -inf where a row has no more than k."""
    n_rows, width = block.shape
    if width <= k:
        return np.full(n_rows, -np.inf, dtype=block.dtype)
    return np.partition(block, width - k, axis=1)[:, width - k]


def _order(row: NDArray[Any], label: NDArray[Any], value: NDArray[Any], kth: NDArray[Any], k: int) -> TopK:
    """Lay out the candidates of all rows as (n_rows, k), best first, lower label first on ties.

    The candidates come row by row with ascending labels: everything above the row's k-th value
    and everything equal to it, which may be more than fit.
    """
    n_rows = kth.size
    if row.size and np.bincount(row).max() > k:
        tied = value == kth[row]
        room = k - np.bincount(row[~tied], minlength=n_rows)
        ties_so_far = np.cumsum(tied)
        ties_before_row = np.append(0, ties_so_far)[np.searchsorted(row, np.arange(n_rows))]
        fits = ~tied | (ties_so_far - ties_before_row[row] <= room[row])
        row, label, value = row[fits], label[fits], value[fits]

    labels, best = _empty_result(n_rows, k, value.dtype)
    slot = np.arange(row.size) - np.searchsorted(row, np.arange(n_rows))[row]
    labels[row, slot] = label
    best[row, slot] = value
    order = np.argsort(-best, axis=1, kind="stable")
    return np.take_along_axis(labels, order, axis=1), np.take_along_axis(best, order, axis=1)


def _empty_result(n_rows: int, k: int, dtype: np.dtype[Any]) -> TopK:
    """Return the result in which no row has a label; whole numbers are ranked as float64."""
    floating = dtype if dtype.kind == "f" else np.dtype(np.float64)
    return np.full((n_rows, k), -1, dtype=np.int64), np.full((n_rows, k), -np.inf, dtype=floating)


def check_k(k: int) -> None:
    """Refuse a number of labels a row that is not a whole number of at least 1."""
    if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
        raise DataError(f"k must be a whole number of at least 1, got {k!r}.")


def _check_request(scores: Any, k: int) -> None:
    check_k(k)
    if scores.ndim != 2:
        raise DataError(f"scores must have shape (n_samples, n_labels), got shape {scores.shape}.")
    if scores.dtype.kind not in "biuf":
        raise DataError(f"scores must be real numbers, got dtype {scores.dtype}.")


def _nan_error(row: Any, label: Any) -> DataError:
    return DataError(f"scores contain NaN (row {row}, label {label}); replace it, or use -inf for 'never'.")
