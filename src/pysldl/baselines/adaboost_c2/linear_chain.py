"""One round of AdaBoost.C2 with linear learners: a chain in which each label also sees the labels before it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.special import expit
from sklearn.base import BaseEstimator

from pysldl.backend.linear_algebra import as_dense
from pysldl.baselines.logistic import fit_logistic, fit_sigmoids

BLOCK_BYTES = 64 << 20

Matrix = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class LinearChain(BaseEstimator):
    """A weighted linear learner per label, on the features and on the labels that come before it in the chain.

    Learners of later rounds see such weighted rows that their own estimate of a label's frequency is useless, and
    labels are compared with each other. Their values become probabilities by sigmoids fitted to the unweighted training
    rows, as those of the authors' support vector machines are. If all rows weigh the same, the learners' own
    probabilities are kept. ``C`` is the weight of the loss against the L2 penalty, for weights that sum to the number
    of rows.

    ``labels_`` have a learner in this round, in chain order. ``coef_`` (n_features, n_learners) and ``chain_coef_``
    (n_labels, n_learners), zero for labels that do not come before, are the weights; ``slope_`` and ``offset_`` those
    of the sigmoids, or None.
    """

    learner: Literal["ridge", "logistic"] = "ridge"
    C: float = 1.0

    _saved_state = ("labels_", "coef_", "chain_coef_", "intercept_", "slope_", "offset_")

    def fit(
        self,
        X: Any,
        Y: sparse.csr_array,
        chain: NDArray[np.integer],
        labels: NDArray[np.integer],
        weights: NDArray[np.float32],
    ) -> Self:
        """Fit a learner for each of ``labels``, which are part of ``chain`` and in its order.

        No label of the chain may be carried by no row or by all. ``weights`` (n_samples, n_learners) are the row
        weights of each learner; each column sums to 1.
        """
        n_samples, n_features = X.shape
        self.labels_ = labels
        # In this order, what a learner may see is the first columns: those of the features and of earlier labels.
        design = _beside(np.ones((n_samples, 1)), X, Y[:, chain])
        position = np.empty(Y.shape[1], dtype=np.int64)
        position[chain] = np.arange(len(chain))
        seen = 1 + n_features + position[labels]
        targets = Y[:, labels].toarray() > 0
        scaled = weights * n_samples
        if self.learner == "ridge":
            W = solve_chain(design, targets, scaled, seen, 1.0 / self.C)
        else:
            W = self._logistic(design, targets, scaled, seen)
        self.intercept_ = W[0].astype(np.float32)
        self.coef_ = W[1 : 1 + n_features].astype(np.float32)
        self.chain_coef_ = np.zeros((Y.shape[1], len(labels)), dtype=np.float32)
        self.chain_coef_[chain] = W[1 + n_features :]
        self.slope_ = self.offset_ = None
        if np.ptp(weights) > 0:
            self.slope_, self.offset_ = fit_sigmoids(self._values(X, Y), targets)
        return self

    def decisions(self, X: Any, Y: sparse.csr_array) -> NDArray[np.bool_]:
        """What the learners say of training rows, true labels before them in the chain: (n_samples, n_learners)."""
        return self._values(X, Y) >= (0.5 if self.learner == "ridge" else 0.0)

    def fill(self, X: Any, P: NDArray[np.float32]) -> None:
        """Write the probabilities of ``labels_`` into ``P``, of shape (n_rows, n_labels), along the chain."""
        own = X @ self.coef_ + self.intercept_
        for number, label in enumerate(self.labels_):
            P[:, label] = self._probability(own[:, number] + P @ self.chain_coef_[:, number], number)

    def _probability(self, values: NDArray[np.floating], number: int) -> NDArray[np.floating]:
        if self.slope_ is not None and self.offset_ is not None:
            values = expit(self.slope_[number] * values + self.offset_[number])
        else:
            values = np.clip(values, 0.0, 1.0) if self.learner == "ridge" else expit(values)
        return values

    def _values(self, X: Any, Y: sparse.csr_array) -> NDArray[np.floating]:
        return np.asarray(X @ self.coef_ + self.intercept_ + Y @ self.chain_coef_)

    def _logistic(
        self, design: Any, targets: NDArray[np.bool_], weights: NDArray[np.float32], seen: NDArray[np.integer]
    ) -> Matrix:
        W = np.zeros((design.shape[1], targets.shape[1]))
        design = sparse.csc_array(design) if sparse.issparse(design) else design
        for number, end in enumerate(seen):
            coef, W[0, number] = fit_logistic(design[:, 1:end], targets[:, number], self.C, weights[:, number])
            W[1:end, number] = coef
        return W


def solve_chain(
    A: Any,
    targets: NDArray[np.bool_],
    weights: NDArray[np.floating],
    seen: NDArray[np.integer],
    alpha: float,
    *,
    tol: float = 1e-3,
    max_iter: int = 100,
) -> Matrix:
    """Minimize ``sum_i weights_ik (A_i w_k - targets_ik)² + alpha ‖w_k‖²`` over the first ``seen_k`` entries of w_k.

    Conjugate gradients for all problems at once, until the residual relative to the right-hand side is below ``tol``.
    One Cholesky factor serves them all as preconditioner: the problems differ in their row weights, but the columns
    each may see are always the first ones, and the factor of a leading block is the leading block of the factor. In the
    first round, where all weights are 1, one step is the solution. Returns W of shape (n_columns, n_problems).
    """
    n_samples, n_columns = A.shape
    gram = as_dense(A.T @ A)
    gram.flat[:: n_columns + 1] += alpha
    factor = linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
    W = np.empty((n_columns, len(seen)))
    block = max(1, BLOCK_BYTES // (8 * n_samples))
    for start in range(0, len(seen), block):
        part = slice(start, start + block)
        visible = np.arange(n_columns)[:, None] < seen[part]
        problems = _RidgeProblems(A, weights[:, part], visible, alpha, factor)
        right = (A.T @ (weights[:, part] * targets[:, part])) * visible
        W[:, part] = conjugate_gradients(problems.times, problems.precondition, right, tol, max_iter)
    return W


@dataclass
class _RidgeProblems:
    """The matrices of some of the problems of :func:`solve_chain`, and approximate inverses of them."""

    A: Any
    weights: NDArray[np.floating]
    visible: NDArray[np.bool_]
    alpha: float
    factor: Matrix

    def times(self, V: Matrix) -> Any:
        return (self.A.T @ (self.weights * (self.A @ V)) + self.alpha * V) * self.visible

    def precondition(self, R: Matrix) -> Any:
        half = linalg.solve_triangular(self.factor, R, lower=True, check_finite=False)
        half *= self.visible
        return linalg.solve_triangular(self.factor, half, lower=True, trans="T", check_finite=False)


def conjugate_gradients(
    times: Callable[[Any], Any], precondition: Callable[[Any], Any], right: NDArray[Any], tol: float, max_iter: int
) -> NDArray[Any]:
    """Solve one linear system for every column of ``right`` (n_unknowns, n_problems), each with its own matrix.

    The solver of :mod:`pysldl.mapping` shares one matrix among all columns and scales by a diagonal; here both the
    matrix and the preconditioner differ from column to column. ``times`` and ``precondition`` multiply by the matrices
    and by approximate inverses of them, column by column.
    """
    solution, residual = np.zeros_like(right), right.copy()
    target = tol**2 * np.einsum("ij,ij->j", right, right)
    direction = precondition(residual)
    energy = np.einsum("ij,ij->j", residual, direction)
    for _ in range(max_iter):
        image = times(direction)
        curvature = np.einsum("ij,ij->j", direction, image)
        length = np.divide(energy, curvature, out=np.zeros_like(energy), where=curvature > 0)
        solution += length * direction
        residual -= length * image
        if (np.einsum("ij,ij->j", residual, residual) <= target).all():
            break
        preconditioned = precondition(residual)
        fresh = np.einsum("ij,ij->j", residual, preconditioned)
        direction *= np.divide(fresh, energy, out=np.zeros_like(energy), where=energy > 0)
        direction += preconditioned
        energy = fresh
    return solution


def _beside(ones: Matrix, X: Any, Y: sparse.csr_array) -> Any:
    """Columns of the intercept, the features and the labels, in float64; sparse if the features are."""
    if sparse.issparse(X):
        return sparse.hstack([sparse.csr_array(ones), X, Y], format="csr", dtype=np.float64)
    return np.hstack([ones, X, Y.toarray()], dtype=np.float64)
