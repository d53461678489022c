"""The three solvers find the same W, which is the closed form."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from pysldl.exceptions import DataError
from pysldl.mapping import RidgeMapping

SOLVERS = ["cholesky", "cg", "lbfgs"]
ELEVEN = [
    "cal500",
    *(f"corel16k-s{part}" for part in (1, 2, 3)),
    "delicious",
    *(f"stackex-{site}" for site in ("chemistry", "chess", "coffee", "cooking", "cs", "philosophy")),
]


@pytest.fixture(params=[(120, 30), (25, 80)], ids=["tall", "wide"])
def problem(request):
    n, q = request.param
    rng = np.random.default_rng(0)
    X = sparse.random_array((n, q), density=0.3, random_state=rng, format="csr") + 0.0
    return X, rng.normal(size=(n, 4))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix, lambda X: X.toarray()])
def test_equals_the_closed_form(problem, solver, fit_intercept, container):
    X, Z = problem
    reference = Ridge(alpha=0.7, fit_intercept=fit_intercept, tol=1e-12).fit(X.toarray(), Z)
    ours = RidgeMapping(0.7, solver=solver, fit_intercept=fit_intercept, tol=1e-9).fit(container(X), Z)
    np.testing.assert_allclose(ours.coef_, reference.coef_.T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.predict(container(X)), reference.predict(X.toarray()), atol=1e-4)


def test_nonnegative_weights_equal_scikit_learn_s(problem):
    X, Z = problem
    reference = Ridge(alpha=0.7, positive=True, solver="lbfgs", tol=1e-10).fit(X.toarray(), Z)
    ours = RidgeMapping(0.7, positive=True, fit_intercept=True, tol=1e-9).fit(X, Z)
    assert ours.solver_ == "lbfgs" and (ours.coef_ >= 0).all()
    np.testing.assert_allclose(ours.coef_, reference.coef_.T, atol=1e-4)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_leave_one_out_equals_refitting_without_the_row(problem, fit_intercept):
    X, Z = problem
    rows = np.array([3, 0, 11])
    full = RidgeMapping(0.7, solver="cholesky", fit_intercept=fit_intercept).fit(X, Z, leverage_of=rows)
    if fit_intercept:  # centring on all rows leaves out the row's part in the mean
        assert full.leverage_ is not None and (full.leverage_ < 1).all()
        return
    found = full.leave_one_out(full.predict(X)[rows], Z[rows])
    for row, code in zip(rows, found, strict=True):
        others = np.delete(np.arange(X.shape[0]), row)
        refit = RidgeMapping(0.7, solver="cholesky").fit(X[others], Z[others])
        np.testing.assert_allclose(code, refit.predict(X[[row]])[0], atol=1e-4)


def test_estimated_leverages_are_near_the_exact_ones(problem):
    X, Z = problem
    rows = np.arange(X.shape[0])
    exact = RidgeMapping(5.0, solver="cholesky").fit(X, Z, leverage_of=rows).leverage_
    estimated = RidgeMapping(5.0, solver="cg", random_state=0).fit(X, Z, leverage_of=rows).leverage_
    assert np.abs(exact - estimated).mean() < 0.1


@pytest.mark.data
@pytest.mark.parametrize("name", ELEVEN)
def test_solvers_agree_on_real_data(data_dir, name):
    from sklearn.preprocessing import normalize

    from pysldl.datasets import load_dataset

    data = load_dataset(name, data_dir)
    X = normalize(data.X)
    Z = data.Y @ np.random.default_rng(0).normal(size=(data.Y.shape[1], 8))
    W = {solver: RidgeMapping(solver=solver, tol=1e-7).fit(X, Z).coef_ for solver in SOLVERS}
    for solver in ("cg", "lbfgs"):
        difference = np.linalg.norm(W[solver] - W["cholesky"]) / np.linalg.norm(W["cholesky"])
        assert difference < 1e-4, solver


def test_sparse_input_is_never_made_dense():
    import tracemalloc

    X = sparse.random_array((2_000, 20_000), density=0.0005, random_state=np.random.default_rng(0), format="csr")
    Z = np.ones((2_000, 2))
    tracemalloc.start()
    RidgeMapping(solver="cg", fit_intercept=True).fit(X, Z)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000 * 20_000 * 8 / 10


def test_sparse_targets_give_the_weights_of_dense_ones(problem):
    X, _ = problem
    Z = sparse.random_array((X.shape[0], 6), density=0.2, random_state=np.random.default_rng(1), format="csr")
    found = [RidgeMapping(0.7, solver="cholesky").fit(X, targets).coef_ for targets in (Z, Z.toarray())]
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-9)


def test_weights_in_half_precision_are_near_the_others(problem):
    X, Z = problem
    single, half = (RidgeMapping(0.7, half_precision=is_half).fit(X, Z).coef_ for is_half in (False, True))
    assert (half.astype(np.float16) == half).all() and (half != single).any()
    np.testing.assert_allclose(half, single, rtol=1e-3, atol=1e-7)


def test_progress_of_conjugate_gradients(problem):
    steps = []
    RidgeMapping(solver="cg").fit(*problem, progress=steps.append)
    assert steps[0].stage == "mapping" and steps[-1].loss < 1e-5


def test_bad_parameters_name_the_remedy(problem):
    with pytest.raises(DataError, match="positive=True needs solver='lbfgs'"):
        RidgeMapping(positive=True, solver="cg").fit(*problem)
    with pytest.raises(DataError, match="'alpha' parameter"):
        RidgeMapping(alpha=-1).fit(*problem)
    with pytest.raises(DataError, match="'solver' parameter"):
        RidgeMapping(solver="qr").fit(*problem)


@parametrize_with_checks([RidgeMapping()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_memory_counts_normal_equations_only_where_they_are_kept():
    def kept(n_samples, solver):
        sizes = (n_samples, 1000, 10_000, 8)
        return RidgeMapping(solver=solver, keep_normal_equations=True).memory(*sizes) - RidgeMapping(
            solver=solver
        ).memory(*sizes)

    assert kept(5000, "cholesky") == 8 * 1000**2
    assert kept(500, "cholesky") == 0  # there are fewer rows than features: the rows themselves are smaller
    assert kept(5000, "cg") == 0
