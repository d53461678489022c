"""The kernel ridge learners of AdaBoost.C2 against one dense solve a label, and against leaving rows out."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from pysldl.baselines.adaboost_c2 import kernel_ridge_chain
from pysldl.baselines.adaboost_c2.kernel_ridge_chain import KernelRidgeChain, KernelSystem, solve_equal, solve_weighted
from pysldl.baselines.logistic import fit_sigmoids

N, C = 60, 1.3


@pytest.fixture(scope="module")
def problem():
    """Kernel, labels and weights of sixty rows; the weights of every label span four orders of magnitude."""
    rng = np.random.RandomState(0)
    kernel = rbf_kernel(rng.normal(size=(N, 4)), gamma=0.2).astype(np.float32)
    labels = (rng.uniform(size=(N, 3)) < 0.3).astype(np.float32)
    weights = (10.0 ** rng.uniform(-4, 0, size=(N, 3))).astype(np.float32)
    return kernel, labels, weights * N / weights.sum(axis=0)


def exact(kernel, labels, k, weights):
    """``(K + [1, B][1, B]ᵀ + W⁻¹/C)⁻¹ t`` for label k, which sees the labels before it."""
    seen = np.hstack([np.ones((N, 1)), labels[:, :k]])
    return np.linalg.solve(kernel + seen @ seen.T + np.diag(1.0 / (C * weights)), 2.0 * labels[:, k] - 1.0)


def test_equal_weights_are_solved_exactly(problem):
    kernel, labels, _ = problem
    duals = solve_equal(KernelSystem(kernel, C), labels, 2 * labels - 1, np.arange(3))
    for k in range(3):
        np.testing.assert_allclose(duals[:, k], exact(kernel.astype(float), labels, k, np.ones(N)), atol=1e-5)


@pytest.mark.parametrize("directions", [5, 100])
def test_weighted_problems_against_one_solve_per_label(problem, directions, monkeypatch):
    monkeypatch.setattr(kernel_ridge_chain, "LARGEST_DIRECTIONS", directions)
    monkeypatch.setattr(kernel_ridge_chain, "BLOCK_BYTES", 1)  # one label at a time
    kernel, labels, weights = problem
    duals = solve_weighted(KernelSystem(kernel, C), labels, 2 * labels - 1, np.arange(3), weights, tol=1e-6)
    for k in range(3):
        expected = exact(kernel.astype(float), labels, k, weights[:, k])
        np.testing.assert_allclose(duals[:, k], expected, atol=1e-3)


def test_the_preconditioner_saves_steps(problem, monkeypatch):
    kernel, labels, weights = problem
    steps = []
    times = kernel_ridge_chain._WeightedProblems.times
    monkeypatch.setattr(
        kernel_ridge_chain._WeightedProblems, "times", lambda self, v: steps.append(1) or times(self, v)
    )
    needed = []
    for directions in (1, 30):
        monkeypatch.setattr(kernel_ridge_chain, "LARGEST_DIRECTIONS", directions)
        steps.clear()
        solve_weighted(KernelSystem(kernel, C), labels, 2 * labels - 1, np.arange(3), weights, tol=1e-4)
        needed.append(len(steps))
    assert needed[1] < needed[0] / 2


def test_left_out_values_are_those_of_a_fit_without_the_row(problem):
    kernel, labels, _ = problem
    system = KernelSystem(kernel, C)
    solve_equal(system, labels, 2 * labels - 1, np.arange(3))
    plain = np.linalg.solve(kernel + np.eye(N) / C, 2.0 * labels[:, 0] - 1.0)  # neither intercept nor chain
    for row in (0, 7, 31):
        others = np.delete(np.arange(N), row)
        fitted = np.linalg.solve(kernel[np.ix_(others, others)] + np.eye(N - 1) / C, 2.0 * labels[others, 0] - 1.0)
        missed = 2.0 * labels[row, 0] - 1.0 - kernel[row, others] @ fitted
        assert missed == pytest.approx(plain[row] * (system.left_out[row] + 1.0 / C), abs=1e-5)


def test_a_chain_gives_the_values_of_its_duals(problem):
    kernel, labels, weights = problem
    Y, order = sparse.csr_array(labels), np.array([2, 0, 1])
    system = KernelSystem(kernel, C)
    first = KernelRidgeChain(C=C).fit(system, Y, order, order, np.full((N, 3), 1 / N, dtype=np.float32))
    second = KernelRidgeChain(C=C).fit(system, Y, order, order[1:], weights[:, :2] / N)
    assert first.slope_ is None
    for chain, weight in ((first, np.ones((N, 3))), (second, weights)):
        for number, label in enumerate(chain.labels_):
            before = order[: order.tolist().index(label)]
            seen = np.hstack([np.ones((N, 1)), labels[:, before]])
            shifted = np.hstack([labels[:, before], labels[:, [label]]])
            duals = exact(kernel.astype(float), shifted, len(before), weight[:, number])
            value = (kernel @ duals + seen @ (seen.T @ duals) + 1) / 2
            np.testing.assert_allclose(chain._values(kernel, Y)[:, number], value, atol=5e-3)
            assert (chain.chain_coef_[[other for other in range(3) if other not in before], number] == 0).all()
            if chain is second:
                left_out = labels[:, label] - duals / 2 * (system.left_out + 1 / (C * weight[:, number]))
                slope, offset = fit_sigmoids(left_out[:, None], labels[:, [label]] > 0)
                np.testing.assert_allclose(
                    [chain.slope_[number], chain.offset_[number]], [slope[0], offset[0]], rtol=0.05
                )


def test_rows_of_no_weight_do_no_harm(problem):
    kernel, labels, weights = problem
    weights = weights.copy()
    weights[:5] = 0.0
    order = np.arange(3)
    fitted = KernelRidgeChain(C=C).fit(KernelSystem(kernel, C), sparse.csr_array(labels), order, order, weights / N)
    P = np.zeros((N, 3), dtype=np.float32)
    fitted.fill(kernel, P)
    assert np.isfinite(P).all() and 0 <= P.min() <= P.max() <= 1
