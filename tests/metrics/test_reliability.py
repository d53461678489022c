"""Summaries of held-out rows: hits, reliability and recall by label frequency."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.metrics.ranking import hits_of
from pysldl.metrics.reliability import by_frequency, reliability, reliability_report

Y = sparse.csr_array(np.array([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0]], dtype=np.float32))
LABELS = np.array([[2, 1], [1, -1], [0, 3], [3, 0]])


def test_hits_are_what_the_indicator_says():
    assert hits_of(LABELS, Y).tolist() == [[True, False], [True, False], [False, False], [False, True]]
    rng = np.random.default_rng(0)
    truth = sparse.csr_array((rng.random((50, 30)) < 0.2).astype(np.float32))
    labels = np.stack([rng.permutation(30)[:6] for _ in range(50)])
    np.testing.assert_array_equal(hits_of(labels, truth), np.take_along_axis(truth.toarray() > 0, labels, axis=1))


def test_reliability_compares_probability_with_frequency():
    bins = reliability(np.array([0.05, 0.95, 0.91, 1.0]), np.array([False, True, False, True]))
    assert [one["n"] for one in bins] == [1, 3]
    assert bins[1]["observed"] == pytest.approx(2 / 3) and bins[1]["predicted"] == pytest.approx(2.86 / 3)


def test_a_report_counts_rows_and_hits_by_label():
    report = reliability_report(LABELS, Y, None)
    assert report["n_rows"] == 4 and report["reliability"] == []
    assert report["n_true"].tolist() == [2, 2, 1, 0] and report["n_found"].tolist() == [1, 1, 1, 0]
    assert report["metrics"]["P@1"] == 0.5


def test_slots_without_a_label_are_no_predictions():
    report = reliability_report(LABELS, Y, np.full(LABELS.shape, 0.25))
    assert [one["predicted"] for one in report["reliability"]] == [0.25]
    assert report["reliability"][0]["n"] == 7  # all but the slot without a label


def test_recall_by_training_frequency():
    groups = by_frequency(np.array([4, 0, 2]), np.array([3, 0, 0]), np.array([1, 1, 50]))
    assert [(group["from"], group["to"], group["n_labels"]) for group in groups] == [(1, 1, 2), (30, 99, 1)]
    assert [group["recall"] for group in groups] == [0.75, 0.0]
