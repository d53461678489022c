"""The controls against what they claim to be, and the calibration that some baselines share."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from pysldl import baselines
from pysldl.baselines import FeatureNeighbors, LabelPrior, OneVsRestLogistic, RidgeReadout
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.exceptions import DataError, MemoryLimitError


@pytest.fixture(scope="module")
def world():
    data = make_asymmetric_multilabel(random_state=0)
    train, test = data.split("train"), data.split("test")
    used = np.flatnonzero(train.Y[:300].sum(axis=0))[:12]
    return train.X[:300], sparse.csr_array(train.Y[:300][:, used]), test.X[:40], sparse.csr_array(test.Y[:40][:, used])


def test_prior_is_the_share_of_rows(world):
    X, Y, X_new, _ = world
    scores = LabelPrior().fit(X, Y).decision_function(X_new)
    np.testing.assert_allclose(scores, np.tile(Y.toarray().mean(axis=0), (40, 1)), rtol=1e-6)


def test_neighbors_vote_with_one_over_distance(world):
    X, Y, X_new, _ = world
    scores = FeatureNeighbors(n_neighbors=7).fit(X, Y).decision_function(X_new)
    cosine = (normalize(X_new) @ normalize(X).T).toarray()
    for row in range(5):
        nearest = np.argsort(-cosine[row])[:7]
        weights = 1.0 / np.maximum(1.0 - cosine[row, nearest], 1e-6)
        expected = weights @ Y.toarray()[nearest] / weights.sum()
        np.testing.assert_allclose(scores[row], expected, rtol=1e-3, atol=1e-4)


def test_ridge_is_the_closed_form(world):
    X, Y, X_new, _ = world
    scores = RidgeReadout(alpha=2.0).fit(X, Y).decision_function(X_new)
    rows = normalize(X).toarray().astype(np.float64)
    W = np.linalg.solve(rows.T @ rows + 2.0 * np.eye(rows.shape[1]), rows.T @ Y.toarray())
    np.testing.assert_allclose(scores, normalize(X_new) @ W, atol=1e-4)


def test_ridge_calibrates_on_scores_of_left_out_rows(world):
    X, Y, _, _ = world
    in_sample = RidgeReadout(alpha=0.01, random_state=0).fit(X, Y)
    fits_too_well = in_sample.predict(X)
    hits = float((fits_too_well.multiply(Y)).sum())
    training_f1 = 2 * hits / (fits_too_well.nnz + Y.nnz)
    assert in_sample.calibration_.held_out_f1_ < training_f1 - 0.05


def test_logistic_is_one_regression_per_label(world):
    X, Y, X_new, _ = world
    model = OneVsRestLogistic(C=3.0, calibrate=False).fit(X, Y)
    label = int(np.argmax(model.label_counts_))
    alone = LogisticRegression(C=3.0, tol=1e-8, max_iter=5000, solver="liblinear")
    alone.fit(normalize(X).toarray(), Y[:, [label]].toarray().ravel())
    expected = alone.predict_proba(normalize(X_new).toarray())[:, 1]
    np.testing.assert_allclose(model.decision_function(X_new)[:, label], expected, atol=1e-3)


def test_logistic_reports_progress_and_refuses_bad_C(world):  # noqa: N802
    X, Y, _, _ = world
    seen = []
    OneVsRestLogistic(calibrate=False, progress=seen.append).fit(X, Y)
    assert seen[-1].step == seen[-1].total == 12
    with pytest.raises(DataError, match="The 'C' parameter of OneVsRestLogistic"):
        OneVsRestLogistic(C=0.0).fit(X, Y)


@pytest.mark.parametrize("control", [FeatureNeighbors, OneVsRestLogistic, RidgeReadout])
def test_refuses_what_does_not_fit_into_memory(world, control):
    X, Y, _, _ = world
    with pytest.raises(MemoryLimitError, match="the limit is 100 B"):
        control(memory_limit="100 B").fit(X, Y)


@pytest.mark.parametrize("control", [FeatureNeighbors, OneVsRestLogistic, RidgeReadout])
def test_without_calibration_only_rankings(world, control):
    X, Y, X_new, _ = world
    model = control(calibrate=False).fit(X, Y)
    assert (model.predict_topk(X_new, 2)[0] >= 0).all()
    with pytest.raises(DataError, match="calibrate=True"):
        model.predict(X_new)


def test_held_out_calibration_leaves_the_model_alone(world):
    X, Y, X_new, _ = world
    with_it = OneVsRestLogistic(random_state=0).fit(X, Y)
    without = OneVsRestLogistic(calibrate=False, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(with_it.decision_function(X_new), without.decision_function(X_new))


def test_held_out_calibration_is_honest(world):
    """On new rows the predicted probabilities average to about the share of true labels."""
    X, Y, X_new, Y_new = world
    model = OneVsRestLogistic(C=100.0, random_state=0).fit(X, Y)
    assert model.predict_proba(X_new).mean() == pytest.approx(Y_new.toarray().mean(), rel=0.5)


def test_what_needs_no_torch_does_not_import_it():
    code = (
        "import sys; from pysldl.baselines import BASELINES, CONTROLS; "
        "print(BASELINES['SLEEC'](), BASELINES['AdaC2'](n_rounds=3), *[build() for build in CONTROLS.values()]); "
        "assert 'torch' not in sys.modules"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "SLEEC(random_state=0)" in shown
    assert "AdaBoostC2(n_rounds=3, random_state=0)" in shown


def test_unknown_name():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = baselines.Nothing
