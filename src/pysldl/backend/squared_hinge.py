"""One linear classifier a label, each on a few rows of its own: dual coordinate descent for the squared hinge.

The compiled and the plain form take the same steps in the same order and add up in the same order, so that they end at
the same weights, to the last bit. The form for a GPU goes another way, by Newton's method, and stops by the same rule.
"""

import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.device import current_device
from pysldl.backend.dispatch import as_int32_indices, has_numba, parallel_for
from pysldl.backend.label_problems import LabelProblems

__all__ = ["fit_squared_hinge"]

WITHOUT_EVIDENCE = -0.7  # where the bias is drawn to: a candidate that nothing speaks for is not a label
BIAS_FREEDOM = 0.1
DEALT_PILES = 64
# The plain form descends for many labels at once: bytes of their weights, and rows of all of them together.
PLAIN_BYTES, PLAIN_ROWS = 64 << 20, 1 << 22
# Knuth's constants of the generator that shuffles the rows, modulo 2**64: the same order with and without numba.
MULTIPLIER, INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)
HIGH_BITS = np.uint64(33)


class _Fitted(NamedTuple):
    """Some labels, one after the other: how many weights each has, the weights, the biases, and who converged."""

    counts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    bias: NDArray[np.float32]
    converged: NDArray[np.bool_]


def fit_squared_hinge(
    X: sparse.csr_array,
    problems: LabelProblems,
    *,
    C: float = 1.0,
    positive_weight: NDArray[np.float32] | None = None,
    max_epochs: int = 100,
    tol: float = 0.1,
    min_weight: float = 0.1,
) -> tuple[sparse.csr_array, NDArray[np.float32]]:
    """For every label, ``min ‖w‖²/2 + (b + 0.7)²/0.2 + C sum_i max(0, 1 - y_i (w · x_i + b))²`` over its rows.

    The bias is held near -0.7, and not near 0: without evidence a row does not have the label. All rows pull at the
    bias, so that a free one takes twice as many passes to settle.

    Parameters
    ----------
    X : csr_array of shape (n_samples, n_features), float32
    problems : LabelProblems
        The rows of every label.
    C : float
        Weight of the errors.
    positive_weight : ndarray of shape (n_labels,), float32, optional
        How much more the errors on rows that have the label count; 1 where it is not given.
    max_epochs : int
        At most so many passes over the rows of a label, or so many Newton steps on a GPU. It is there for problems that
        do not converge: a ConvergenceWarning says when it ends the descent.
    tol : float
        A label is done when the optimality conditions of all its rows hold to within ``tol``, in units of the margin:
        the projected gradient of the dual problem, ``y_i (w · x_i + b) - 1 + alpha_i / 2C``, of every row.
    min_weight : float
        Smaller weights are dropped, as nearly all are.

    Returns
    -------
    W : csr_array of shape (n_labels, n_features), float32
    bias : ndarray of shape (n_labels,), float32
        A label all of whose rows have the same sign gets no weights and that sign as bias; one without rows, -1.

    Notes
    -----
    After the first pass, a row that is right and has no say is left out until the others have converged; the pass that
    ends the descent looks at all rows.
    """
    X = as_int32_indices(sparse.csr_array(X))  # one form of the arrays, so that the loop is compiled once
    sizes = np.diff(problems.indptr)
    positive_weight = np.ones(len(sizes), dtype=np.float32) if positive_weight is None else positive_weight
    if (device := current_device()) is not None:
        from pysldl.backend.torch.squared_hinge import classifiers

        W, bias, n_open = classifiers(
            device, X, *problems, C=C, positive_weight=positive_weight, max_steps=max_epochs, tol=tol,
            min_weight=min_weight, bias_center=WITHOUT_EVIDENCE, bias_freedom=BIAS_FREEDOM,
        )  # fmt: skip
        _warn_if_open(n_open, max_epochs)
        return as_int32_indices(W), bias
    if not X.has_canonical_format:  # the plain form writes to every feature of a row once
        X = X.copy()
        X.sum_duplicates()
    labels = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]
    squares = X.data.astype(np.float64) ** 2
    lengths = np.bincount(np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), squares, X.shape[0]).astype(np.float32)
    numbers = (np.float32(C), positive_weight, max_epochs, np.float32(tol), np.float32(min_weight))
    if has_numba():
        # Dealt like cards: every thread gets labels of all sizes.
        labels = np.concatenate([labels[pile::DEALT_PILES] for pile in range(DEALT_PILES)])
        parts = parallel_for(
            _compiled_fit(), len(labels), labels, X.indptr, X.indices, X.data, X.shape[1], lengths,
            problems.indptr, problems.rows, *numbers,
        )  # fmt: skip
        fitted = [_Fitted(*part) for part in parts]
    else:
        fitted = [_plain_fit(X, lengths, problems, some, *numbers) for some in _batches(labels, sizes, X.shape[1])]
    _warn_if_open(sum(int((~part.converged).sum()) for part in fitted), max_epochs)
    return _put_together(fitted, labels, (len(sizes), X.shape[1]))


def _warn_if_open(n_open: int, max_epochs: int) -> None:
    if n_open:
        from sklearn.exceptions import ConvergenceWarning  # not above: a model that only predicts would wait for it

        warnings.warn(
            f"The classifiers of {n_open} labels did not converge within max_epochs={max_epochs}: raise it, or tol.",
            ConvergenceWarning,
            stacklevel=3,
        )


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
    return as_int32_indices(W), bias


def _batches(labels: NDArray[np.int64], sizes: NDArray[np.int64], n_features: int) -> list[NDArray[np.int64]]:
    """Labels, the largest first, in batches whose weights and rows fit into memory together."""
    batches = []
    while labels.size:
        n = max(1, min(PLAIN_BYTES // (4 * n_features), PLAIN_ROWS // int(sizes[labels[0]])))
        batches.append(labels[:n])
        labels = labels[n:]
    return batches


def _plain_fit(
    X: sparse.csr_array,
    lengths: NDArray[np.float32],
    problems: LabelProblems,
    labels: NDArray[np.int64],
    C: np.float32,
    positive_weight: NDArray[np.float32],
    max_epochs: int,
    tol: np.float32,
    min_weight: np.float32,
) -> _Fitted:
    """A batch of labels side by side: each takes the steps that the compiled loop takes for it."""
    n_labels, n_features = len(labels), X.shape[1]
    first, m = problems.indptr[labels], np.diff(problems.indptr)[labels]
    places = first[:, None] + np.minimum(np.arange(m.max()), m[:, None] - 1)
    signed = problems.rows[places]
    has = signed >= 0
    rows, sign = np.where(has, signed, ~signed), np.where(has, np.float32(1), np.float32(-1))
    shrink = np.where(has, (np.float32(0.5) / (C * positive_weight[labels]))[:, None], np.float32(0.5) / C)
    n_positive = np.count_nonzero(has & (np.arange(m.max()) < m[:, None]), axis=1)
    one_sided = (n_positive == 0) | (n_positive == m)
    done = one_sided.copy()

    w = np.zeros(n_labels * n_features, dtype=np.float32)
    b = np.full(n_labels, WITHOUT_EVIDENCE, dtype=np.float32)
    alpha = np.zeros(signed.shape, dtype=np.float32)
    order = np.tile(np.arange(m.max(), dtype=np.int32), (n_labels, 1))
    active, seed = m.copy(), labels.astype(np.uint64)
    free, nothing = np.float32(BIAS_FREEDOM), np.float32(0)
    for epoch in range(max_epochs):
        running = np.flatnonzero(~done)
        if running.size == 0:
            break
        whole = active == m
        _shuffle(order, active, seed, running)
        at, violation = np.zeros(n_labels, dtype=np.int64), np.zeros(n_labels, dtype=np.float32)
        while running.size:
            e = order[running, at[running]]
            row, y, shrunk, before = (values[running, e] for values in (rows, sign, shrink, alpha))
            terms = _Terms(X, row, running)
            gradient = y * (terms.dot(w) + b[running]) - np.float32(1) + before * shrunk
            idle = (before == 0) & (gradient > 0)
            projected = np.where(idle, nothing, gradient)
            violation[running] = np.maximum(violation[running], np.abs(projected))
            alpha[running, e] = np.maximum(before - projected / (lengths[row] + free + shrunk), nothing)
            step = (alpha[running, e] - before) * y
            b[running] += step * free
            terms.add(w, step)
            stays = ~idle if epoch > 0 else np.ones_like(idle)
            at[running[stays]] += 1
            out = running[~stays]
            active[out] -= 1
            order[out, at[out]], order[out, active[out]] = order[out, active[out]], order[out, at[out]]
            running = running[at[running] < active[running]]
        settled = ~done & (violation <= tol)
        done |= settled & whole
        active[settled] = m[settled]

    w = w.reshape(n_labels, n_features)
    owner, column = np.nonzero((np.abs(w) >= min_weight) & (w != 0))
    bias = np.where(one_sided, np.where(n_positive > 0, np.float32(1), np.float32(-1)), b)
    counts = np.bincount(owner, minlength=n_labels)
    return _Fitted(counts, column.astype(np.int32), w[owner, column], bias, done)


def _shuffle(
    order: NDArray[np.int32], active: NDArray[np.int64], seed: NDArray[np.uint64], running: NDArray[np.intp]
) -> None:
    """Shuffle the active rows of every label in place, each label by a generator of its own."""
    running = running[np.argsort(-active[running], kind="stable")]
    lengths = active[running]
    factors = np.cumprod(np.full(lengths[0], MULTIPLIER), dtype=np.uint64)
    sums = np.cumsum(np.concatenate([np.ones(1, dtype=np.uint64), factors[:-1]]), dtype=np.uint64)
    states = seed[running, None] * factors + sums * INCREMENT
    seed[running] = states[np.arange(len(running)), lengths - 1]
    left = np.maximum(lengths[:, None] - np.arange(lengths[0]), 1)
    others = np.arange(lengths[0]) + (states >> HIGH_BITS).astype(np.int64) % left
    still = np.searchsorted(-lengths, -np.arange(lengths[0]), side="left")  # labels that have more rows than s
    for s, n in enumerate(still.tolist()):
        own, other = running[:n], others[:n, s]
        order[own, s], order[own, other] = order[own, other], order[own, s]


class _Terms:
    """One row of X for each of several labels, beside the weights of that label."""

    def __init__(self, X: sparse.csr_array, rows: NDArray[np.integer], labels: NDArray[np.intp]) -> None:
        self.sizes = X.indptr[rows + 1] - X.indptr[rows]
        self.place = np.arange(self.sizes.sum()) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        places = np.repeat(X.indptr[rows], self.sizes) + self.place
        self.cells = np.repeat(labels * X.shape[1], self.sizes) + X.indices[places]
        self.values = X.data[places]

    def dot(self, w: NDArray[np.float32]) -> NDArray[np.float32]:
        """Products of rows and weights, summed in the order of the compiled loop: every fourth term together."""
        sums = np.zeros(4 * len(self.sizes), dtype=np.float32)
        np.add.at(sums, np.repeat(np.arange(0, len(sums), 4), self.sizes) + self.place % 4, w[self.cells] * self.values)
        s0, s1, s2, s3 = sums.reshape(-1, 4).T
        return (s0 + s1) + (s2 + s3)

    def add(self, w: NDArray[np.float32], step: NDArray[np.float32]) -> None:
        """Add ``step`` times the rows to the weights."""
        w[self.cells] += np.repeat(step, self.sizes) * self.values


@cache
def _compiled_fit() -> Any:
    from numba import njit

    free, without_evidence = np.float32(BIAS_FREEDOM), np.float32(WITHOUT_EVIDENCE)

    # No fastmath: it would add up in an order that depends on the processor. Four sums at once are as fast.
    @njit(nogil=True, cache=True)
    def dot(w, xi, xd, start, stop):  # type: ignore[no-untyped-def]
        s0 = s1 = s2 = s3 = np.float32(0.0)
        j = start
        while j + 3 < stop:
            s0 += w[xi[j]] * xd[j]
            s1 += w[xi[j + 1]] * xd[j + 1]
            s2 += w[xi[j + 2]] * xd[j + 2]
            s3 += w[xi[j + 3]] * xd[j + 3]
            j += 4
        if j < stop:
            s0 += w[xi[j]] * xd[j]
        if j + 1 < stop:
            s1 += w[xi[j + 1]] * xd[j + 1]
        if j + 2 < stop:
            s2 += w[xi[j + 2]] * xd[j + 2]
        return (s0 + s1) + (s2 + s3)

    @njit(nogil=True, cache=True)
    def fit(  # type: ignore[no-untyped-def]
        start,
        stop,
        labels,
        xp,
        xi,
        xd,
        n_features,
        lengths,
        indptr,
        rows,
        C,
        positive_weight,
        max_epochs,
        tol,
        min_weight,
    ):
        counts = np.zeros(stop - start, np.int64)
        bias = np.empty(stop - start, np.float32)
        converged = np.zeros(stop - start, np.bool_)
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
                converged[at - start] = True
                continue
            alpha = np.zeros(m, np.float32)
            order = np.arange(m).astype(np.int32)
            n_touched = 0
            b = without_evidence
            active = m
            shrink_without, shrink_with = np.float32(0.5) / C, np.float32(0.5) / (C * positive_weight[label])
            seed = np.uint64(label)
            for epoch in range(max_epochs):
                violation, whole = np.float32(0.0), active == m
                for s in range(active):
                    seed = seed * MULTIPLIER + INCREMENT
                    other = s + np.int64(seed >> HIGH_BITS) % (active - s)
                    order[s], order[other] = order[other], order[s]
                s = 0
                while s < active:
                    e = order[s]
                    row, sign, shrink = rows[first + e], np.float32(1.0), shrink_with
                    if row < 0:
                        row, sign, shrink = ~row, np.float32(-1.0), shrink_without
                    margin = dot(w, xi, xd, xp[row], xp[row + 1])
                    gradient = sign * (margin + b) - np.float32(1.0) + alpha[e] * shrink
                    projected = gradient
                    if alpha[e] == 0 and gradient > 0:
                        if epoch > 0:
                            active -= 1
                            order[s], order[active] = order[active], order[s]
                            continue
                        projected = np.float32(0.0)
                    violation = max(violation, abs(projected))
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
                if violation <= tol:
                    if whole:
                        converged[at - start] = True
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
                if abs(w[feature]) >= min_weight and w[feature] != 0:
                    columns[used], values[used] = feature, w[feature]
                    used += 1
                w[feature] = 0
                known[feature] = False
            counts[at - start] = used - before_label
            bias[at - start] = b
        return counts, columns[:used].copy(), values[:used].copy(), bias, converged

    return fit
