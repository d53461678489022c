"""Every metric equals a slow, obvious implementation; nothing of size n x c is formed."""

import tracemalloc
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array, csr_matrix, random_array

from pysldl.metrics import evaluate
from pysldl.metrics.ranking import evaluate_rows

TOLERANCE = 1e-9


def slow_metrics(true_sets, rankings, weights, ks):
    """The definitions, row by row. `rankings` are lists of labels, best first, of any length."""

    def dcg(gains):
        return sum(gain / log2(place + 2) for place, gain in enumerate(gains))

    def mean(values):
        return sum(values) / len(values)

    results = {}
    for k in ks:
        precision, ndcg, recall = [], [], []
        gained_precision = gained_dcg = best_precision = best_dcg = 0.0
        for true, ranking in zip(true_sets, rankings, strict=True):
            hits = [1.0 if label in true else 0.0 for label in ranking[:k]]
            weighted = [weights[label] if label in true else 0.0 for label in ranking[:k]]
            best = sorted((weights[label] for label in true), reverse=True)[:k]
            ideal = dcg([1.0] * min(len(true), k))
            precision.append(sum(hits) / k)
            recall.append(sum(hits) / len(true) if true else 0.0)
            ndcg.append(dcg(hits) / ideal if true else 0.0)
            gained_precision += sum(weighted) / k
            best_precision += sum(best) / k
            gained_dcg += dcg(weighted) / ideal if true else 0.0
            best_dcg += dcg(best) / ideal if true else 0.0
        results[f"P@{k}"] = mean(precision)
        results[f"nDCG@{k}"] = mean(ndcg)
        results[f"R@{k}"] = mean(recall)
        results[f"PSP@{k}"] = gained_precision / best_precision if best_precision else 0.0
        results[f"PSnDCG@{k}"] = gained_dcg / best_dcg if best_dcg else 0.0
    return results


def slow_ranking(scores):
    """Labels of a {label: score} row by falling score, then by label."""
    return sorted(scores, key=lambda label: (-scores[label], label))


@st.composite
def problems(draw):
    """A truth, scores of which some are not stored, weights, ks and ignored labels."""
    shape = draw(st.tuples(st.integers(1, 7), st.integers(1, 12)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    truth = draw(hnp.arrays(bool, shape))
    stored = draw(hnp.arrays(bool, shape))
    # Eighths: ties are frequent, and float32 and float64 agree on them.
    scores = draw(hnp.arrays(np.int8, shape, elements=st.integers(-20, 20))).astype(dtype) / dtype(8)
    weights = draw(hnp.arrays(float, shape[1], elements=st.floats(1.0, 50.0)))
    ks = draw(st.lists(st.integers(1, 8), min_size=1, max_size=3, unique=True))
    ignored = draw(hnp.arrays(bool, shape[1]))
    return truth, stored, scores, weights, ks, ignored


@settings(derandomize=True, deadline=None, database=None, max_examples=150)
@given(problems(), st.sampled_from([csr_array, csr_matrix]))
def test_every_form_equals_the_slow_implementation(problem, container):
    truth, stored, scores, weights, ks, ignored = problem
    n_samples, n_labels = truth.shape
    true_sets = [set(np.flatnonzero(row & ~ignored).tolist()) for row in truth]
    rankings = [
        slow_ranking({label: float(scores[i, label]) for label in np.flatnonzero(stored[i]).tolist()})
        for i in range(n_samples)
    ]
    expected = slow_metrics(true_sets, rankings, weights.tolist(), ks)

    labels = np.full((n_samples, max(n_labels, *ks, 1)), -1)
    for i, ranking in enumerate(rankings):
        labels[i, : len(ranking)] = ranking
    indptr = np.append(0, np.cumsum(stored.sum(axis=1)))
    forms = [
        labels,
        (labels, np.where(labels >= 0, 1.0, -np.inf)),
        container((scores[stored], np.nonzero(stored)[1], indptr), shape=truth.shape),
        np.where(stored, scores, -np.inf).astype(scores.dtype),
    ]
    for predictions in forms:
        for Y_true in (truth, container(truth.astype(scores.dtype))):
            results = evaluate(Y_true, predictions, weights, ks, ignore_labels=ignored)
            assert results == pytest.approx(expected, rel=0, abs=TOLERANCE)
            assert all(0.0 <= value <= 1.0 for value in results.values())


@pytest.mark.parametrize("container", [csr_array, csr_matrix])
def test_a_larger_sparse_problem_equals_the_slow_implementation(container):
    rng = np.random.default_rng(3)
    shape = (400, 3000)
    truth = container(random_array(shape, density=2e-3, format="csr", random_state=rng) > 0)
    scores = container(random_array(shape, density=1e-2, format="csr", random_state=rng) + 0.95 * truth)
    weights = rng.uniform(1, 20, size=shape[1])
    rows = [slice(start, stop) for start, stop in zip(scores.indptr, scores.indptr[1:], strict=False)]
    rankings = [
        slow_ranking(dict(zip(scores.indices[row].tolist(), scores.data[row].tolist(), strict=True))) for row in rows
    ]
    true_sets = [
        set(truth.indices[start:stop].tolist()) for start, stop in zip(truth.indptr, truth.indptr[1:], strict=False)
    ]
    ks = (1, 3, 5, 50)
    expected = slow_metrics(true_sets, rankings, weights, ks)
    assert evaluate(truth, scores, weights, ks) == pytest.approx(expected, rel=0, abs=TOLERANCE)
    assert 0.1 < expected["P@1"] < 0.99  # a trivial problem would prove nothing


def test_millions_of_labels_need_little_memory():
    rng = np.random.default_rng(0)
    shape = (1000, 5_000_000)
    truth = random_array(shape, density=1e-6, format="csr", random_state=rng)
    truth.data[:] = 1.0
    scores = csr_array(truth + random_array(shape, density=1e-5, format="csr", random_state=rng))
    labels = np.full((shape[0], 5), -1)
    labels[:, 0] = rng.integers(shape[1], size=shape[0])
    weights = np.ones(shape[1])
    for predictions in (scores, labels):
        tracemalloc.start()
        results = evaluate(truth, predictions, weights)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 30e6  # one n x c mask would take 5 GB
        assert 0.0 <= results["PSP@5"] <= 1.0


def test_inputs_are_left_as_they_were():
    # Unsorted columns and a stored zero: what cleaning would change.
    truth = csr_array((np.array([1.0, 0.0, 1.0]), np.array([2, 1, 0]), np.array([0, 3])), shape=(1, 3))
    scores = csr_array((np.array([0.1, 0.2]), np.array([2, 0]), np.array([0, 2])), shape=(1, 3))
    results = evaluate(truth, scores, ks=(2,), metrics=("P", "R"))
    assert results == {"P@2": 1.0, "R@2": 1.0}
    assert truth.indices.tolist() == [2, 1, 0]
    assert truth.data.tolist() == [1.0, 0.0, 1.0]
    assert scores.indices.tolist() == [2, 0]


@pytest.mark.parametrize("weighted", [False, True])
def test_the_mean_over_the_rows_is_the_metric(weighted):
    rng = np.random.default_rng(0)
    Y = csr_array((rng.random((40, 12)) < 0.2).astype(float))
    labels = np.array([rng.permutation(12)[:5] for _ in range(40)])
    labels[0, 3:] = -1
    inv_propensity = rng.random(12) + 1 if weighted else None
    rows, told = evaluate_rows(Y, labels, (1, 3, 5), inv_propensity), evaluate(Y, labels, inv_propensity)
    assert {name.split("@")[0] for name in rows} == ({"PSP", "PSnDCG"} if weighted else {"P", "nDCG"})
    for name, values in rows.items():
        assert values.shape == (40,)
        np.testing.assert_allclose(values.mean(), told[name], rtol=1e-12)
