"""One linear classifier a label, each on a few rows of its own: dual coordinate descent for the squared hinge."""

import warnings
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.kernels import compiled, with_small_indices

__all__ = ["fit_margins"]

LABELS_AT_ONCE = 2048


def fit_margins(
    X: sparse.csr_array,
    pairs: sparse.csc_array,
    *,
    C: float = 1.0,
    max_epochs: int = 10,
    tol: float = 0.1,
    min_weight: float = 0.02,
) -> tuple[sparse.csr_array, NDArray[np.float32]]:
    """For every label, ``min ‖w‖²/2 + b²/2 + C sum_i max(0, 1 - y_i (w · x_i + b))²`` over its rows.

    Parameters
    ----------
    X : csr_array of shape (n_samples, n_features), float32
    pairs : csc_array of shape (n_samples, n_labels)
        Column l stores the rows of label l's problem: +1 for a row with the label, -1 for a row without.
    C : float
        Weight of the errors.
    max_epochs, tol : int, float
        Stop after so many passes over the rows, or when the projected gradients span less than ``tol``.
    min_weight : float
        Smaller weights are dropped, as nearly all are.

    Returns
    -------
    W : csr_array of shape (n_labels, n_features), float32
    bias : ndarray of shape (n_labels,), float32
        A label all of whose rows have the same sign gets no weights and that sign as bias; one without rows, -1.
    """
    fit = _compiled_fit() if compiled() else None
    X = with_small_indices(sparse.csr_array(X))  # one form of the arrays, so that the loop is compiled once
    sizes = np.diff(pairs.indptr)
    bias = np.full(pairs.shape[1], -1.0, dtype=np.float32)
    n_blocks = -(-pairs.shape[1] // LABELS_AT_ONCE)
    by_size = np.argsort(-sizes, kind="stable")
    rows: list[NDArray[np.int64]] = []
    parts: list[sparse.csr_array] = []
    for block in range(n_blocks):  # each block gets labels of all sizes, so that no thread waits for the largest
        labels = by_size[block::n_blocks]
        if fit is None:
            part = _plain_fit(X, pairs, labels, bias, C, max_epochs, tol, min_weight)
        else:
            counts, columns, values = fit(
                X.indptr, X.indices, X.data, X.shape[1],
                pairs.indptr.astype(np.int64, copy=False), pairs.indices.astype(np.int64, copy=False),
                pairs.data.astype(np.float32, copy=False), labels, bias,
                np.float32(C), max_epochs, np.float32(tol), np.float32(min_weight),
            )  # fmt: skip
            kept = np.arange(columns.shape[1]) < counts[:, None]
            indptr = np.concatenate([[0], np.cumsum(counts)])
            part = sparse.csr_array((values[kept], columns[kept], indptr), shape=(len(labels), X.shape[1]))
        parts.append(part)
        rows.append(labels)
    W = sparse.vstack(parts, format="csr")[np.argsort(np.concatenate(rows))]
    W.sort_indices()
    return with_small_indices(W), bias


def _plain_fit(
    X: sparse.csr_array,
    pairs: sparse.csc_array,
    labels: NDArray[np.int64],
    bias: NDArray[np.float32],
    C: float,
    max_epochs: int,
    tol: float,
    min_weight: float,
) -> sparse.csr_array:
    """The same by liblinear, one label after the other."""
    # Not above: a model that only predicts would wait for it.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    part = sparse.lil_array((len(labels), X.shape[1]), dtype=np.float32)
    for at, label in enumerate(labels):
        own = slice(pairs.indptr[label], pairs.indptr[label + 1])
        signs = pairs.data[own]
        if not (signs > 0).any() or not (signs < 0).any():
            bias[label] = 1.0 if (signs > 0).any() else -1.0
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a few epochs are meant to be enough
            svm = LinearSVC(C=C, tol=tol, max_iter=max_epochs, random_state=0).fit(X[pairs.indices[own]], signs)
        weights = svm.coef_[0]
        kept = np.flatnonzero(np.abs(weights) >= min_weight)
        part[[at], kept] = weights[kept]
        bias[label] = svm.intercept_[0]
    return part.tocsr()


@cache
def _compiled_fit() -> Any:
    from numba import njit, prange

    @njit(parallel=True, cache=True, fastmath=True)
    def fit(  # type: ignore[no-untyped-def]
        xp, xi, xd, n_features, pp, pi, signs, labels, bias, C, max_epochs, tol, min_weight
    ):
        n = len(labels)
        counts = np.zeros(n, np.int64)
        columns = np.empty((n, n_features), np.int32)  # untouched pages of it take no memory
        values = np.empty((n, n_features), np.float32)
        shrink = np.float32(0.5) / C
        n_parts = 64
        for part in prange(n_parts):
            w = np.zeros(n_features, np.float32)
            known = np.zeros(n_features, np.bool_)
            touched = np.empty(n_features, np.int32)
            for at in range(part, n, n_parts):
                label = labels[at]
                start, m = pp[label], pp[label + 1] - pp[label]
                n_positive = 0
                for e in range(m):
                    if signs[start + e] > 0:
                        n_positive += 1
                if n_positive == 0 or n_positive == m:
                    bias[label] = 1.0 if n_positive else -1.0
                    continue
                alpha = np.zeros(m, np.float32)
                length = np.empty(m, np.float32)
                order = np.arange(m)
                for e in range(m):
                    row = pi[start + e]
                    total = np.float32(1.0) + shrink
                    for j in range(xp[row], xp[row + 1]):
                        total += xd[j] * xd[j]
                    length[e] = total
                n_touched = 0
                b = np.float32(0.0)
                active = m
                largest_before = np.float32(np.inf)
                seed = np.uint32(label * 7919 + 1)
                for _ in range(max_epochs):
                    largest, smallest = np.float32(-np.inf), np.float32(np.inf)
                    for s in range(active):
                        seed = seed * np.uint32(1664525) + np.uint32(1013904223)
                        other = s + np.int64(seed >> np.uint32(8)) % (active - s)
                        order[s], order[other] = order[other], order[s]
                    s = 0
                    while s < active:
                        e = order[s]
                        row, sign = pi[start + e], signs[start + e]
                        margin = b
                        for j in range(xp[row], xp[row + 1]):
                            margin += w[xi[j]] * xd[j]
                        gradient = sign * margin - np.float32(1.0) + alpha[e] * shrink
                        projected = gradient
                        if alpha[e] == 0:
                            if gradient > largest_before:  # surely no support vector: leave it out until the end
                                active -= 1
                                order[s], order[active] = order[active], order[s]
                                continue
                            if gradient > 0:
                                projected = np.float32(0.0)
                        largest, smallest = max(largest, projected), min(smallest, projected)
                        if projected != 0:
                            before = alpha[e]
                            alpha[e] = max(before - gradient / length[e], np.float32(0.0))
                            step = (alpha[e] - before) * sign
                            b += step
                            for j in range(xp[row], xp[row + 1]):
                                feature = xi[j]
                                if not known[feature]:
                                    known[feature] = True
                                    touched[n_touched] = feature
                                    n_touched += 1
                                w[feature] += step * xd[j]
                        s += 1
                    if largest - smallest <= tol:
                        if active == m:
                            break
                        active = m
                        largest_before = np.float32(np.inf)
                    else:
                        largest_before = largest if largest > 0 else np.float32(np.inf)
                kept = 0
                for t in range(n_touched):
                    feature = touched[t]
                    if abs(w[feature]) >= min_weight:
                        columns[at, kept] = feature
                        values[at, kept] = w[feature]
                        kept += 1
                    w[feature] = 0
                    known[feature] = False
                counts[at] = kept
                bias[label] = b
        return counts, columns, values

    return fit
