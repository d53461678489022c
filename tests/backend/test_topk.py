"""The k best labels: against a slow sort, on ties, padding, blocks and bad input."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import coo_array, csc_array, csr_array, csr_matrix, random_array

from pysldl.backend import topk
from pysldl.backend.topk import places_of_largest, top_k, top_k_dense, top_k_of_listed, top_k_sparse
from pysldl.exceptions import DataError

reproducible = settings(derandomize=True, deadline=None, database=None, max_examples=200)

# Few distinct values, so that ties across the k-th place are the rule; all exact in float32.
tied_values = st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 0.25, 1.0, np.inf])
shapes = st.tuples(st.integers(0, 6), st.integers(0, 9))
dtypes = st.sampled_from([np.float32, np.float64])
ks = st.integers(1, 12)


def slow_top_k(candidates, k):
    """Sort the (label, score) pairs of each row by falling score, then by label."""
    labels, scores = [], []
    for row in candidates:
        best = sorted((pair for pair in row if pair[1] > -np.inf), key=lambda pair: (-pair[1], pair[0]))[:k]
        best += [(-1, -np.inf)] * (k - len(best))
        labels.append([label for label, _ in best])
        scores.append([score for _, score in best])
    shape = (len(candidates), k)
    return np.array(labels, dtype=np.int64).reshape(shape), np.array(scores, dtype=float).reshape(shape)


def assert_same(result, expected, dtype):
    labels, scores = result
    assert labels.dtype == np.int64
    assert scores.dtype == dtype
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_array_equal(scores, expected[1])


@reproducible
@given(st.data(), shapes, dtypes, ks)
def test_dense_equals_a_sort_of_every_row(data, shape, dtype, k):
    scores = data.draw(hnp.arrays(dtype, shape, elements=tied_values))
    expected = slow_top_k([list(enumerate(row.tolist())) for row in scores], k)
    assert_same(top_k_dense(scores, k), expected, dtype)


@reproducible
@given(st.data(), st.tuples(st.integers(0, 20), st.integers(0, 9)), dtypes, ks)
def test_listed_equals_a_sort_of_the_listed(data, shape, dtype, k):
    scores = data.draw(hnp.arrays(dtype, shape, elements=tied_values))
    order = data.draw(st.permutations(range(shape[1])))
    labels = np.tile(np.array(order, dtype=np.int32), (shape[0], 1))
    labels[data.draw(hnp.arrays(bool, shape))] = -1
    listed = [
        [pair for pair in zip(*row, strict=True) if pair[0] >= 0]
        for row in zip(labels.tolist(), scores.tolist(), strict=True)
    ]
    assert_same(top_k_of_listed(labels, scores, k), slow_top_k(listed, k), dtype)


def test_listed_scores_that_are_no_numbers_are_refused():
    with pytest.raises(DataError, match="row 0, label 4"):
        top_k_of_listed(np.array([[7, 4]]), np.array([[0.5, np.nan]]), 1)


@reproducible
@given(st.data(), shapes, dtypes, ks, st.sampled_from([csr_array, csr_matrix]))
def test_sparse_equals_a_sort_of_the_stored_entries(data, shape, dtype, k, container):
    values = data.draw(hnp.arrays(dtype, shape, elements=tied_values))
    stored = data.draw(hnp.arrays(bool, shape))
    row, column = np.nonzero(stored)
    indptr = np.append(0, np.cumsum(stored.sum(axis=1)))
    scores = container((values[stored], column, indptr), shape=shape)
    candidates = [[] for _ in range(shape[0])]
    for i, j in zip(row.tolist(), column.tolist(), strict=True):
        candidates[i].append((j, float(values[i, j])))
    assert_same(top_k_sparse(scores, k), slow_top_k(candidates, k), dtype)


def test_ties_go_to_the_lower_label():
    labels, scores = top_k_dense([[1.0, 3.0, 1.0, 3.0, 1.0]], k=4)
    assert labels.tolist() == [[1, 3, 0, 2]]
    assert scores.tolist() == [[3.0, 3.0, 1.0, 1.0]]


def test_minus_infinity_is_never_picked_and_slots_are_padded():
    labels, scores = top_k_dense([[-np.inf, 2.0, -np.inf], [-np.inf] * 3], k=2)
    assert labels.tolist() == [[1, -1], [-1, -1]]
    assert scores.tolist() == [[2.0, -np.inf], [-np.inf, -np.inf]]


def test_stored_zeros_and_negatives_are_candidates_and_absent_entries_are_not():
    scores = csr_array(([-2.0, 0.0], [1, 3], [0, 2, 2]), shape=(2, 5))
    labels, best = top_k_sparse(scores, k=3)
    assert labels.tolist() == [[3, 1, -1], [-1, -1, -1]]
    assert best[0].tolist() == [0.0, -2.0, -np.inf]


def test_unsorted_and_repeated_entries_are_read_as_the_matrix_they_mean():
    # Label 2 is stored twice and means 0.3 + 0.3; labels 0 and 4 tie and stand in reverse order.
    data, columns = np.array([0.5, 0.3, 0.5, 0.3]), np.array([4, 2, 0, 2])
    scores = csr_array((data, columns, np.array([0, 4])), shape=(1, 5))
    labels, best = top_k_sparse(scores, k=2)
    assert labels.tolist() == [[2, 0]]
    assert best.tolist() == [[0.6, 0.5]]
    assert scores.indices.tolist() == [4, 2, 0, 2], "the caller's matrix was reordered"


@pytest.mark.parametrize("block_size", [1, 7, 64])
def test_the_block_size_does_not_change_the_result(monkeypatch, block_size):
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 6, size=(50, 20)).astype(float)
    sparse = csr_array(dense)
    expected = top_k(dense, 4), top_k(sparse, 4)
    monkeypatch.setattr(topk, "_BLOCK_SIZE", block_size)
    for scores, one_block in zip((dense, sparse), expected, strict=True):
        for got, want in zip(top_k(scores, 4), one_block, strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("container", [np.asarray, csr_array, csr_matrix, csc_array, coo_array, list])
def test_top_k_takes_every_container(container):
    labels, scores = top_k(container([[0.1, 0.9, 0.5], [0.7, 0.2, 0.3]]), 2)
    assert labels.tolist() == [[1, 2], [0, 2]]
    assert scores.tolist() == [[0.9, 0.5], [0.7, 0.3]]


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64])
def test_whole_numbers_are_ranked_as_float64(dtype):
    scores = np.array([[0, 1, 0, 1]], dtype=dtype)
    for given_scores in (scores, csr_array(scores)):
        labels, best = top_k(given_scores, 2)
        assert labels.tolist() == [[1, 3]]
        assert best.dtype == np.float64


def test_millions_of_labels_and_one_very_long_row_need_little_memory():
    n_labels = 5_000_000
    short = random_array((2000, n_labels), density=1e-5, format="csr", random_state=np.random.default_rng(0))
    long_row = np.arange(0, n_labels, 10)
    scores = csr_array(
        (
            np.append(short.data, np.linspace(0, 1, long_row.size)),
            np.append(short.indices, long_row),
            np.append(short.indptr, short.nnz + long_row.size),
        ),
        shape=(2001, n_labels),
    )
    tracemalloc.start()
    labels, _ = top_k_sparse(scores, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert labels[-1].tolist() == long_row[:-6:-1].tolist()
    assert peak < 60e6  # padding every row to the longest would take 8 GB


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3", None])
def test_a_bad_k_is_refused(k):
    with pytest.raises(DataError, match="k must be a whole number"):
        top_k(np.ones((2, 3)), k)


@pytest.mark.parametrize("container", [np.asarray, csr_array])
def test_nan_is_refused_with_its_place(container):
    scores = np.ones((4, 5))
    scores[2, 3] = np.nan
    with pytest.raises(DataError, match=r"NaN \(row 2, label 3\)"):
        top_k(container(scores), 2)


def test_wrong_shape_and_dtype_are_refused():
    with pytest.raises(DataError, match="shape"):
        top_k(np.ones(3), 1)
    with pytest.raises(DataError, match="real numbers"):
        top_k(np.ones((2, 2), dtype=complex), 1)


@pytest.mark.parametrize("k", [0, 1, 5, 24, 25, 40])
def test_places_of_the_largest_are_those_of_a_stable_sort(k):
    values = np.random.default_rng(4).integers(0, 6, (50, 30)).astype(np.float32)
    values[values == 0] = -np.inf  # more of them than not in some rows: each place comes once all the same
    values[3] = -np.inf
    before = values.copy()
    np.testing.assert_array_equal(places_of_largest(values, k), np.argsort(-values, axis=1, kind="stable")[:, :k])
    np.testing.assert_array_equal(values, before)
