"""Squared products with landmarks beside the features."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from pysldl import load_model, make_sldl
from pysldl.mapping import LandmarkRidge, RidgeMapping
from pysldl.mapping import landmarks as landmarks_module
from pysldl.persistence import load_predictor


def made_up(n=1200, width=12, *, curved):
    """Rows of length 1 whose targets are products of two features, or sums of them."""
    rng = np.random.default_rng(0)
    X = (rng.random((n, width)) < 0.3) * rng.random((n, width)) + 1e-3 * np.eye(width)[rng.integers(width, size=n)]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    Z = X[:, :4] * X[:, 4:8] if curved else X[:, :4] + X[:, 4:8]
    return sparse.csr_array(X), Z + 0.01 * rng.normal(size=Z.shape)


@pytest.mark.parametrize("curved", [True, False])
def test_landmarks_are_used_where_targets_are_curved(curved):
    X, Z = made_up(curved=curved)
    mapping, plain = LandmarkRidge(0.1, n_landmarks=80), RidgeMapping(0.1)
    errors = [np.square(one.fit(X[:1000], Z[:1000]).predict(X[1000:]) - Z[1000:]).mean() for one in (mapping, plain)]
    assert (mapping.landmarks_ is not None) == curved
    if curved:
        assert errors[0] < 0.7 * errors[1]
    else:
        assert (mapping.coef_ == plain.coef_).all() and errors[0] == errors[1]


def test_the_weights_are_those_of_a_regression_on_all_columns():
    X, Z = made_up(curved=True)
    mapping = LandmarkRidge(0.1, n_landmarks=80, use=True).fit(X, Z)
    squares = (X @ mapping.landmarks_.T).toarray() ** 2
    scale = 2.0 ** np.rint(0.5 * np.log2(X.shape[0] / np.square(squares).sum()))
    whole = RidgeMapping(0.1, solver="cholesky").fit(np.hstack([X.toarray(), scale * squares]), Z)
    np.testing.assert_allclose(mapping.predict(X), whole.predict(np.hstack([X.toarray(), scale * squares])), atol=1e-4)


def test_few_rows_have_no_landmarks_and_a_copy_does_what_the_first_did():
    X, Z = made_up(curved=True)
    assert LandmarkRidge(0.1, n_landmarks=80).fit(X[:300], Z[:300]).landmarks_ is None
    mapping = LandmarkRidge(0.1, n_landmarks=80).fit(X, Z)
    copy = clone(mapping).like(mapping).fit(X[:300], Z[:300])
    assert copy.landmarks_ is not None and copy.alpha_ == mapping.alpha_


def test_the_trial_gives_features_the_same_penalty_with_and_without_landmarks(monkeypatch):
    """A factor is written over its matrix."""
    given, factor = [], landmarks_module.cholesky_factor

    def remembered(A, alpha):
        given.append(A.copy())
        return factor(A, alpha)

    monkeypatch.setattr(landmarks_module, "cholesky_factor", remembered)
    X, Z = made_up(curved=True)
    LandmarkRidge(0.1, n_landmarks=80).fit(X, Z)
    alone, together = given[:2]
    assert len(alone) == X.shape[1] and len(together) == X.shape[1] + 80
    np.testing.assert_array_equal(alone, together[: len(alone), : len(alone)])


def test_what_is_known_to_help_is_fitted_at_once(monkeypatch):
    """Without the weights of the features alone, which would be thrown away."""
    X, Z = made_up(curved=True)
    first = LandmarkRidge(0.1, n_landmarks=80).fit(X, Z)
    monkeypatch.setattr("pysldl.mapping.ridge.solve_cholesky", None)
    copy = clone(first).like(first).fit(X, Z, leverage_of=np.arange(9))
    assert (copy.coef_ == first.coef_).all() and (copy.landmark_coef_ == first.landmark_coef_).all()
    assert copy.leverage_.shape == (9,)


def test_weights_at_a_row_add_up_to_its_code():
    X, Z = made_up(curved=True)
    mapping = LandmarkRidge(0.1, n_landmarks=80).fit(X, Z)
    row = X[[7]]
    np.testing.assert_allclose(row.data @ mapping.weights_at(row), mapping.predict(row)[0], atol=1e-5)


def test_an_update_keeps_the_landmarks():
    X, Z = made_up(curved=True)
    mapping = LandmarkRidge(0.1, n_landmarks=80).fit(X[:1000], Z[:1000])
    landmarks = mapping.landmarks_
    more = np.hstack([Z, np.ones((len(Z), 1))])  # a component that came later
    mapping.update(X, more)
    assert mapping.landmarks_ is landmarks and mapping.predict(X).shape == more.shape


def test_in_a_model_it_is_saved_loaded_explained_and_updated(tmp_path):
    rng = np.random.default_rng(1)
    X, Z = made_up(curved=True)
    Y = sparse.csr_array((np.hstack([Z, Z @ rng.normal(size=(4, 4))]) > 0.08).astype(np.float32))
    model = make_sldl("accurate", mapping__use=True, mapping__n_landmarks=50, online=True).fit(X[:1000], Y[:1000])
    assert model.mapping_.landmarks_ is not None and model.ranker_ is None and model.reranker_ is not None
    expected = model.predict_topk(X[1000:], 3)
    model.save(tmp_path / "model")
    for load in (load_model, load_predictor):
        found = load(tmp_path / "model").predict_topk(X[1000:], 3)
        assert all((one == other).all() for one, other in zip(expected, found, strict=True))
    told = model.explain(X[[1003]], int(expected[0][3, 0]))
    assert told.score == pytest.approx(expected[1][3, 0], abs=1e-5)
    assert sum(part.value for part in told.parts) == pytest.approx(told.score, abs=1e-3)
    assert model.partial_fit(X[1000:1100], Y[1000:1100]).n_samples_ == 1100


def test_many_rows_do_without_landmarks_instead_of_being_refused(monkeypatch):
    angles = np.linspace(0, 3, 400)
    X, Z = np.column_stack([np.cos(angles), np.sin(angles)]), np.sin(2 * angles)
    needed = LandmarkRidge(n_landmarks=5).memory(400, 2, 800, 1)
    monkeypatch.setattr("pysldl.mapping.landmarks.MOST_BYTES", 16 * 5 * 402 - 1)
    assert LandmarkRidge(n_landmarks=5).memory(400, 2, 800, 1) == needed - 16 * 5 * 402
    assert LandmarkRidge(alpha=0.01, n_landmarks=5).fit(X, Z).landmarks_ is None
    assert LandmarkRidge(alpha=0.01, n_landmarks=5, use=True).fit(X, Z).landmarks_ is not None
