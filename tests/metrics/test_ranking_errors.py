"""Bad input to the metrics gets one clear error."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from pysldl.exceptions import DataError
from pysldl.metrics import evaluate, precision_at_k

GOOD = {"Y_true": [[1, 0, 1], [0, 1, 0]], "predictions": [[0, 1], [1, 2]], "ks": (1, 2)}


def refused(message, **changed):
    with pytest.raises(DataError, match=message):
        evaluate(**(GOOD | changed))


def test_the_good_case_is_good():
    assert evaluate(**GOOD)["P@1"] == 1.0


@pytest.mark.parametrize(
    ("Y_true", "message"),
    [
        ([[1, 2, 0], [0, 0, 0]], "Y_true must hold only 0 and 1"),
        ([[1, np.nan, 0], [0, 0, 0]], "only 0 and 1"),
        (csr_array(([1, 1], [0, 0], [0, 2, 2]), shape=(2, 3)), "is 2"),
        ([1, 0, 1], "Y_true must have two dimensions"),
        (np.zeros((0, 3)), "Y_true is empty"),
        (np.zeros((3, 0)), "Y_true is empty"),
        (np.array([["a", "b", "c"], ["d", "e", "f"]]), "numbers 0 and 1, but has the data type"),
        ([["a", "b", "c"], ["d", "e", "f"]], "has names of labels: pass clf.encode"),
        ([{"a", "b"}, []], "has names of labels: pass clf.encode"),
        ([[1, 0], [1]], "rows differ in length"),
    ],
)
def test_bad_truth(Y_true, message):
    refused(message, Y_true=Y_true)


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        ([[0, 1]], r"predicted labels must have shape \(2, k\)"),
        ([0, 1], r"predicted labels must have shape \(2, k\)"),
        ([[0], [1]], "hold 1 labels a row, too few for k = 2"),
        ([[0, 3], [1, 2]], "label 3 in row 0 is out of range: labels are 0 to 2"),
        ([[0, 1], [1, -2]], "label -2 in row 1 is out of range"),
        ([[0, 1], [2, 2]], "label 2 occurs twice in row 1"),
        (np.zeros((2, 4)), r"scores have shape \(2, 4\), Y_true has \(2, 3\)"),
        (csr_array((3, 3)), r"scores have shape \(3, 3\)"),
        (np.full((2, 3), np.nan), "NaN"),
        (np.ones((2, 3), dtype=bool), "integer labels or floating-point scores"),
        ([["sky", "sea"], ["sky", "sea"]], "integer labels or floating-point scores.* in place of names pass clf"),
        ([["sky", "sea"], ["sky"]], "in place of names pass clf.predict_scores"),
        ([[0, 1], [2]], "differ in length: fill unused slots with -1"),
        ((np.zeros((2, 2), dtype=int),), "the pair"),
        ((np.array([[0, 1], [1, 2]]), np.zeros((2, 3))), "differ in shape"),
        ((np.zeros((2, 2)), np.zeros((2, 2))), "labels must be integers"),
    ],
)
def test_bad_predictions(predictions, message):
    refused(message, predictions=predictions)


def test_empty_slots_are_not_duplicates():
    assert precision_at_k(GOOD["Y_true"], [[-1, -1], [-1, 1]], 2) == pytest.approx(0.25)


@pytest.mark.parametrize("ks", [(0,), (1, -1), (1.0,), (True,)])
def test_bad_k(ks):
    refused("k must be a whole number of at least 1", ks=ks)


def test_no_k():
    refused("ks is empty", ks=())


@pytest.mark.parametrize(
    ("inv_propensity", "message"),
    [
        ([1.0, 1.0], r"must have shape \(3,\), got \(2,\)"),
        ([1.0, np.nan, 1.0], "finite and positive"),
        ([1.0, 0.0, 1.0], "finite and positive"),
    ],
)
def test_bad_propensities(inv_propensity, message):
    refused(message, inv_propensity=inv_propensity)


def test_bad_metric_names():
    refused("unknown metric 'F1': choose from P, nDCG, R, PSP, PSnDCG", metrics=("P", "F1"))
    refused("metric PSP needs inv_propensity", metrics=("PSP",))


@pytest.mark.parametrize(
    ("ignore_labels", "message"),
    [
        ([True, False], r"mask must have shape \(3,\)"),
        ([3], "columns 0 to 2"),
        ([-1], "columns 0 to 2"),
        ([0.5], "boolean mask or a list of column numbers"),
    ],
)
def test_bad_ignored_labels(ignore_labels, message):
    refused(message, ignore_labels=ignore_labels)
