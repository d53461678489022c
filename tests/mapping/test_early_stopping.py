"""Early stopping and the choice of the penalty, on rows that the regression does not see."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.backend.linear_algebra import design_matrix
from pysldl.exceptions import DataError
from pysldl.mapping import RidgeMapping
from pysldl.mapping.early_stopping import choose_alpha, rows_to_hold_out
from pysldl.mapping.solvers import ridge_steps


@pytest.fixture(scope="module")
def noisy():
    """Sparse rows with a Zipf's law over features, and targets with noise that can be learned by heart."""
    rng = np.random.default_rng(0)
    popularity = 1 / np.arange(1, 1501)
    columns = np.stack([rng.choice(1500, 15, replace=False, p=popularity / popularity.sum()) for _ in range(1200)])
    X = sparse.csr_array((rng.random(columns.size), columns.ravel(), np.arange(0, columns.size + 1, 15)), (1200, 1500))
    truth = rng.normal(size=(1500, 20))
    return X, X @ truth + 3 * rng.normal(size=(1200, 20)), truth


def test_early_stopping_takes_few_steps_and_loses_nothing(noisy):
    X, Z, truth = noisy
    exact = RidgeMapping(1.0, solver="cg").fit(X, Z)
    early = RidgeMapping(1.0, solver="cg", early_stopping=True, random_state=0).fit(X, Z)
    assert early.n_iter_ < exact.n_iter_ / 2
    error = np.mean((early.predict(X[early.held_rows_]) - X[early.held_rows_] @ truth) ** 2)
    held = np.setdiff1d(np.arange(1200), early.held_rows_)
    without = RidgeMapping(1.0, solver="cg").fit(X[held], Z[held])
    exact_error = np.mean((without.predict(X[early.held_rows_]) - X[early.held_rows_] @ truth) ** 2)
    assert error < 1.05 * exact_error


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_weights_never_see_the_held_out_targets(noisy, fit_intercept):
    X, Z, _ = noisy
    settings = {
        "solver": "cg",
        "early_stopping": True,
        "max_iter": 1,
        "random_state": 0,
        "fit_intercept": fit_intercept,
    }
    first = RidgeMapping(**settings).fit(X, Z)
    assert 1 <= len(first.held_rows_) <= 1200 // 20
    changed = Z.copy()
    changed[first.held_rows_] = changed[first.held_rows_[::-1]]  # their mean, which the intercept takes, stays
    np.testing.assert_allclose(RidgeMapping(**settings).fit(X, changed).coef_, first.coef_, atol=1e-6)


def test_of_several_penalties_the_best_on_held_out_rows_is_taken(noisy):
    X, Z, _ = noisy
    alphas = [0.01, 1.0, 30.0, 10_000.0]
    rows = rows_to_hold_out(1200, np.random.RandomState(0))
    others = np.setdiff1d(np.arange(1200), rows)
    errors = []
    for alpha in alphas:
        W = RidgeMapping(alpha, solver="cholesky").fit(X[others], Z[others, :8]).coef_
        errors.append(np.mean((X[rows] @ W - Z[rows, :8]) ** 2))
    assert 0 < np.argmin(errors) < 3
    single = design_matrix(X.astype(np.float32))
    assert choose_alpha(single, Z, alphas, rows, 2000, stops_early=False) == alphas[np.argmin(errors)]
    assert choose_alpha(single, Z, alphas, rows, 2000, stops_early=True) in alphas[:3]
    for solver in ("cg", "cholesky"):
        assert RidgeMapping(alphas, solver=solver, random_state=0).fit(X, Z).alpha_ == alphas[np.argmin(errors)]
    with pytest.raises(DataError, match="alpha must be zero or positive"):
        RidgeMapping([1.0, -2]).fit(X, Z)
    with pytest.raises(DataError, match="alpha must be zero or positive"):
        RidgeMapping([]).fit(X, Z)


def test_a_warm_start_saves_steps(noisy):
    X, Z, _ = noisy
    design = design_matrix(X.astype(np.float32))
    B = design.transposed_times(Z.astype(np.float32))
    goal = 1e-3 * np.linalg.norm(B, axis=0)
    large, _, _ = ridge_steps(design, B, 2.0, goal, 500)
    cold = ridge_steps(design, B, 1.5, goal, 500)
    warm = ridge_steps(design, B, 1.5, goal, 500, start=large)
    assert warm[1] < 0.8 * cold[1]
    np.testing.assert_allclose(warm[0], cold[0], atol=0.02 * np.abs(cold[0]).max())


def test_an_update_stops_where_the_fit_did(noisy):
    X, Z, truth = noisy
    mapping = RidgeMapping(1.0, solver="cg", early_stopping=True, random_state=0).fit(X[:-5], Z[:-5])
    steps = mapping.n_iter_
    mapping.update(X, Z)
    assert mapping.n_iter_ <= steps + 2 and mapping.held_rows_ is None
    exact = RidgeMapping(1.0, solver="cg").fit(X, Z)
    error, exact_error = (np.mean((fitted.predict(X) - X @ truth) ** 2) for fitted in (mapping, exact))
    assert error < 1.1 * exact_error


def test_single_precision_rows_are_not_copied_to_double(noisy):
    X, Z, _ = noisy
    single = RidgeMapping(solver="cg", tol=1e-4).fit(X.astype(np.float32), Z.astype(np.float32))
    double = RidgeMapping(solver="cholesky").fit(X, Z)
    np.testing.assert_allclose(single.coef_, double.coef_, atol=2e-3 * np.abs(double.coef_).max())
