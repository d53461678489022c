"""One linear classifier a label, each on a few rows of its own: dual coordinate descent for the squared hinge."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.device import chosen_device
from pysldl.kernels import compiled, in_parts, with_small_indices
from pysldl.kernels.problems import LabelRows

__all__ = ["fit_margins"]

WITHOUT_EVIDENCE = -0.7  # where the bias is drawn to: a candidate that nothing speaks for is not a label
BIAS_FREEDOM = 0.1
DEALT_PILES = 64


class _Fitted(NamedTuple):
    """Some labels, one after the other: how many weights each has, the weights, and the biases."""

    counts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    bias: NDArray[np.float32]


def fit_margins(
    X: sparse.csr_array,
    problems: LabelRows,
    *,
    C: float = 1.0,
    of_positives: NDArray[np.float32] | None = None,
    max_epochs: int = 10,
    tol: float = 0.1,
    min_weight: float = 0.1,
) -> tuple[sparse.csr_array, NDArray[np.float32]]:
    """For every label, ``min ‖w‖²/2 + (b + 0.7)²/0.2 + C sum_i max(0, 1 - y_i (w · x_i + b))²`` over its rows.

    The bias is held near -0.7, and not near 0: without evidence a row does not have the label. All rows pull at the
    bias, so that a free one takes twice as many passes to settle.

    Parameters
    ----------
    X : csr_array of shape (n_samples, n_features), float32
    problems : LabelRows
        The rows of every label.
    C : float
        Weight of the errors.
    of_positives : ndarray of shape (n_labels,), float32, optional
        How much more the errors on rows that have the label count; 1 where it is not given.
    max_epochs, tol : int, float
        Stop after so many passes over the rows, or when the projected gradients span less than ``tol``. After the first
        pass, a row that is right and has no say is left out until the others agree.
    min_weight : float
        Smaller weights are dropped, as nearly all are.

    Returns
    -------
    W : csr_array of shape (n_labels, n_features), float32
    bias : ndarray of shape (n_labels,), float32
        A label all of whose rows have the same sign gets no weights and that sign as bias; one without rows, -1.
    """
    X = with_small_indices(sparse.csr_array(X))  # one form of the arrays, so that the loop is compiled once
    sizes = np.diff(problems.indptr)
    of_positives = np.ones(len(sizes), dtype=np.float32) if of_positives is None else of_positives
    if (device := chosen_device()) is not None:
        from pysldl.on_device.margins import classifiers

        W, bias = classifiers(
            device, X, *problems, C=C, of_positives=of_positives, min_weight=min_weight,
            bias_centre=WITHOUT_EVIDENCE, bias_freedom=BIAS_FREEDOM,
        )  # fmt: skip
        return with_small_indices(W), bias
    by_size = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]
    # Dealt like cards: every thread gets labels of all sizes.
    labels = np.concatenate([by_size[pile::DEALT_PILES] for pile in range(DEALT_PILES)])
    if compiled():
        from sklearn.utils.extmath import row_norms  # not above: a model that only answers would wait for it

        lengths = row_norms(X, squared=True).astype(np.float32)
        parts = in_parts(
            _compiled_fit(), len(labels), labels, X.indptr, X.indices, X.data, X.shape[1], lengths,
            problems.indptr, problems.rows, np.float32(C), of_positives, max_epochs, np.float32(tol),
            np.float32(min_weight),
        )  # fmt: skip
    else:
        parts = [
            _plain_fit(X, problems, label, C, of_positives[label], max_epochs, tol, min_weight)
            for label in labels.tolist()
        ]
    return _put_together([_Fitted(*part) for part in parts], labels, (len(sizes), X.shape[1]))


def _put_together(
    parts: list[_Fitted], labels: NDArray[np.int64], shape: tuple[int, int]
) -> tuple[sparse.csr_array, NDArray[np.float32]]:
    """Weights and biases in the order of the labels."""
    counts, bias = np.zeros(shape[0], dtype=np.int64), np.full(shape[0], -1.0, dtype=np.float32)
    counts[labels] = np.concatenate([np.zeros(0, dtype=np.int64), *(part.counts for part in parts)])
    bias[labels] = np.concatenate([np.zeros(0, dtype=np.float32), *(part.bias for part in parts)])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    columns, values = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1], dtype=np.float32)
    done = 0
    for part in parts:
        own, done = labels[done : done + len(part.counts)], done + len(part.counts)
        starts = np.cumsum(part.counts) - part.counts
        places = np.repeat(indptr[own] - starts, part.counts) + np.arange(len(part.columns))
        columns[places], values[places] = part.columns, part.values
    W = sparse.csr_array((values, columns, indptr), shape=shape)
    W.sort_indices()
    return with_small_indices(W), bias


def _plain_fit(
    X: sparse.csr_array,
    problems: LabelRows,
    label: int,
    C: float,
    of_positives: float,
    max_epochs: int,
    tol: float,
    min_weight: float,
) -> _Fitted:
    """One label by L-BFGS on the weights."""
    # Not above: a model that only predicts would wait for it.
    from scipy.optimize import minimize

    rows = problems.rows[problems.indptr[label] : problems.indptr[label + 1]]
    signs = np.where(rows >= 0, 1.0, -1.0)
    if signs.min() == signs.max():
        return _Fitted(
            np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), signs[:1].astype(np.float32)
        )
    own = X[np.where(rows >= 0, rows, ~rows)]
    cost = np.where(signs > 0, C * of_positives, C)
    features = np.unique(own.indices)
    own = own[:, features]

    def loss(w_and_b: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        w, moved = w_and_b[:-1], w_and_b[-1] - WITHOUT_EVIDENCE
        short = np.maximum(0.0, 1.0 - signs * (own @ w + w_and_b[-1]))
        pull = -2.0 * cost * signs * short
        value = 0.5 * (w @ w) + 0.5 * moved**2 / BIAS_FREEDOM + cost @ short**2
        return value, np.append(w + own.T @ pull, moved / BIAS_FREEDOM + pull.sum())

    start = np.append(np.zeros(len(features)), WITHOUT_EVIDENCE)
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": max_epochs, "gtol": tol}).x
    kept = np.flatnonzero(np.abs(best[:-1]) >= min_weight)
    values = best[kept].astype(np.float32)
    return _Fitted(np.array([len(kept)]), features[kept].astype(np.int32), values, best[-1:].astype(np.float32))


@cache
def _compiled_fit() -> Any:
    from numba import njit

    free, without_evidence = np.float32(BIAS_FREEDOM), np.float32(WITHOUT_EVIDENCE)

    @njit(nogil=True, cache=True, fastmath=True)
    def fit(  # type: ignore[no-untyped-def]
        start, stop, labels, xp, xi, xd, n_features, lengths, indptr, rows, C, of_positives, max_epochs, tol, min_weight
    ):
        counts = np.zeros(stop - start, np.int64)
        bias = np.empty(stop - start, np.float32)
        room = 1 << 16
        columns, values, used = np.empty(room, np.int32), np.empty(room, np.float32), 0
        w = np.zeros(n_features, np.float32)
        known = np.zeros(n_features, np.bool_)
        touched = np.empty(n_features, np.int32)
        for at in range(start, stop):
            label = labels[at]
            first, m = indptr[label], indptr[label + 1] - indptr[label]
            n_positive = 0
            for e in range(m):
                n_positive += rows[first + e] >= 0
            if n_positive == 0 or n_positive == m:
                bias[at - start] = 1.0 if n_positive else -1.0
                continue
            alpha = np.zeros(m, np.float32)
            order = np.arange(m).astype(np.int32)
            n_touched = 0
            b = without_evidence
            active = m
            shrink_without, shrink_with = np.float32(0.5) / C, np.float32(0.5) / (C * of_positives[label])
            seed = np.uint32(label * 7919 + 1)
            for epoch in range(max_epochs):
                largest, smallest = np.float32(-np.inf), np.float32(np.inf)
                for s in range(active):
                    seed = seed * np.uint32(1664525) + np.uint32(1013904223)
                    other = s + np.int64(seed >> np.uint32(8)) % (active - s)
                    order[s], order[other] = order[other], order[s]
                s = 0
                while s < active:
                    e = order[s]
                    row, sign, shrink = rows[first + e], np.float32(1.0), shrink_with
                    if row < 0:
                        row, sign, shrink = ~row, np.float32(-1.0), shrink_without
                    margin = np.float32(0.0)
                    for j in range(xp[row], xp[row + 1]):
                        margin += w[xi[j]] * xd[j]
                    gradient = sign * (margin + b) - np.float32(1.0) + alpha[e] * shrink
                    projected = gradient
                    if alpha[e] == 0 and gradient > 0:
                        if epoch > 0:
                            active -= 1
                            order[s], order[active] = order[active], order[s]
                            continue
                        projected = np.float32(0.0)
                    largest, smallest = max(largest, projected), min(smallest, projected)
                    if projected != 0:
                        before = alpha[e]
                        alpha[e] = max(before - gradient / (lengths[row] + free + shrink), np.float32(0.0))
                        step = (alpha[e] - before) * sign
                        b += step * free
                        for j in range(xp[row], xp[row + 1]):
                            w[xi[j]] += step * xd[j]
                        if before == 0:
                            for j in range(xp[row], xp[row + 1]):
                                feature = xi[j]
                                if not known[feature]:
                                    known[feature] = True
                                    touched[n_touched] = feature
                                    n_touched += 1
                    s += 1
                if largest - smallest <= tol:
                    if active == m:
                        break
                    active = m
            if used + n_touched > room:
                room = max(2 * room, used + n_touched)
                more_columns, more_values = np.empty(room, np.int32), np.empty(room, np.float32)
                more_columns[:used], more_values[:used] = columns[:used], values[:used]
                columns, values = more_columns, more_values
            before_label = used
            for t in range(n_touched):
                feature = touched[t]
                if abs(w[feature]) >= min_weight:
                    columns[used], values[used] = feature, w[feature]
                    used += 1
                w[feature] = 0
                known[feature] = False
            counts[at - start] = used - before_label
            bias[at - start] = b
        return counts, columns[:used].copy(), values[:used].copy(), bias

    return fit
