r"""Ranking metrics of the k best labels of every row.

Let :math:`h_{ir}` be 1 if the r-th predicted label of row i is a true one, :math:`|y_i|` the number
of true labels, :math:`w` the inverse propensities, :math:`w^*_{ir}` those of the row's true labels in
descending order, :math:`G_m = \sum_{r \le m} 1 / \log_2(r + 1)` and
:math:`D_i = G_{\min(|y_i|, k)}`. Over M rows,

.. math::
    \mathrm{P@}k &= \tfrac1M \sum_i \tfrac1k \sum_{r \le k} h_{ir} \\
    \mathrm{nDCG@}k &= \tfrac1M \sum_i \tfrac1{D_i} \sum_{r \le k} h_{ir} / \log_2(r + 1) \\
    \mathrm{R@}k &= \tfrac1M \sum_i \tfrac1{\max(|y_i|, 1)} \sum_{r \le k} h_{ir} \\
    \mathrm{PSP@}k &= \sum_i \sum_{r \le k} w\,h_{ir} \Big/ \sum_i \sum_{r \le k} w^*_{ir} \\
    \mathrm{PSnDCG@}k &= \sum_i \tfrac1{D_i} \sum_{r \le k} \frac{w\,h_{ir}}{\log_2(r + 1)} \Big/
                         \sum_i \tfrac1{D_i} \sum_{r \le k} \frac{w^*_{ir}}{\log_2(r + 1)}

The two propensity-scored ones are ratios of sums, so the best attainable value is 1. A row without
true labels stays in the mean and contributes 0; a row with fewer than k predictions is still divided
by k. These are the definitions under which the field's tables are computed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from pysldl.backend.topk import check_k, top_k, top_k_sparse
from pysldl.backend.workspace import row_parts
from pysldl.exceptions import DataError
from pysldl.preprocessing.features import as_column
from pysldl.preprocessing.labels import COLLECTIONS, as_indicator

NO_NAMES = "in place of names pass clf.predict_scores(X), or the labels of clf.predict_topk(X, k)."
COMPARED_AT_ONCE = 1 << 20  # pairs of a true and a predicted label


def evaluate(
    Y_true: Any,
    predictions: Any,
    inv_propensity: ArrayLike | None = None,
    ks: Sequence[int] = (1, 3, 5),
    metrics: Sequence[str] | None = None,
    ignore_labels: ArrayLike | None = None,
) -> dict[str, float]:
    """Score predictions by every metric at every k, in one pass.

    Parameters
    ----------
    Y_true : array-like or sparse of shape (n_samples, n_labels)
        True labels, zeros and ones.
    predictions : ndarray, sparse, or pair of ndarrays
        One of

        - integers of shape (n_samples, at least k): the labels of each row, best first, -1 in
          unused slots;
        - the pair ``(labels, scores)`` that ``predict_topk`` returns;
        - sparse scores of shape (n_samples, n_labels), of which only stored entries can be picked;
        - dense floating-point scores of the same shape, in which -inf is never picked.

        Scores are ranked by :func:`pysldl.backend.topk.top_k`: ties go to the lower label index.
    inv_propensity : array-like of shape (n_labels,), optional
        Label weights from the training labels, see :func:`inverse_propensity`. Without them the
        propensity-scored metrics are left out.
    ks : sequence of int
        Numbers of predicted labels to score.
    metrics : sequence of {"P", "nDCG", "R", "PSP", "PSnDCG"}, optional
        Which metrics; by default all that can be computed.
    ignore_labels : array-like, optional
        Labels to leave out of the truth, as a boolean mask of shape (n_labels,) or as column
        numbers. They never count as hits, and a row that loses all its labels stays in the mean
        as a row without labels. ``ignore_labels=Y_train.sum(axis=0) == 0`` leaves out the labels
        that no method could have learned.

    Returns
    -------
    results : dict
        Values between 0 and 1 under names like ``"P@1"`` and ``"PSnDCG@5"``. A
        propensity-scored metric of rows that have no true label at all is 0.

    Examples
    --------
    >>> from pysldl.metrics import evaluate
    >>> Y_true = [[1, 1, 0], [0, 0, 1]]
    >>> labels = [[0, 2], [1, 2]]
    >>> evaluate(Y_true, labels, ks=(1, 2), metrics=("P", "R"))
    {'P@1': 0.5, 'P@2': 0.5, 'R@1': 0.25, 'R@2': 0.75}
    """
    sums = metric_sums(Y_true, predictions, inv_propensity, ks, metrics, ignore_labels)
    return {name: ratio_of_sums(*pair) for name, pair in sums.items()}


def metric_sums(
    Y_true: Any,
    predictions: Any,
    inv_propensity: ArrayLike | None = None,
    ks: Sequence[int] = (1, 3, 5),
    metrics: Sequence[str] | None = None,
    ignore_labels: ArrayLike | None = None,
) -> dict[str, tuple[float, float]]:
    """Gained and attainable sums of each metric, which :func:`evaluate` divides; those of blocks of rows add up.

    Parameters
    ----------
    Y_true, predictions, inv_propensity, ks, metrics, ignore_labels
        As in :func:`evaluate`.

    Returns
    -------
    dict of str to tuple
        The sum that was gained, and the one that could be.
    """
    names = _metric_names(metrics, inv_propensity is not None)
    if not len(ks):
        raise DataError("ks is empty: name at least one k.")
    for k in ks:
        check_k(k)

    if _holds_names(Y_true):
        raise DataError(
            "Y_true must hold numbers 0 and 1, but has names of labels: pass clf.encode(Y_true, unseen='keep'), of the "
            "classifier that made the predictions."
        )
    truth = as_indicator(Y_true, "Y_true")
    if ignore_labels is not None:
        truth = _without_labels(truth, ignore_labels)
    weights = None if inv_propensity is None else _label_weights(inv_propensity, truth.shape[1])
    ranking = _compare(truth, _predicted_labels(predictions, truth.shape, max(ks)), weights)
    return {f"{name}@{k}": _METRICS[name](ranking, k) for name in names for k in ks}


def ratio_of_sums(gained: float, attainable: float) -> float:
    """A metric from its :func:`metric_sums`; a perfect ranking may exceed 1 by the rounding of its sums."""
    return min(float(gained / attainable), 1.0) if attainable > 0 else 0.0


def evaluate_rows(
    Y: csr_array, labels: NDArray[np.integer], ks: Sequence[int], inv_propensity: ArrayLike | None = None
) -> dict[str, NDArray[np.float64]]:
    """P@k and nDCG@k of every row, or with inverse propensities the parts of the rows in PSP@k and PSnDCG@k.

    The mean over the rows is what :func:`evaluate` returns.

    Parameters
    ----------
    Y : csr_array of shape (n_samples, n_labels)
    labels : ndarray of shape (n_samples, at least k)
        Best first, -1 in unused slots.
    ks : sequence of int
    inv_propensity : array-like of shape (n_labels,), optional
    """
    weights = None if inv_propensity is None else _label_weights(inv_propensity, Y.shape[1])
    ranking = _compare(as_indicator(Y, "Y"), labels[:, : max(ks)].astype(np.int64), weights)
    rows = {}
    for k in ks:
        if weights is None:
            rows[f"P@{k}"] = ranking.hits[:, :k].mean(axis=1)
            rows[f"nDCG@{k}"] = _discounted(ranking.hits, ranking.n_true, k)
        else:
            got, best = ranking.hit_weights, ranking.ideal_weights
            rows[f"PSP@{k}"] = _shares(got[:, :k].sum(axis=1), best[:, :k].sum(axis=1))
            rows[f"PSnDCG@{k}"] = _shares(_discounted(got, ranking.n_true, k), _discounted(best, ranking.n_true, k))
    return rows


def precision_at_k(Y_true: Any, predictions: Any, k: int) -> float:
    """Return the share of true labels among the k best of each row, P@k.

    Parameters
    ----------
    Y_true, predictions : array-like or sparse
        As in :func:`evaluate`.
    k : int
        Number of predicted labels to score.

    Examples
    --------
    >>> from pysldl.metrics import precision_at_k
    >>> precision_at_k([[1, 1, 0], [0, 0, 1]], [[0, 1], [1, 0]], k=2)
    0.5
    """
    return _single("P", Y_true, predictions, k)


def ndcg_at_k(Y_true: Any, predictions: Any, k: int) -> float:
    """Return the discounted gain of the k best of each row over the best attainable, nDCG@k.

    Parameters
    ----------
    Y_true, predictions : array-like or sparse
        As in :func:`evaluate`.
    k : int
        Number of predicted labels to score.

    Examples
    --------
    >>> from pysldl.metrics import ndcg_at_k
    >>> round(ndcg_at_k([[0, 1, 0]], [[2, 1]], k=2), 4)
    0.6309
    """
    return _single("nDCG", Y_true, predictions, k)


def recall_at_k(Y_true: Any, predictions: Any, k: int) -> float:
    """Return the share of each row's true labels that are among its k best, R@k.

    Parameters
    ----------
    Y_true, predictions : array-like or sparse
        As in :func:`evaluate`.
    k : int
        Number of predicted labels to score.

    Examples
    --------
    >>> from pysldl.metrics import recall_at_k
    >>> recall_at_k([[1, 1, 0], [0, 0, 1]], [[0, 2], [2, 0]], k=2)
    0.75
    """
    return _single("R", Y_true, predictions, k)


def psprecision_at_k(Y_true: Any, predictions: Any, k: int, inv_propensity: ArrayLike) -> float:
    """Return the propensity-scored precision over the best attainable, PSP@k.

    Parameters
    ----------
    Y_true, predictions : array-like or sparse
        As in :func:`evaluate`.
    k : int
        Number of predicted labels to score.
    inv_propensity : array-like of shape (n_labels,)
        Label weights from the training labels, see :func:`inverse_propensity`.

    Examples
    --------
    >>> from pysldl.metrics import psprecision_at_k
    >>> psprecision_at_k([[1, 1, 0]], [[0]], k=1, inv_propensity=[1.0, 4.0, 1.0])
    0.25
    """
    return _single("PSP", Y_true, predictions, k, inv_propensity)


def psndcg_at_k(Y_true: Any, predictions: Any, k: int, inv_propensity: ArrayLike) -> float:
    """Return the propensity-scored discounted gain over the best attainable, PSnDCG@k.

    Parameters
    ----------
    Y_true, predictions : array-like or sparse
        As in :func:`evaluate`.
    k : int
        Number of predicted labels to score.
    inv_propensity : array-like of shape (n_labels,)
        Label weights from the training labels, see :func:`inverse_propensity`.

    Examples
    --------
    >>> from pysldl.metrics import psndcg_at_k
    >>> round(psndcg_at_k([[1, 1, 0]], [[0, 1]], k=2, inv_propensity=[1.0, 4.0, 1.0]), 4)
    0.7609
    """
    return _single("PSnDCG", Y_true, predictions, k, inv_propensity)


@dataclass(frozen=True)
class _Ranking:
    """The predicted labels of n rows held against the truth; `width` is the largest k asked for."""

    hits: NDArray[np.bool_]  # (n, width)
    n_true: NDArray[np.int64]  # (n,)
    hit_weights: Any = None  # (n, width), 0 where no hit; None without propensities
    ideal_weights: Any = None  # (n, width), descending, 0 beyond n_true


def _compare(truth: Any, labels: NDArray[np.int64], weights: NDArray[np.float64] | None) -> _Ranking:
    """Compare predicted labels (n, k) with the true ones."""
    hits, n_true = hits_of(labels, truth), np.diff(truth.indptr).astype(np.int64)
    if weights is None:
        return _Ranking(hits, n_true)

    weighted_truth = csr_array((weights[truth.indices], truth.indices, truth.indptr), shape=truth.shape)
    ideal_weights = top_k_sparse(weighted_truth, labels.shape[1])[1]
    ideal_weights[np.isneginf(ideal_weights)] = 0.0
    return _Ranking(hits, n_true, np.where(hits, weights[labels], 0.0), ideal_weights)


def hits_of(labels: NDArray[np.integer], Y: csr_array) -> NDArray[np.bool_]:
    """Return whether each predicted label (n_rows, k), -1 for none, is a true one; ``Y`` is in canonical form."""
    hits = np.zeros(labels.shape, dtype=np.bool_)
    per_row = max(1, Y.nnz // max(Y.shape[0], 1)) * max(labels.shape[1], 1)
    for part in row_parts(Y.shape[0], max(1, COMPARED_AT_ONCE // per_row)):
        # A row has few labels: each is compared with all that were predicted.
        start, stop = Y.indptr[part.start], Y.indptr[part.stop]
        row = np.repeat(np.arange(part.start, part.stop), np.diff(Y.indptr[part.start : part.stop + 1]))
        entry, slot = np.nonzero(labels[row] == Y.indices[start:stop, None])
        hits[row[entry], slot] = True
    return hits


def _holds_names(rows: Any) -> bool:
    """Whether rows are lists of names of labels."""
    cells = None if issparse(rows) else as_column(rows)
    return cells is not None and any(
        isinstance(cell, COLLECTIONS) and any(isinstance(one, str) for one in cell) for cell in cells
    )


def _predicted_labels(predictions: Any, shape: tuple[int, int], k: int) -> NDArray[np.int64]:
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
            told = NO_NAMES if _holds_names(predictions) else "fill unused slots with -1."
            raise DataError(f"predictions differ in length: {told}") from error

    if issparse(labels) or labels.dtype.kind == "f":
        if labels.shape != shape:
            raise DataError(f"predicted scores have shape {labels.shape}, Y_true has {shape}: they must be the same.")
        return top_k(labels, k)[0]
    if labels.dtype.kind not in "iu":
        told = f": {NO_NAMES}" if labels.dtype.kind in "OUS" else "."
        raise DataError(f"predictions must be integer labels or floating-point scores, got dtype {labels.dtype}{told}")
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


def _without_labels(truth: Any, ignore_labels: ArrayLike) -> Any:
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


def _label_weights(inv_propensity: ArrayLike, n_labels: int) -> NDArray[np.float64]:
    """Return inverse propensities as checked float64 weights, one per label."""
    weights = np.asarray(inv_propensity, dtype=np.float64)
    if weights.shape != (n_labels,):
        raise DataError(f"inv_propensity must have shape ({n_labels},), got {weights.shape}.")
    if not (np.isfinite(weights) & (weights > 0)).all():
        raise DataError("inv_propensity must be finite and positive.")
    return weights


# The formulas at the top of this file: what is gained, and by what it is divided.
_METRICS: dict[str, Callable[[_Ranking, int], tuple[float, float]]] = {
    "P": lambda r, k: (r.hits[:, :k].sum(), r.hits[:, :k].size),
    "nDCG": lambda r, k: (_discounted(r.hits, r.n_true, k).sum(), len(r.n_true)),
    "R": lambda r, k: ((r.hits[:, :k].sum(axis=1) / np.maximum(r.n_true, 1)).sum(), len(r.n_true)),
    "PSP": lambda r, k: (r.hit_weights[:, :k].sum(), r.ideal_weights[:, :k].sum()),
    "PSnDCG": lambda r, k: (
        _discounted(r.hit_weights, r.n_true, k).sum(),
        _discounted(r.ideal_weights, r.n_true, k).sum(),
    ),
}
_PROPENSITY_SCORED = frozenset({"PSP", "PSnDCG"})


def _discounted(gains: NDArray[Any], n_true: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Return each row's discounted gain at k over that of min(n_true, k) hits in a row, D_i."""
    discount = 1.0 / np.log2(np.arange(2, k + 2))
    ideal = np.cumsum(discount)[np.clip(n_true, 1, k) - 1]
    return (gains[:, :k] @ discount) / ideal


def _shares(gains: NDArray[np.float64], attainable: NDArray[np.float64]) -> NDArray[np.float64]:
    """The part of every row in the ratio of the sums, times the number of rows."""
    return np.asarray(gains / max(attainable.mean(), np.finfo(np.float64).tiny))


def _single(name: str, Y_true: Any, predictions: Any, k: int, inv_propensity: ArrayLike | None = None) -> float:
    return evaluate(Y_true, predictions, inv_propensity, ks=(k,), metrics=(name,))[f"{name}@{k}"]


def _metric_names(metrics: Sequence[str] | None, have_propensity: bool) -> Sequence[str]:
    if metrics is None:
        return [name for name in _METRICS if have_propensity or name not in _PROPENSITY_SCORED]
    for name in metrics:
        if name not in _METRICS:
            raise DataError(f"unknown metric {name!r}: choose from {', '.join(_METRICS)}.")
        if name in _PROPENSITY_SCORED and not have_propensity:
            raise DataError(f"metric {name} needs inv_propensity: see pysldl.metrics.inverse_propensity.")
    return metrics
