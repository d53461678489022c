"""Metric values worked out by hand on four rows that hold every special case.

    row  true labels  predicted   hits
    0    0, 1, 5      1, 2, 0     1 0 1    label 5 never occurred in training
    1    3            0, 3, 4     0 1 0    fewer true labels than k
    2    none         2, 1, 0     0 0 0    no true label
    3    2, 4         4, -, -     1 0 0    fewer predictions than k

Weights w = 1, 2, 3, 4, 5, 8. Discounts 1/log2(r + 1): 1, 0.63092975, 0.5;
their sums G_1 = 1, G_2 = 1.63092975, G_3 = 2.13092975.
"""

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

from pysldl.metrics import (
    evaluate,
    ndcg_at_k,
    precision_at_k,
    psndcg_at_k,
    psprecision_at_k,
    recall_at_k,
)

Y = np.array(
    [
        [1, 1, 0, 0, 0, 1],
        [0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [0, 0, 1, 0, 1, 0],
    ]
)
LABELS = np.array([[1, 2, 0], [0, 3, 4], [2, 1, 0], [4, -1, -1]])
WEIGHTS = [1.0, 2.0, 3.0, 4.0, 5.0, 8.0]

# Dense scores with the same ranking: falling by place, -inf for what is never predicted.
SCORES = np.full(Y.shape, -np.inf)
for _row, _labels in enumerate(LABELS):
    for _place, _label in enumerate(_labels[_labels >= 0]):
        SCORES[_row, _label] = 0.5 - _place

GOLDEN = {
    "P@1": 2 / 4,  # (1 + 0 + 0 + 1) / 4
    "P@3": 4 / 12,  # (2/3 + 1/3 + 0 + 1/3) / 4
    "nDCG@1": 2 / 4,
    # (1 + 0.5) / G_3 = 0.70391809; 0.63092975 / G_1; 0; 1 / G_2 = 0.61314719; their mean
    "nDCG@3": 0.48699876,
    "R@1": 5 / 24,  # (1/3 + 0 + 0 + 1/2) / 4
    "R@3": 13 / 24,  # (2/3 + 1 + 0 + 1/2) / 4
    "PSP@1": 7 / 17,  # (2 + 0 + 0 + 5) / (8 + 4 + 0 + 5)
    "PSP@3": 12 / 23,  # ((2 + 1) + 4 + 0 + 5) / ((8 + 2 + 1) + 4 + 0 + (5 + 3))
    "PSnDCG@1": 7 / 17,
    # gained:     2.5 / G_3 = 1.17319681; 4 * 0.63092975 = 2.52371901; 5 / G_2 = 3.06573596: 6.76265178
    # attainable: (8 + 2 * 0.63092975 + 0.5) / G_3 = 9.76185951 / G_3 = 4.58103301; 4;
    #             (5 + 3 * 0.63092975) / G_2 = 6.89278926 / G_2 = 4.22629438: 12.80732739
    "PSnDCG@3": 0.52802990,
}

PREDICTION_FORMS = {
    "labels": LABELS,
    "labels as lists": LABELS.tolist(),
    "labels and scores": (LABELS, np.where(LABELS >= 0, 0.5, -np.inf)),
    "wider labels": np.hstack([LABELS, [[5], [2], [3], [-1]]]),
    "dense float64": SCORES,
    "dense float32": SCORES.astype(np.float32),
    "csr_array": csr_array(np.where(np.isinf(SCORES), 0, SCORES)),
    "csr_matrix": csr_matrix(np.where(np.isinf(SCORES), 0, SCORES)),
}


@pytest.mark.parametrize("predictions", PREDICTION_FORMS.values(), ids=PREDICTION_FORMS.keys())
@pytest.mark.parametrize("container", [np.asarray, csr_array, csr_matrix])
def test_every_form_gives_the_golden_values(predictions, container):
    results = evaluate(container(Y), predictions, WEIGHTS, ks=(1, 3))
    assert list(results) == list(GOLDEN)
    assert all(type(value) is float for value in results.values())
    assert results == pytest.approx(GOLDEN, abs=1e-8)


def test_single_metrics_are_those_of_evaluate():
    assert precision_at_k(Y, LABELS, 3) == pytest.approx(GOLDEN["P@3"])
    assert ndcg_at_k(Y, LABELS, 3) == pytest.approx(GOLDEN["nDCG@3"], abs=1e-8)
    assert recall_at_k(Y, LABELS, 3) == pytest.approx(GOLDEN["R@3"])
    assert psprecision_at_k(Y, LABELS, 3, WEIGHTS) == pytest.approx(GOLDEN["PSP@3"])
    assert psndcg_at_k(Y, LABELS, 3, WEIGHTS) == pytest.approx(GOLDEN["PSnDCG@3"], abs=1e-8)


@pytest.mark.parametrize("ignored", [[5], np.arange(6) == 5, (np.arange(6) == 5)[None, :]])
def test_a_label_unseen_in_training_can_be_left_out_of_the_truth(ignored):
    # Row 0 is left with the true labels 0 and 1.
    golden = GOLDEN | {
        "nDCG@3": 0.54094943,  # 1.5 / G_2 = 0.91972079; 0.63092975; 0; 0.61314719; their mean
        "R@1": 6 / 24,  # (1/2 + 0 + 0 + 1/2) / 4
        "R@3": 15 / 24,  # (1 + 1 + 0 + 1/2) / 4
        "PSP@1": 7 / 11,  # 7 / (2 + 4 + 0 + 5)
        "PSP@3": 12 / 15,  # 12 / ((2 + 1) + 4 + 0 + (5 + 3))
        "PSnDCG@1": 7 / 11,
        # gained:     2.5 / G_2 = 1.53286798; 2.52371901; 3.06573596: 7.12232295
        # attainable: (2 + 0.63092975) / G_2 = 1.61314719; 4; 4.22629438: 9.83944158
        "PSnDCG@3": 0.72385439,
    }
    results = evaluate(Y, LABELS, WEIGHTS, ks=(1, 3), ignore_labels=ignored)
    assert results == pytest.approx(golden, abs=1e-8)


def test_a_row_that_loses_all_its_labels_stays_in_the_mean():
    results = evaluate(Y, LABELS, WEIGHTS, ks=(3,), ignore_labels=[3])
    assert results["P@3"] == pytest.approx(3 / 12)  # (2/3 + 0 + 0 + 1/3) / 4
    assert results["R@3"] == pytest.approx(7 / 24)  # (2/3 + 0 + 0 + 1/2) / 4
    assert results["PSP@3"] == pytest.approx(8 / 19)  # (3 + 0 + 0 + 5) / (11 + 0 + 0 + 8)


def test_ignoring_nothing_changes_nothing():
    assert evaluate(Y, LABELS, WEIGHTS, ignore_labels=[], ks=(3,)) == evaluate(Y, LABELS, WEIGHTS, ks=(3,))


def test_ties_go_to_the_lower_label():
    scores = np.array([[0.5, 0.5, 0.5]])
    for predictions in (scores, csr_array(scores)):
        assert precision_at_k([[1, 0, 0]], predictions, 1) == 1.0
        assert precision_at_k([[0, 1, 0]], predictions, 1) == 0.0
        assert precision_at_k([[0, 1, 0]], predictions, 2) == 0.5


def test_a_zero_score_can_be_picked_when_dense_and_not_when_absent():
    scores = np.array([[0.0, 0.0, 0.7]])
    assert recall_at_k([[1, 0, 0]], scores, 2) == 1.0
    assert recall_at_k([[1, 0, 0]], csr_array(scores), 2) == 0.0


def test_the_best_attainable_ranking_scores_one_where_every_row_has_k_labels():
    Y_full = [[1, 1, 0], [0, 1, 1]]
    best = [[1, 0], [2, 1]]
    results = evaluate(Y_full, best, inv_propensity=[1.0, 2.0, 4.0], ks=(2,))
    assert results == pytest.approx(dict.fromkeys(results, 1.0))


def test_no_true_label_anywhere_scores_zero():
    results = evaluate(np.zeros((2, 3)), [[0], [1]], inv_propensity=np.ones(3), ks=(1,))
    assert set(results.values()) == {0.0}


def test_more_slots_than_labels_count_as_misses():
    # All 2 labels are predicted, 2 of 5 slots hit.
    assert precision_at_k([[1, 1]], [[0, 1]], 5) == pytest.approx(2 / 5)
    assert ndcg_at_k([[1, 1]], [[0, 1]], 5) == pytest.approx(1.0)
