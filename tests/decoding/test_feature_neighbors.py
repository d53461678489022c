"""Neighbors in the features, sparse and dense."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.decoding import FeatureNeighborDecoder
from pysldl.neighbors import ExactIndex, InvertedIndex


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.random((90, 12)) * (rng.random((90, 12)) < 0.3)
    X[np.arange(90), np.arange(90) % 12] += 0.01  # no row without features
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    return X, sparse.csr_array((rng.random((90, 6)) < 0.3).astype(np.float32))


def test_sparse_and_dense_rows_have_the_same_neighbors(rows):
    X, Y = rows
    dense, inverted = (FeatureNeighborDecoder(9, n_terms=12).fit(Z, Y) for Z in (X, sparse.csr_array(X)))
    assert isinstance(dense.index_, ExactIndex) and isinstance(inverted.index_, InvertedIndex)
    found = dense.scores(X).toarray(), inverted.scores(sparse.csr_array(X)).toarray()
    np.testing.assert_allclose(*found, atol=0.01)  # postings have half precision, and votes are exponentials


def test_measurements_in_a_sparse_matrix_are_compared_as_dense_ones(rows):
    X, Y = rows[0] + np.float32(0.1), rows[1]
    dense, sparse_one = (FeatureNeighborDecoder(9).fit(Z, Y) for Z in (X, sparse.csr_array(X)))
    assert isinstance(sparse_one.index_, ExactIndex)
    assert (dense.scores(X) != sparse_one.scores(sparse.csr_array(X))).nnz == 0


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_rows_that_come_later_are_indexed_as_all_at_once(rows, container):
    X, Y = rows
    whole = FeatureNeighborDecoder(9).fit(container(X), Y)
    grown = FeatureNeighborDecoder(9).fit(container(X[:60]), Y[:60]).extend(container(X[60:]), Y)
    assert (whole.scores(container(X)) != grown.scores(container(X))).nnz == 0


def test_a_row_that_shares_no_term_gets_the_prior(rows):
    _, Y = rows
    X = sparse.csr_array(np.pad(np.eye(6, dtype=np.float32)[np.arange(90) % 6], ((0, 0), (0, 1))))
    stranger = sparse.csr_array(np.eye(7, dtype=np.float32)[[6]])
    scores = FeatureNeighborDecoder(9).fit(X, Y).scores(stranger).toarray()
    np.testing.assert_allclose(scores[0], Y.toarray().mean(axis=0), rtol=1e-5)


def test_tuning_leaves_the_fitted_index_alone_and_chooses_what_is_open(rows):
    X, Y = rows
    decoder = FeatureNeighborDecoder(None, temperature=None).fit(X, Y)
    index = decoder.index_
    decoder.tune(X, np.arange(90), X)
    assert decoder.index_ is index and decoder.n_neighbors_ in (10, 20, 30, 50, 90)
