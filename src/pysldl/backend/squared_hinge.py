"""One linear classifier a label, each on a few rows of its own: dual coordinate descent for the squared hinge.

The NumPy and the numba form take the same steps in the same order and add up in the same order, so that they end at
the same weights, to the last bit. The torch form goes another way, by Newton's method, and stops by the same rule.
"""

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import as_int32_indices, has_numba, primitive
from pysldl.backend.half_precision import round_to_half
from pysldl.backend.label_problems import LabelProblems
from pysldl.backend.workspace import row_parts

__all__ = ["FittedLabels", "as_weights", "fit_squared_hinge", "solve_squared_hinge", "squared_hinge_memory"]

BIAS_CENTER = -0.7  # where the bias is drawn to: a candidate that nothing speaks for is not a label
BIAS_FREEDOM = 0.1
# The NumPy form descends for many labels at once: bytes of their weights, and rows of all of them together.
BATCH_BYTES, BATCH_ROWS = 64 << 20, 1 << 22
NORM_ROWS = 1 << 16
# Knuth's constants of the generator that shuffles the rows, modulo 2**64: the same order with and without numba.
MULTIPLIER, INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)
HIGH_BITS = np.uint64(33)


class FittedLabels(NamedTuple):
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
        Rounded to half precision, in which a model stores it.
    bias : ndarray of shape (n_labels,), float32
        A label all of whose rows have the same sign gets no weights and that sign as bias; one without rows, -1.

    Notes
    -----
    After the first pass, a row that is right and has no say is left out until the others have converged; the pass that
    ends the descent looks at all rows.
    """
    X = as_int32_indices(sparse.csr_array(X))  # one form of the arrays, so that the loop is compiled once
    if not X.has_canonical_format:  # the NumPy form writes to every feature of a row once
        X = X.copy()
        X.sum_duplicates()
    if positive_weight is None:
        positive_weight = np.ones(len(problems.indptr) - 1, dtype=np.float32)
    W, bias, n_open = solve_squared_hinge(X, problems, C, positive_weight, max_epochs, tol, min_weight)
    if n_open:
        from sklearn.exceptions import ConvergenceWarning  # not above: a model that only predicts would wait for it

        warnings.warn(
            f"The classifiers of {n_open} labels did not converge within max_epochs={max_epochs}: raise it, or tol.",
            ConvergenceWarning,
            stacklevel=2,
        )
    W.data = round_to_half(W.data)
    return as_int32_indices(W), bias


def squared_hinge_memory(n_features: int) -> int:
    """Bytes of work space: dense vectors of sixteen threads, or, without numba, a batch of labels."""
    return 16 * 9 * n_features if has_numba() else BATCH_BYTES + 64 * BATCH_ROWS


@primitive(numba=True, torch="arrays")
def solve_squared_hinge(
    X: sparse.csr_array,
    problems: LabelProblems,
    C: float,
    positive_weight: NDArray[np.float32],
    max_epochs: int,
    tol: float,
    min_weight: float,
) -> tuple[sparse.csr_array, NDArray[np.float32], int]:
    """As :func:`fit_squared_hinge`; returns weights, biases, and how many labels did not converge."""
    sizes = np.diff(problems.indptr)
    labels, lengths = largest_first(sizes), squared_norms(X)
    numbers = (np.float32(C), positive_weight, max_epochs, np.float32(tol), np.float32(min_weight))
    fitted = [_fit_batch(X, lengths, problems, some, *numbers) for some in _batches(labels, sizes, X.shape[1])]
    return as_weights(fitted, labels, (len(sizes), X.shape[1]))


def largest_first(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The labels that have rows, those with the most rows first."""
    return np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]


def squared_norms(X: sparse.csr_array) -> NDArray[np.float32]:
    """Squared length of every row, added up in double precision."""
    lengths = np.empty(X.shape[0], dtype=np.float32)
    for part in row_parts(X.shape[0], NORM_ROWS):
        values = X.data[X.indptr[part.start] : X.indptr[part.stop]].astype(np.float64)
        rows = np.repeat(np.arange(part.stop - part.start), np.diff(X.indptr[part.start : part.stop + 1]))
        lengths[part] = np.bincount(rows, values**2, part.stop - part.start)
    return lengths


def as_weights(
    parts: list[FittedLabels], labels: NDArray[np.int64], shape: tuple[int, int]
) -> tuple[sparse.csr_array, NDArray[np.float32], int]:
    """Weights and biases of fitted ``labels``, in their order, as arrays of all; and how many did not converge."""
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
    return W, bias, sum(int((~part.converged).sum()) for part in parts)


def _batches(labels: NDArray[np.int64], sizes: NDArray[np.int64], n_features: int) -> list[NDArray[np.int64]]:
    """Labels, the largest first, in batches whose weights and rows fit into memory together."""
    batches = []
    while labels.size:
        n = max(1, min(BATCH_BYTES // (4 * n_features), BATCH_ROWS // int(sizes[labels[0]])))
        batches.append(labels[:n])
        labels = labels[n:]
    return batches


def _fit_batch(
    X: sparse.csr_array,
    lengths: NDArray[np.float32],
    problems: LabelProblems,
    labels: NDArray[np.int64],
    C: np.float32,
    positive_weight: NDArray[np.float32],
    max_epochs: int,
    tol: np.float32,
    min_weight: np.float32,
) -> FittedLabels:
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
    b = np.full(n_labels, BIAS_CENTER, dtype=np.float32)
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
    return FittedLabels(counts, column.astype(np.int32), w[owner, column], bias, done)


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
