"""Predicted labels held against the true ones: what every metric is computed from."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from pysldl.exceptions import DataError
from pysldl.metrics.topk import top_k, top_k_sparse

__all__ = ["Ranking", "compare", "hits_of", "label_weights", "predicted_labels", "without_labels"]


@dataclass(frozen=True)
class Ranking:
    """The predicted labels of n rows held against the truth; `width` is the largest k asked for."""

    hits: NDArray[np.bool_]  # (n, width)
    n_true: NDArray[np.int64]  # (n,)
    hit_weights: NDArray[np.float64] | None = None  # (n, width), 0 where no hit
    ideal_weights: NDArray[np.float64] | None = None  # (n, width), descending, 0 beyond n_true


def compare(truth: Any, labels: NDArray[np.int64], weights: NDArray[np.float64] | None) -> Ranking:
    """Compare predicted labels (n, k) with the true ones."""
    hits, n_true = hits_of(labels, truth), np.diff(truth.indptr).astype(np.int64)
    if weights is None:
        return Ranking(hits, n_true)

    weighted_truth = csr_array((weights[truth.indices], truth.indices, truth.indptr), shape=truth.shape)
    ideal_weights = top_k_sparse(weighted_truth, labels.shape[1])[1]
    ideal_weights[np.isneginf(ideal_weights)] = 0.0
    return Ranking(hits, n_true, np.where(hits, weights[labels], 0.0), ideal_weights)


def hits_of(labels: NDArray[np.int64], Y: csr_array) -> NDArray[np.bool_]:
    """Whether each predicted label is a true one.

    Parameters
    ----------
    labels : ndarray of shape (n_rows, k)
        Label indices; -1 where there is none.
    Y : csr_array of shape (n_rows, n_labels)
        Indicator in canonical form: its entries, numbered row by row, ascend, so that a binary search finds each label.

    Returns
    -------
    ndarray of shape (n_rows, k), bool
    """
    n_rows, n_labels = Y.shape
    row = np.arange(n_rows, dtype=np.int64)
    entries = np.repeat(row * n_labels, np.diff(Y.indptr)) + Y.indices
    wanted = row[:, None] * n_labels + labels
    found = np.append(entries, -1)[np.searchsorted(entries, wanted)] == wanted
    return np.asarray(found & (labels >= 0))


def predicted_labels(predictions: Any, shape: tuple[int, int], k: int) -> NDArray[np.int64]:
    """Return the first k predicted labels of every row, (n, k), from any accepted form."""
    labels = predictions
    if isinstance(predictions, tuple):
        if len(predictions) != 2:
            raise DataError(f"predictions must be the pair (labels, scores), got {len(predictions)} items.")
        labels, scores = np.asarray(predictions[0]), np.asarray(predictions[1])
        if labels.shape != scores.shape:
            raise DataError(f"predicted labels {labels.shape} and scores {scores.shape} differ in shape.")
        if labels.dtype.kind not in "iu":
            raise DataError(f"predicted labels must be integers, got dtype {labels.dtype}.")
    elif not issparse(predictions):
        try:
            labels = np.asarray(predictions)
        except ValueError as error:
            raise DataError("predictions differ in length: fill unused slots with -1.") from error

    if issparse(labels) or labels.dtype.kind == "f":
        if labels.shape != shape:
            raise DataError(f"predicted scores have shape {labels.shape}, Y_true has {shape}: they must be the same.")
        return top_k(labels, k)[0]
    if labels.dtype.kind not in "iu":
        raise DataError(f"predictions must be integer labels or floating-point scores, got dtype {labels.dtype}.")
    return _checked_labels(labels, shape, k)


def _checked_labels(labels: NDArray[Any], shape: tuple[int, int], k: int) -> NDArray[np.int64]:
    """Return the first k columns of a top-k label array, with -1 in slots it does not have."""
    n_samples, n_labels = shape
    if labels.ndim != 2 or labels.shape[0] != n_samples:
        raise DataError(
            f"predicted labels must have shape ({n_samples}, k), one row for each of Y_true, got {labels.shape}."
        )
    # An array narrower than k would silently score as if the method had nothing more to say.
    if labels.shape[1] < min(k, n_labels):
        raise DataError(
            f"predictions hold {labels.shape[1]} labels a row, too few for k = {k}: "
            "predict more, or fill unused slots with -1."
        )
    first = np.full((n_samples, k), -1, dtype=np.int64)
    first[:, : labels.shape[1]] = labels[:, :k]
    outside = (first < -1) | (first >= n_labels)
    if outside.any():
        row, slot = np.argwhere(outside)[0]
        raise DataError(
            f"predicted label {first[row, slot]} in row {row} is out of range: "
            f"labels are 0 to {n_labels - 1}, and -1 for none."
        )
    ordered = np.sort(first, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if twice.any():
        row, slot = np.argwhere(twice)[0]
        raise DataError(f"predicted label {ordered[row, slot]} occurs twice in row {row}.")
    return first


def without_labels(truth: Any, ignore_labels: ArrayLike) -> Any:
    """Return `truth` without the entries of the ignored columns, in the same shape."""
    n_labels = truth.shape[1]
    columns = np.asarray(ignore_labels).ravel()  # column sums of a csr_matrix have shape (1, n_labels)
    if columns.dtype.kind == "b":
        if columns.shape != (n_labels,):
            raise DataError(f"ignore_labels as a mask must have shape ({n_labels},), got {columns.shape}.")
        ignored = columns[truth.indices]
    else:
        if columns.size and columns.dtype.kind not in "iu":
            raise DataError("ignore_labels must be a boolean mask or a list of column numbers.")
        if columns.size and not (columns.min() >= 0 and columns.max() < n_labels):
            raise DataError(f"ignore_labels must name columns 0 to {n_labels - 1}.")
        ignored = np.isin(truth.indices, columns)
    kept_before = np.append(0, np.cumsum(~ignored))
    kept = (truth.data[~ignored], truth.indices[~ignored], kept_before[truth.indptr])
    return csr_array(kept, shape=truth.shape)


def label_weights(inv_propensity: ArrayLike, n_labels: int) -> NDArray[np.float64]:
    """Return inverse propensities as checked float64 weights, one a label."""
    weights = np.asarray(inv_propensity, dtype=np.float64)
    if weights.shape != (n_labels,):
        raise DataError(f"inv_propensity must have shape ({n_labels},), got {weights.shape}.")
    if not (np.isfinite(weights) & (weights > 0)).all():
        raise DataError("inv_propensity must be finite and positive.")
    return weights
