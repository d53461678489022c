"""What every mapping must do."""

from copy import copy

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from pysldl.exceptions import DataError
from pysldl.mapping import LandmarkRidge, RidgeMapping, SharedFactorRidge

MAPPINGS = {
    "cholesky": RidgeMapping(0.5, solver="cholesky"),
    "conjugate gradients": RidgeMapping(0.5, solver="cg", random_state=0),
    "early stopping": RidgeMapping((0.1, 1.0), solver="cg", early_stopping=True, random_state=0),
    "lbfgs": RidgeMapping(0.5, solver="lbfgs"),
    "intercept": RidgeMapping(0.5, fit_intercept=True),
    "positive": RidgeMapping(0.5, positive=True),
    "shared factor": SharedFactorRidge(0.5, solver="cholesky"),
    "landmarks": LandmarkRidge(0.5, n_landmarks=25, use=True),
}


@pytest.fixture(params=MAPPINGS, ids=list(MAPPINGS))
def mapping(request):
    return clone(MAPPINGS[request.param])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = sparse.random_array((120, 30), density=0.2, random_state=rng, format="csr", dtype=np.float32)
    return X, (X @ rng.normal(size=(30, 4))).astype(np.float32)


def test_fit_returns_itself_and_the_same_bits_again(mapping, rows):
    assert mapping.fit(*rows) is mapping
    assert (clone(mapping).fit(*rows).coef_ == mapping.coef_).all()


def test_dense_and_sparse_features_give_the_same_codes(mapping, rows):
    X, Z = rows
    codes = mapping.fit(X, Z).predict(X)
    assert codes.shape == Z.shape
    # Early stopping may stop a step apart.
    tolerance = 0.1 if mapping.early_stopping else 5e-3
    np.testing.assert_allclose(clone(mapping).fit(X.toarray(), Z).predict(X.toarray()), codes, atol=tolerance)


def test_left_out_codes_are_those_of_a_fit_without_the_row(mapping, rows):
    X, Z = rows
    mapping.fit(X, Z, leverage_of=np.arange(120))
    if mapping.solver_ != "cholesky":
        pytest.skip("leverages are estimated, or not known")
    left_out = mapping.leave_one_out(mapping.predict(X), Z)[7]
    others = np.delete(np.arange(120), 7)
    refit = copy(mapping)
    if isinstance(mapping, LandmarkRidge):  # another fit would take other landmarks
        refit.update(X[others], Z[others])
    else:
        refit.fit(X[others], Z[others])
    if not mapping.fit_intercept:  # an intercept's mean moves with the row
        np.testing.assert_allclose(left_out, refit.predict(X[[7]])[0], atol=1e-4)


def test_states_its_memory_and_refuses_bad_parameters(mapping, rows):
    assert mapping.memory(1000, 500, 10_000, 32) > 0
    with pytest.raises(DataError, match="'max_iter' parameter"):
        mapping.set_params(max_iter=0).fit(*rows)
