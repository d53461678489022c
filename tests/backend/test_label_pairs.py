"""Rows that two labels share, and what that says about the candidates of a row."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.backend import label_pairs
from pysldl.backend.label_pairs import MOST_LABELS, SMOOTHING, count_pairs, pair_support


def made_up():
    rng = np.random.default_rng(0)
    return sparse.csr_array((rng.random((400, 30)) < 0.15).astype(np.float64))


@pytest.mark.parametrize("at_once", [1, 50, 1 << 22])
def test_pairs_are_counted_in_parts(at_once, monkeypatch):
    monkeypatch.setattr(label_pairs, "PRODUCTS_AT_ONCE", at_once)
    Y = made_up()
    shared = np.triu((Y.T @ Y).toarray(), 1)
    found = count_pairs(Y)
    assert found.has_canonical_format and found.dtype == np.float32 and found.indices.dtype == np.int32
    np.testing.assert_array_equal(found.toarray(), np.where(shared >= 2, shared, 0))


@pytest.mark.parametrize("at_once", [1, 50, 1 << 22])
def test_the_rarest_pairs_go_where_there_are_too_many(at_once, monkeypatch):
    Y = made_up()
    shared = np.triu((Y.T @ Y).toarray(), 1)
    monkeypatch.setattr(label_pairs, "PRODUCTS_AT_ONCE", at_once)
    monkeypatch.setattr(label_pairs, "KEPT_PAIRS", 100)
    monkeypatch.setattr(label_pairs, "KEPT_PAIRS_OF_LABEL", 5)
    fewest = next(n for n in range(2, 400) if np.count_nonzero(shared >= n) <= 150)
    assert fewest > 2 and np.count_nonzero(shared >= fewest) > 100
    np.testing.assert_array_equal(count_pairs(Y).toarray(), np.where(shared >= fewest, shared, 0))


def test_rows_left_out_and_rows_of_very_many_labels_do_not_count():
    Y, left_out = made_up(), np.arange(0, 400, 3)
    expected = count_pairs(sparse.csr_array(Y[np.setdiff1d(np.arange(400), left_out)]))
    assert (count_pairs(Y, left_out) != expected).nnz == 0
    assert count_pairs(sparse.csr_array(np.ones((5, MOST_LABELS)))).nnz == MOST_LABELS * (MOST_LABELS - 1) // 2
    assert count_pairs(sparse.csr_array(np.ones((5, MOST_LABELS + 1)))).nnz == 0


def test_no_labels_and_no_rows_have_no_pairs():
    for shape in ((0, 5), (5, 5), (5, 0)):
        found = count_pairs(sparse.csr_array(shape))
        assert found.shape == (shape[1],) * 2 and found.nnz == 0


def test_support_is_the_sum_over_the_other_candidates():
    Y = made_up()
    counts, pairs = np.bincount(Y.indices, minlength=30), count_pairs(Y)
    labels, scores = np.array([[3, 7, -1, 12]], dtype=np.int32), np.array([[0.9, 0.5, 0.0, 0.2]], dtype=np.float32)
    both = (pairs + pairs.T).toarray()
    implied = 0.9 * both[7, 3] / (counts[3] + SMOOTHING) + 0.2 * both[7, 12] / (counts[12] + SMOOTHING)
    implies = (0.9 * both[7, 3] + 0.2 * both[7, 12]) / (counts[7] + SMOOTHING)
    np.testing.assert_allclose(pair_support(labels, scores, counts, pairs)[0, 1], [implied, implies], rtol=1e-6)
    assert not pair_support(labels, scores, counts, pairs)[0, 2].any()
