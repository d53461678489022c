"""The label graph and its random walk, against the equations written out."""

import numpy as np
import pytest
from scipy import sparse

import pysldl.embedding.label_graph
from pysldl.embedding.label_graph import cooccurrence, normalize_rows, rank_labels, transfer_matrix, transfer_rows

Y = sparse.csr_array(np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]], dtype=np.float32))


def test_binary_graph_links_labels_that_share_a_row():
    expected = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]]
    assert cooccurrence(Y).toarray().tolist() == expected


def test_counted_graph_keeps_how_often():
    expected = [[2, 2, 0, 0], [2, 3, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]]
    assert cooccurrence(Y, "count").toarray().tolist() == expected


def test_rows_sum_to_one_and_an_unseen_label_stays_zero():
    normalized = normalize_rows(cooccurrence(Y)).toarray()
    np.testing.assert_allclose(normalized.sum(axis=1), [1, 1, 1, 0])


@pytest.mark.parametrize("weighting", ["binary", "count"])
def test_walk_follows_equations_3_to_6(weighting):
    A = normalize_rows(cooccurrence(Y, weighting)).toarray().astype(np.float64)
    P, total, gamma = A.copy(), A.copy(), 1.0
    for _ in range(10):
        P = P @ A
        gamma /= 2
        total += gamma * P
    sums = total.sum(axis=1, keepdims=True)
    expected = np.divide(total, sums, out=np.zeros_like(total), where=sums > 0)
    found = transfer_matrix(cooccurrence(Y, weighting), n_steps=10, discount=0.5)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.isfinite(found).all()


def test_some_rows_and_columns_of_the_walk(monkeypatch):
    A = cooccurrence(Y, "count")
    rows, columns = np.array([2, 0, 1]), np.array([1, 2])
    expected = transfer_matrix(A)[np.ix_(rows, columns)]
    for together in (1, 8, 1000):
        monkeypatch.setattr(pysldl.embedding.label_graph, "WALKED_TOGETHER", together)
        np.testing.assert_allclose(transfer_rows(A, rows, columns), expected, atol=1e-6)


def test_ranking_leaves_out_the_anchor_and_breaks_ties_by_index():
    P = np.array([[0.9, 0.05, 0.05], [0.2, 0.3, 0.5], [0.0, 0.0, 1.0]])
    assert rank_labels(P).tolist() == [[1, 2], [2, 0], [0, 1]]
    assert rank_labels(P, with_anchor=True).tolist() == [[0, 1, 2], [2, 1, 0], [2, 0, 1]]
