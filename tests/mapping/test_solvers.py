"""The cost model takes the solver that is faster."""

import time

import numpy as np
import pytest
from scipy import linalg, sparse

from pysldl.backend.linear_algebra import design_matrix
from pysldl.experiments.run.environment import one_thread
from pysldl.mapping import RidgeMapping
from pysldl.mapping.ridge import choose_solver, solver_seconds
from pysldl.mapping.solvers import deflation_directions, ridge_steps


def test_the_factor_for_few_features_and_iteration_for_many():
    assert choose_solver(16_000, 500, 300_000, 128) == "cholesky"
    assert choose_solver(200, 1_763, 10_000, 128) == "cholesky"
    assert choose_solver(45_000, 19_790, 6_000_000, 128) == "cg"
    assert choose_solver(80_000, 81_101, 1_500_000, 128) == "cg"


def test_no_factor_that_does_not_fit():
    size = (50_000, 40_000, 10**7, 10_000)
    assert solver_seconds(*size)["cholesky"] < solver_seconds(*size)["cg"]
    assert choose_solver(*size) == "cg"


@pytest.mark.parametrize(
    ("n_samples", "n_features", "a_row", "n_targets"),
    [(6000, 150, 10, 48), (300, 2000, 20, 48), (3000, 2500, 6, 2)],
    ids=["few features", "few rows", "few targets"],
)
def test_the_choice_is_the_faster_one_where_it_matters(n_samples, n_features, a_row, n_targets):
    rng = np.random.default_rng(0)
    X = sparse.random_array((n_samples, n_features), density=a_row / n_features, random_state=rng, format="csr")
    Z = rng.normal(size=(n_samples, n_targets))

    def seconds(solver):
        spent = []
        for _ in range(3):
            started = time.process_time()
            RidgeMapping(solver=solver, tol=1e-4).fit(X, Z)
            spent.append(time.process_time() - started)
        return min(spent[1:])  # the first compiles

    with one_thread():  # threads that wait for a core which others use would count as work
        spent = {solver: seconds(solver) for solver in ("cholesky", "cg")}
    chosen = choose_solver(n_samples, n_features, X.nnz, n_targets)
    assert spent[chosen] < 3 * min(spent.values()), spent


# Directions that slow conjugate gradients down, and what taking them out of the way brings


ALPHA = 0.5


@pytest.fixture(scope="module")
def texts():
    """Rows that share topics: a few dozen directions hold most of the variance."""
    rng = np.random.default_rng(0)
    topics = rng.gamma(0.1, size=(12, 300))
    X = rng.poisson(rng.dirichlet(np.full(12, 0.1), 800) @ topics * 2).astype(np.float32)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    return sparse.csr_array(X), rng.normal(size=(800, 10)).astype(np.float32)


def test_the_same_solution_in_fewer_steps(texts):
    X, Z = texts
    design = design_matrix(X)
    B = design.transposed_times(Z)
    goal = 1e-4 * np.linalg.norm(B, axis=0)
    scale = (1 / (design.column_squares() + ALPHA)).astype(np.float32)
    deflation = deflation_directions(design, ALPHA, scale, 16)
    plain, n_plain, _ = ridge_steps(design, B, ALPHA, goal, 500)
    found, n_found, _ = ridge_steps(design, B, ALPHA, goal, 500, deflation=deflation)
    exact = linalg.solve((X.T @ X).toarray() + ALPHA * np.eye(300), B, assume_a="pos")
    for W in (plain, found):
        assert np.linalg.norm(W - exact) < 1e-3 * np.linalg.norm(exact)
    assert n_found <= 0.7 * n_plain


def test_the_correction_is_the_inverse_along_its_directions(texts):
    """Along every direction the corrected operator has one and the same eigenvalue, the smallest of theirs."""
    X, _ = texts
    design = design_matrix(X.astype(np.float64))
    scale = 1 / (design.column_squares() + ALPHA)
    leading = deflation_directions(design, ALPHA, scale, 4)
    A = (X.T @ X).toarray().astype(np.float64) + ALPHA * np.eye(300)
    P = np.diag(scale) + leading.V @ (leading.gain * leading.V.T)
    assert linalg.eigvalsh(P).min() > 0
    before = linalg.eigvals(np.diag(scale) @ A).real
    after = linalg.eigvals(P @ A).real
    assert after.max() < 0.6 * before.max()
    assert after.min() == pytest.approx(before.min(), rel=1e-2)
