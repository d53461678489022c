"""Thresholds and probabilities that are learned on the scores of held-out rows."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.estimator.calibration import ScoreCalibration


def random_scores(n_rows=4000, n_labels=6, seed=0):
    """Scores whose labels apply with the probability that the score says, cubed."""
    rng = np.random.default_rng(seed)
    scores = rng.random((n_rows, n_labels))
    return scores, sparse.csr_array((rng.random(scores.shape) < scores**3).astype(np.float32))


def test_probabilities_are_those_of_the_labels():
    scores, Y = random_scores()
    found = ScoreCalibration().fit(scores, Y).probability(np.array([0.3, 0.5, 0.7, 0.9]))
    np.testing.assert_allclose(found, np.array([0.3, 0.5, 0.7, 0.9]) ** 3, atol=0.05)


def test_the_curve_never_falls_and_is_never_certain():
    scores, Y = random_scores(50)
    found = ScoreCalibration().fit(scores, Y).probability(np.linspace(-1, 2, 100))
    assert (np.diff(found) >= 0).all() and found.min() > 0 and found.max() < 1
    assert ScoreCalibration().fit(scores, Y).probability(np.array([-np.inf])) == 0


def test_the_threshold_has_the_best_micro_f1():
    scores, Y = random_scores(300)
    truth = Y.toarray() > 0

    def f1(threshold):
        predicted = scores >= threshold
        return 2 * (predicted & truth).sum() / (predicted.sum() + truth.sum())

    best = ScoreCalibration().fit(scores, Y)
    assert f1(best.threshold_) == pytest.approx(max(f1(threshold) for threshold in scores.ravel()))
    assert best.held_out_f1_ == pytest.approx(f1(best.threshold_), abs=0.05)
    assert best.held_out_f1_ <= f1(best.threshold_) + 1e-12


def test_ties_are_predicted_together():
    Y = sparse.csr_array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    scores = np.array([[0.5, 0.5], [0.5, 0.1], [0.1, 0.5]])
    assert 0.1 < ScoreCalibration().fit(scores, Y).threshold_ < 0.5


def test_sparse_scores_are_as_dense_ones_whose_rest_is_zero():
    scores, Y = random_scores(200)
    scores[scores < 0.4] = 0
    stored, dense = ScoreCalibration().fit(sparse.csr_array(scores), Y), ScoreCalibration().fit(scores, Y)
    assert stored.threshold_ == pytest.approx(dense.threshold_)
    np.testing.assert_allclose(stored.probability(scores), dense.probability(scores), atol=0.01)


def test_rows_without_any_candidate():
    scores = sparse.csr_array(([0.7], ([0], [1])), shape=(4, 3))
    calibration = ScoreCalibration().fit(scores, sparse.csr_array(np.eye(4, 3)))
    assert np.isfinite(calibration.threshold_) and 0 <= calibration.held_out_f1_ <= 1
