"""One linear classifier a label, each on a few rows of its own: dual coordinate descent for the squared hinge.

The NumPy and the numba form take the same steps in the same order and add up in the same order, so that they end at
the same weights, to the last bit. The kernels for GPUs visit the rows in another order and stop by the same rule.
"""

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import as_int32_indices, has_numba, primitive
from pysldl.backend.half_precision import round_in_place
from pysldl.backend.label_problems import HeldOutPairs, LabelProblems, held_out_pairs
from pysldl.backend.threads import n_threads
from pysldl.backend.workspace import row_parts

BIAS_CENTER = -0.7  # where the bias is drawn to: a candidate that nothing speaks for is not a label
BIAS_FREEDOM = 0.1
# Before the rows held out join, a label may be so many tolerances away from its optimum: scores move by hundredths.
BEFORE_HELD = 2.0
# The NumPy form descends for many labels at once: bytes of their weights, and rows of all of them together.
BATCH_BYTES, BATCH_ROWS = 64 << 20, 1 << 22
MOST_COPIED = 1 << 20  # terms of the rows of a label that a thread of the compiled form copies side by side
NORM_ROWS = 1 << 12  # whose squares, in double precision, are there at a time
# Knuth's constants of the generator that shuffles the rows, modulo 2**64: the same order with and without numba.
MULTIPLIER, INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)
HIGH_BITS, DRAWN_BITS = np.uint64(33), np.uint64(31)  # what is left of a state, drawn as a fraction of 2**31


class FittedLabels(NamedTuple):
    """Some labels, one after the other: how many weights each has, the weights, the biases, and who converged."""

    counts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    bias: NDArray[np.float32]
    converged: NDArray[np.bool_]


class SquaredHinge(NamedTuple):
    """Fitted classifiers.

    Attributes
    ----------
    W : csr_array of shape (n_labels, n_features), float32
        Rounded to half precision, in which a model stores it.
    bias : ndarray of shape (n_labels,), float32
        A label all of whose rows have the same sign gets no weights and that sign as bias; one without rows, -1.
    held : HeldOutPairs
        The pairs of a label and a row held out.
    held_scores : ndarray of shape (n_pairs,), float32
        Their scores by the classifiers of the other rows.
    """

    W: sparse.csr_array
    bias: NDArray[np.float32]
    held: HeldOutPairs
    held_scores: NDArray[np.float32]


def fit_squared_hinge(
    X: sparse.csr_array,
    problems: LabelProblems,
    *,
    C: float = 1.0,
    positive_weight: NDArray[np.float32] | None = None,
    max_epochs: int = 100,
    tol: float = 0.1,
    min_weight: float = 0.1,
    held_out: NDArray[np.integer] | None = None,
) -> SquaredHinge:
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
        At most so many passes over the rows of a label. It is there for problems that do not converge: a
        ConvergenceWarning says when it ends the descent.
    tol : float
        A label is done when the optimality conditions of all its rows hold to within ``tol``, in units of the margin:
        the projected gradient of the dual problem, ``y_i (w · x_i + b) - 1 + alpha_i / 2C``, of every row.
    min_weight : float
        Smaller weights are dropped, as nearly all are.
    held_out : array of int, optional
        Rows to be scored by classifiers that have not seen them. Each label is first fitted without them, their scores
        are noted, and the fit goes on with all its rows from where it stands.

    Returns
    -------
    SquaredHinge

    Notes
    -----
    After the first pass, a row that is right and has no say is left out until the others have converged; the pass that
    ends the descent looks at all rows.
    """
    is_canonical = X.has_canonical_format  # asked before the copy, which would have to look again
    X = as_int32_indices(sparse.csr_array(X))  # one form of the arrays, so that the loop is compiled once
    if not is_canonical:  # the NumPy form writes to every feature of a row once
        X = X.copy()
        X.sum_duplicates()
    if positive_weight is None:
        positive_weight = np.ones(len(problems.indptr) - 1, dtype=np.float32)
    held = held_out_pairs(problems, X.shape[0], held_out)
    W, bias, held_scores, n_open = solve_squared_hinge(
        X, problems, held, C, positive_weight, max_epochs, tol, min_weight
    )
    warn_open_labels(n_open, max_epochs)
    round_in_place(W.data)
    return SquaredHinge(as_int32_indices(W), bias, held, held_scores)


def warn_open_labels(n_open: int, max_epochs: int) -> None:
    """Say where the descent of ``n_open`` labels was ended."""
    if n_open:
        from sklearn.exceptions import ConvergenceWarning  # not above: a model that only predicts would wait for it

        warnings.warn(
            f"The classifiers of {n_open} labels did not converge within max_epochs={max_epochs}: raise it, or tol.",
            ConvergenceWarning,
            stacklevel=3,
        )


def squared_hinge_memory(n_features: int) -> int:
    """Bytes of work space: dense vectors and copied rows of all threads, or, without numba, a batch of labels."""
    return n_threads() * (4 * n_features + 8 * MOST_COPIED) if has_numba() else BATCH_BYTES + 64 * BATCH_ROWS


@primitive(numba=True, triton=True)
def solve_squared_hinge(
    X: sparse.csr_array,
    problems: LabelProblems,
    held: HeldOutPairs,
    C: float,
    positive_weight: NDArray[np.float32],
    max_epochs: int,
    tol: float,
    min_weight: float,
) -> tuple[sparse.csr_array, NDArray[np.float32], NDArray[np.float32], int]:
    """As :func:`fit_squared_hinge`; returns weights, biases, held-out scores, and how many labels did not converge."""
    sizes = np.diff(problems.indptr)
    labels, lengths = largest_first(sizes), squared_norms(X)
    held_scores = np.empty(len(held.rows), dtype=np.float32)
    numbers = (np.float32(C), positive_weight, max_epochs, np.float32(tol), np.float32(min_weight))
    fitted = [
        _fit_batch(X, lengths, problems, held, held_scores, some, *numbers)
        for some in _batches(labels, sizes, X.shape[1])
    ]
    W, bias, n_open = as_weights(fitted, labels, (len(sizes), X.shape[1]))
    return W, bias, held_scores, n_open


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
    """Weights and biases of fitted ``labels``, in their order, as arrays of all; and how many did not converge.

    The list of ``parts`` is empty afterwards: each is let go when its weights stand among those of all.
    """
    n_open = sum(int((~part.converged).sum()) for part in parts)
    counts, bias = np.zeros(shape[0], dtype=np.int64), np.full(shape[0], -1.0, dtype=np.float32)
    counts[labels] = np.concatenate([np.zeros(0, dtype=np.int64), *(part.counts for part in parts)])
    bias[labels] = np.concatenate([np.zeros(0, dtype=np.float32), *(part.bias for part in parts)])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    columns, values = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1], dtype=np.float32)
    done = 0
    while parts:
        part = parts.pop(0)
        own, done = labels[done : done + len(part.counts)], done + len(part.counts)
        starts = np.cumsum(part.counts) - part.counts
        places = np.repeat(indptr[own] - starts, part.counts) + np.arange(len(part.columns))
        columns[places], values[places] = part.columns, part.values
    W = sparse.csr_array((values, columns, indptr), shape=shape)
    W.sort_indices()
    return W, bias, n_open


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
    held: HeldOutPairs,
    held_scores: NDArray[np.float32],
    labels: NDArray[np.int64],
    C: np.float32,
    positive_weight: NDArray[np.float32],
    max_epochs: int,
    tol: np.float32,
    min_weight: np.float32,
) -> FittedLabels:
    """A batch of labels side by side: each takes the steps that the compiled loop takes for it."""
    batch = _Batch(X, lengths, problems, held, labels, C, positive_weight)
    first_tol = np.where(batch.n_others < batch.m, np.float32(BEFORE_HELD) * tol, tol)
    nothing_to_fit = one_sided(batch.n_positive_others, batch.n_others)
    batch.descend(batch.n_others, batch.n_others, nothing_to_fit, max_epochs, first_tol)
    batch.score_held(held, held_scores, min_weight)
    active = batch.first_those_with_a_say()
    again = one_sided(batch.n_positive, batch.m) | (batch.n_others == batch.m)
    batch.descend(active, batch.m, again, max_epochs, tol, shrinks_at_once=True)
    return batch.fitted(min_weight)


def one_sided(n_positive: NDArray[np.integer], n: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Where all rows have the label, or none has it: there is nothing to fit."""
    return np.asarray((n_positive == 0) | (n_positive == n))


class _Batch:
    """Labels side by side, each with its rows, weights and dual variables."""

    def __init__(
        self,
        X: sparse.csr_array,
        lengths: NDArray[np.float32],
        problems: LabelProblems,
        held: HeldOutPairs,
        labels: NDArray[np.int64],
        C: np.float32,
        positive_weight: NDArray[np.float32],
    ) -> None:
        self.X, self.lengths, self.labels = X, lengths, labels
        first, self.m = problems.indptr[labels], np.diff(problems.indptr)[labels]
        width = np.arange(self.m.max())
        places = first[:, None] + np.minimum(width, self.m[:, None] - 1)
        signed = problems.rows[places]
        there, has = width < self.m[:, None], signed >= 0
        self.is_held = there & held.waits[places]
        self.rows, self.sign = np.where(has, signed, ~signed), np.where(has, np.float32(1), np.float32(-1))
        self.shrink = np.where(has, (np.float32(0.5) / (C * positive_weight[labels]))[:, None], np.float32(0.5) / C)
        self.n_positive = np.count_nonzero(has & there, axis=1)
        self.n_positive_others = np.count_nonzero(has & there & ~self.is_held, axis=1)
        self.n_others = self.m - np.count_nonzero(self.is_held, axis=1)
        self.w = np.zeros(len(labels) * X.shape[1], dtype=np.float32)
        self.b = np.full(len(labels), BIAS_CENTER, dtype=np.float32)
        self.alpha = np.zeros(signed.shape, dtype=np.float32)
        self.order = np.argsort(self.is_held + 2 * ~there, axis=1, kind="stable").astype(np.int32)
        self.seed = labels.astype(np.uint64)
        self.done = np.zeros(len(labels), dtype=np.bool_)

    def first_those_with_a_say(self) -> NDArray[np.int64]:
        """Put the rows that count, and those held out so far, first; how many they are."""
        there = np.arange(self.order.shape[1]) < self.m[:, None]
        counts = there & (self.is_held | (self.alpha > 0))
        self.order = np.argsort(~counts + 2 * ~there, axis=1, kind="stable").astype(np.int32)
        return np.asarray(np.count_nonzero(counts, axis=1))

    def descend(
        self,
        active: NDArray[np.int64],
        m: NDArray[np.int64],
        skipped: NDArray[np.bool_],
        max_epochs: int,
        tol: np.float32 | NDArray[np.float32],
        *,
        shrinks_at_once: bool = False,
    ) -> None:
        """Passes over the first ``m`` rows of every label, beginning with those that are ``active``."""
        free, nothing = np.float32(BIAS_FREEDOM), np.float32(0)
        active, done = active.copy(), skipped.copy()
        w, b, alpha, order = self.w, self.b, self.alpha, self.order
        for epoch in range(max_epochs):
            running = np.flatnonzero(~done)
            if running.size == 0:
                break
            whole = active == m
            _shuffle(order, active, self.seed, running)
            at, violation = np.zeros(len(m), dtype=np.int64), np.zeros(len(m), dtype=np.float32)
            while running.size:
                e = order[running, at[running]]
                row, y, shrunk, before = (v[running, e] for v in (self.rows, self.sign, self.shrink, alpha))
                terms = _Terms(self.X, row, running)
                gradient = y * (terms.dot(w) + b[running]) - np.float32(1) + before * shrunk
                idle = (before == 0) & (gradient > 0)
                projected = np.where(idle, nothing, gradient)
                violation[running] = np.maximum(violation[running], np.abs(projected))
                alpha[running, e] = np.maximum(before - projected / (self.lengths[row] + free + shrunk), nothing)
                step = (alpha[running, e] - before) * y
                b[running] += step * free
                terms.add(w, step)
                stays = ~idle if epoch > 0 or shrinks_at_once else np.ones_like(idle)
                at[running[stays]] += 1
                out = running[~stays]
                active[out] -= 1
                order[out, at[out]], order[out, active[out]] = order[out, active[out]], order[out, at[out]]
                running = running[at[running] < active[running]]
            settled = ~done & (violation <= tol)
            done |= settled & whole
            active[settled] = m[settled]
        self.done = np.where(skipped, self.done | one_sided(self.n_positive, self.m), done)

    def score_held(self, held: HeldOutPairs, held_scores: NDArray[np.float32], min_weight: np.float32) -> None:
        """Note what the weights that will be kept say of the rows held out so far."""
        pruned = np.where(np.abs(self.w) >= min_weight, self.w, np.float32(0))
        owner, slot = np.nonzero(self.is_held)
        scores = _Terms(self.X, self.rows[owner, slot], owner).dot(pruned) + self.b[owner]
        sign = np.where(self.n_positive_others > 0, np.float32(1), np.float32(-1))
        flat = one_sided(self.n_positive_others, self.n_others)
        starts = held.indptr[self.labels]
        n_before = np.cumsum(np.count_nonzero(self.is_held, axis=1)) - np.count_nonzero(self.is_held, axis=1)
        places = starts[owner] + np.arange(len(owner)) - n_before[owner]
        held_scores[places] = np.where(flat[owner], sign[owner], scores)

    def fitted(self, min_weight: np.float32) -> FittedLabels:
        """Weights that are not dropped, and biases."""
        w = self.w.reshape(len(self.labels), -1)
        owner, column = np.nonzero((np.abs(w) >= min_weight) & (w != 0))
        flat = one_sided(self.n_positive, self.m)
        bias = np.where(flat, np.where(self.n_positive > 0, np.float32(1), np.float32(-1)), self.b)
        counts = np.bincount(owner, minlength=len(self.labels))
        return FittedLabels(counts, column.astype(np.int32), w[owner, column], bias, self.done)


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
    left = np.maximum(lengths[:, None] - np.arange(lengths[0]), 1).astype(np.uint64)
    others = np.arange(lengths[0]) + (((states >> HIGH_BITS) * left) >> DRAWN_BITS).astype(np.int64)
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
