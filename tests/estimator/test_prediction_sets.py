"""Sets of labels with a wanted recall or precision."""

import numpy as np
import pytest
from scipy import sparse

from pysldl import make_sldl
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.estimator.calibration import PredictionSets
from pysldl.exceptions import DataError
from pysldl.persistence import load_model, load_predictor


def draw(n_rows, seed, n_labels=30):
    """Rows whose true labels tend to score higher."""
    rng = np.random.default_rng(seed)
    chances = rng.beta(0.5, 3.0, size=(n_rows, n_labels))
    return chances.astype(np.float32), sparse.csr_array((rng.random(chances.shape) < chances).astype(np.float32))


def mean_recall(chosen, Y):
    n_true = Y.sum(axis=1)
    return float(((chosen * Y.toarray()).sum(axis=1)[n_true > 0] / n_true[n_true > 0]).mean())


def test_recall_holds_in_the_mean_over_draws():
    new, true = draw(4000, 99)
    found = []
    for seed in range(40):
        threshold = PredictionSets().fit(*draw(150, seed)).threshold(recall=0.8)
        found.append(mean_recall(new >= threshold, true))
    assert 0.798 <= np.mean(found) <= 0.83  # in expectation, not for every draw
    assert min(found) < 0.8


def test_recall_with_confidence_holds_for_that_share_of_draws():
    new, true = draw(4000, 99)
    cuts = [PredictionSets().fit(*draw(150, seed)).threshold(recall=0.8, confidence=0.9) for seed in range(40)]
    below = [mean_recall(new >= cut, true) < 0.8 for cut in cuts]
    assert np.mean(below) <= 0.2


def test_precision_holds_for_most_draws():
    new, true = draw(4000, 99)
    for wanted in (0.4, 0.6):
        right = []
        for seed in range(40):
            chosen = new >= PredictionSets().fit(*draw(300, seed)).threshold(precision=wanted)
            right.append(float((chosen * true.toarray()).sum() / chosen.sum()))
        assert np.mean(np.array(right) < wanted) <= 0.2
        assert np.mean(right) <= wanted + 0.15  # and is not bought by empty sets


def test_moments_are_those_of_the_sets():
    scores, Y = draw(200, 3)
    sets = PredictionSets().fit(scores, Y)
    for place in (0, len(sets.thresholds_) // 2, -1):
        chosen = scores >= sets.thresholds_[place]
        recall, _, size, wrong, size_squared, _, product = sets.moments_[place]
        bad = chosen.sum(axis=1) - (chosen * Y.toarray()).sum(axis=1)
        np.testing.assert_allclose(recall, mean_recall(chosen, Y))
        np.testing.assert_allclose([size, wrong], [chosen.sum(axis=1).mean(), bad.mean()])
        np.testing.assert_allclose(size_squared, (chosen.sum(axis=1) ** 2).mean())
        np.testing.assert_allclose(product, (chosen.sum(axis=1) * bad).mean())


def test_coverage_by_label_frequency_adds_up():
    scores, Y = draw(200, 4)
    sets = PredictionSets().fit(scores, Y)
    counts = np.arange(1, 31)
    shown = sets.coverage(sets.threshold(recall=0.7), counts)
    chosen = scores >= shown.threshold
    assert sum(group["n_true"] for group in shown.groups) == Y.nnz
    found = sum(round(group["recall"] * group["n_true"]) for group in shown.groups if group["n_true"])
    assert found == int((chosen * Y.toarray()).sum())
    assert (
        "labels a row on 200 held-out rows" in str(shown)
        and "<table" in shown._repr_html_()
        and "recall" in repr(shown)
    )


def test_what_held_out_rows_do_not_support_is_refused():
    scores, Y = draw(100, 5)
    sets = PredictionSets().fit(sparse.csr_array(np.where(scores > 0.2, scores, 0)), Y)
    with pytest.raises(DataError, match=r"recall=0\.99 is out of reach: .* allow at most 0\.\d+"):
        sets.threshold(recall=0.99)
    with pytest.raises(DataError, match=r"precision=0\.999 is out of reach"):
        sets.threshold(precision=0.999)
    with pytest.raises(DataError, match="one of them"):
        sets.threshold()
    with pytest.raises(DataError, match="one of them"):
        sets.threshold(recall=0.5, precision=0.5)
    with pytest.raises(DataError, match="recall must lie between 0 and 1, but is 90"):
        sets.threshold(recall=90)
    with pytest.raises(DataError, match="No held-out row had a label"):
        PredictionSets().fit(scores, sparse.csr_array(Y.shape)).threshold(recall=0.5)


@pytest.fixture(scope="module")
def fitted():
    data = make_asymmetric_multilabel(900, 120, 30, random_state=0)
    train, test = data.split("train"), data.split("test")
    return make_sldl("fast").fit(train.X, train.Y), test


def test_sets_of_a_model(fitted, tmp_path):
    clf, test = fitted
    chosen = clf.predict_set(test.X, recall=0.9)
    assert sparse.issparse(chosen) and chosen.shape == test.Y.shape
    assert mean_recall(chosen.toarray(), test.Y) >= 0.85
    assert clf.predict_set(test.X, recall=0.5).nnz < chosen.nnz
    assert clf.set_coverage(recall=0.9).recall >= 0.9
    clf.save(tmp_path / "model")
    for model in (load_model(tmp_path / "model"), load_predictor(tmp_path / "model")):
        np.testing.assert_array_equal(model.predict_set(test.X, recall=0.9).toarray(), chosen.toarray())


def test_sets_of_names_are_lists_and_classes_have_none(fitted):
    clf, test = fitted
    threshold = clf.set_coverage(recall=0.9).threshold
    np.testing.assert_array_equal(
        clf.predict(test.X, threshold=threshold).toarray(), clf.predict_set(test.X, recall=0.9).toarray()
    )
    names = [[f"l{label}" for label in test.Y[[row]].indices] for row in range(test.n_samples)]
    named = make_sldl("fast").fit(test.X, names)
    assert all(isinstance(row, list) for row in named.predict_set(test.X[:5], recall=0.5))
    classes = make_sldl("fast").fit(test.X, np.arange(test.n_samples) % 3)
    with pytest.raises(DataError, match="one class per row"):
        classes.predict_set(test.X, recall=0.5)
    with pytest.raises(DataError, match="calibrate=True"):
        make_sldl("fast", calibrate=False).fit(test.X, names).predict_set(test.X, recall=0.5)
