"""One round of AdaBoost.C2 with kernel ridge regression: a Gaussian kernel on the features, true labels beside it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from pysldl.backend.threads import matmul
from pysldl.baselines.adaboost_c2.linear_chain import LinearChain, conjugate_gradients
from pysldl.baselines.logistic import fit_sigmoids

BLOCK_BYTES = 256 << 20
LARGEST_DIRECTIONS = 100
SMALLEST_WEIGHT = np.float32(1e-9)

Matrix = NDArray[np.float32]


@dataclass
class KernelSystem:
    """The kernel of the training rows (n_samples, n_samples), and what all rounds need of it."""

    kernel: Matrix
    C: float

    left_out: NDArray[np.float64] | None = None
    """How far a row's value may lie from the truth when all others have weight 1, squared; from the first round."""

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the kernel, (n_samples, n_samples)."""
        return self.kernel.shape[0], self.kernel.shape[1]

    def __matmul__(self, other: Matrix) -> Matrix:
        return matmul(self.kernel, other)

    @cached_property
    def largest(self) -> Matrix:
        """F of shape (n_samples, about 100) such that ``F Fᵀ`` has the largest eigenvalues of the kernel, nearly."""
        n_samples = len(self.kernel)
        start = np.random.RandomState(0).normal(size=(n_samples, min(LARGEST_DIRECTIONS, n_samples)))
        basis = linalg.qr(self @ (self @ start.astype(np.float32)), mode="economic")[0]
        image = self @ basis
        small = (basis.T @ image).astype(np.float64)
        small = (small + small.T) / 2
        small.flat[:: len(small) + 1] += 1e-4
        half = linalg.solve_triangular(linalg.cholesky(small, lower=True), image.T, lower=True)
        return np.asarray(half.T.astype(np.float32))


class KernelRidgeChain(LinearChain):
    """A weighted kernel ridge regression per label, on the features and, linearly, on earlier labels of the chain.

    The fast relative of :class:`~pysldl.baselines.adaboost_c2.svm_chain.SVMChain`: one kernel serves all labels and
    rounds, and all labels of a round are solved for together. Like a support vector machine, and unlike a linear
    learner, it can follow the few rows that boosting makes heavy. It regresses on 1 and -1; coefficients are stored for
    0 and 1, so that everything else is as in :class:`LinearChain`, with rows of the kernel in place of features.
    Sigmoids of later rounds are fitted to leave-one-out values, since those of the training rows themselves separate
    nearly perfectly.
    """

    def __init__(self, C: float = 1.0) -> None:
        super().__init__("ridge", C)

    def fit(
        self,
        X: Any,
        Y: sparse.csr_array,
        chain: NDArray[np.integer],
        labels: NDArray[np.integer],
        weights: NDArray[np.float32],
    ) -> Self:
        """Fit a learner for each of ``labels``; see :meth:`LinearChain.fit`. ``X`` is a :class:`KernelSystem`."""
        n_samples = X.shape[0]
        self.labels_ = labels
        position = np.empty(Y.shape[1], dtype=np.int64)
        position[chain] = np.arange(len(chain))
        seen = position[labels]
        before = Y[:, chain].toarray().astype(np.float32)
        targets = np.float32(2.0) * before[:, seen] - np.float32(1.0)
        scaled = np.maximum(weights * np.float32(n_samples), SMALLEST_WEIGHT)
        equal = np.ptp(weights) == 0
        solve = solve_equal if equal else solve_weighted
        duals = solve(X, before, targets, seen, scaled)
        self.coef_ = duals / np.float32(2)
        self.intercept_ = ((duals.sum(axis=0) + 1) / 2).astype(np.float32)
        of_chain = (before.T @ duals) * (np.arange(len(chain))[:, None] < seen)
        self.chain_coef_ = np.zeros((Y.shape[1], len(labels)), dtype=np.float32)
        self.chain_coef_[chain] = of_chain / 2
        self.slope_ = self.offset_ = None
        if not equal:
            missed = duals * (1.0 / (self.C * scaled) + (1.0 if X.left_out is None else X.left_out[:, None]))
            self.slope_, self.offset_ = fit_sigmoids((targets - missed + 1) / 2, targets > 0)
        return self


def solve_equal(
    system: KernelSystem, before: Matrix, targets: Matrix, seen: NDArray[np.integer], weights: Matrix | None = None
) -> Matrix:
    """Dual coefficients ``(K_k + I/C)⁻¹ t_k`` with ``K_k = K + 1 1ᵀ + B_k B_kᵀ``, where B_k are the labels before k.

    With the factor ``L Lᵀ = K + I/C`` the part of a label that is not K is a ridge regression on ``L⁻¹ [1, B_k]``, and
    those of all labels share one Cholesky factor, since the factor of a leading block is the leading block of the
    factor. Exact; all rows weigh the same. ``before`` (n_samples, n_chained) are the labels in chain order, of which
    problem k sees the first ``seen_k``; ``targets`` and the result are (n_samples, n_problems). ``weights`` are
    ignored. Also sets ``system.left_out``.
    """
    n_samples = system.shape[0]
    matrix = system.kernel.copy()
    matrix.flat[:: n_samples + 1] += 1.0 / system.C
    factor = linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    columns = np.hstack([np.ones((n_samples, 1), dtype=np.float32), before])
    whitened = linalg.solve_triangular(factor, columns, lower=True, check_finite=False)
    goals = linalg.solve_triangular(factor, targets, lower=True, check_finite=False)
    gram = (whitened.T @ whitened).astype(np.float64)
    gram.flat[:: len(gram) + 1] += 1.0
    small = linalg.cholesky(gram, lower=True, overwrite_a=True)
    visible = np.arange(len(gram))[:, None] <= seen
    half = linalg.solve_triangular(small, (whitened.T @ goals) * visible, lower=True) * visible
    linear = linalg.solve_triangular(small, half, lower=True, trans="T")
    goals -= whitened @ linear.astype(np.float32)
    duals = linalg.solve_triangular(factor, goals, lower=True, trans="T", overwrite_b=True, check_finite=False)
    if system.left_out is None:
        inverse, _ = linalg.lapack.strtri(factor, lower=1, overwrite_c=1)
        system.left_out = np.maximum(1.0 / np.einsum("ij,ij->j", inverse, inverse) - 1.0 / system.C, 0.0)
    return np.asarray(duals, dtype=np.float32)


def solve_weighted(
    system: KernelSystem,
    before: Matrix,
    targets: Matrix,
    seen: NDArray[np.integer],
    weights: Matrix,
    *,
    tol: float = 1e-2,
    max_iter: int = 100,
) -> Matrix:
    """Dual coefficients ``(K_k + W_k⁻¹/C)⁻¹ t_k``, each problem with its own weights; see :func:`solve_equal`.

    Conjugate gradients for ``S K_k S + I/C`` with ``S = W_k^½``, several problems at once, until the residual relative
    to the right-hand side is below ``tol``. The preconditioner takes K for its largest directions and a diagonal; what
    is left of K after those is small compared with the diagonal.
    """
    n_samples = system.shape[0]
    largest = system.largest
    joint = np.hstack([largest, np.ones((n_samples, 1), dtype=np.float32), before])
    gram = joint.T @ joint
    rest = max(float((system.kernel.diagonal() - np.einsum("ij,ij->i", largest, largest)).mean()), 0.0)
    ends = largest.shape[1] + 1 + seen
    duals = np.empty_like(targets)
    block = max(1, BLOCK_BYTES // (4 * (joint.shape[1] ** 2 + 10 * n_samples)))
    for start in range(0, len(seen), block):
        part = slice(start, start + block)
        roots = np.sqrt(weights[:, part])
        problems = _WeightedProblems(system, joint, gram, rest, ends[part], largest.shape[1], roots)
        right = roots * targets[:, part]
        duals[:, part] = roots * conjugate_gradients(problems.times, problems.precondition, right, tol, max_iter)
    return duals


class _WeightedProblems:
    """The matrices of some of the problems of :func:`solve_weighted`, and approximate inverses of them."""

    def __init__(
        self,
        system: KernelSystem,
        joint: Matrix,
        gram: Matrix,
        rest: float,
        ends: NDArray[np.integer],
        n_largest: int,
        roots: Matrix,
    ) -> None:
        self.system = system
        self.joint = joint
        self.gram = gram
        self.linear = joint[:, n_largest:]
        self.roots = roots
        self.visible = np.arange(joint.shape[1])[:, None] < ends
        self.visible_linear = self.visible[n_largest:]
        self.diagonal = np.float32(rest) * roots**2 + np.float32(1.0 / system.C)
        self.factors = [self._factor(number, end) for number, end in enumerate(ends)]

    def _factor(self, number: int, end: int) -> Any:
        """Of ``I + J_kᵀ S D⁻¹ S J_k``, by which Woodbury's identity inverts ``D + S J_k J_kᵀ S``."""
        share = self.roots[:, number] ** 2 / self.diagonal[:, number]
        # Rows that no learner was wrong about all have the same weight, so that only the others need a product.
        common = np.median(share)
        others = np.flatnonzero(share != common)
        rows = self.joint[others, :end]
        gram = common * self.gram[:end, :end] + (rows * (share[others] - common)[:, None]).T @ rows
        gram.flat[:: end + 1] += 1.0
        return linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)

    def times(self, v: Matrix) -> Any:
        scaled = self.roots * v
        image = matmul(self.system.kernel, scaled)
        image += self.linear @ ((self.linear.T @ scaled) * self.visible_linear)
        return self.roots * image + v / np.float32(self.system.C)

    def precondition(self, residual: Matrix) -> Matrix:
        level = residual / self.diagonal
        inner = (self.joint.T @ (self.roots * level)) * self.visible
        for number, factor in enumerate(self.factors):
            inner[: len(factor), number] = linalg.cho_solve((factor, True), inner[: len(factor), number])
        return level - self.roots * (self.joint @ inner) / self.diagonal
