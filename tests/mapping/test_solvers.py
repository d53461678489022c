"""The cost model takes the solver that is faster."""

import time

import numpy as np
import pytest
from scipy import sparse

from pysldl.experiments.run.environment import one_thread
from pysldl.mapping import RidgeMapping
from pysldl.mapping.ridge import choose_solver, solver_seconds


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
