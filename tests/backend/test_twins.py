"""Every compiled loop gives what its plain twin gives."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.backend.candidate_scores import score_candidates
from pysldl.backend.inverted_index import search_inverted_index, top_terms
from pysldl.backend.label_problems import label_problems, without_rows
from pysldl.backend.squared_hinge import fit_squared_hinge
from pysldl.backend.voting import vote_top

pytest.importorskip("numba", reason="numba is not installed, so there is no compiled loop to compare")


@pytest.fixture
def world():
    rng = np.random.default_rng(0)
    X = sparse.random_array((300, 80), density=0.15, random_state=rng, format="csr", dtype=np.float32)
    X.data = np.round(X.data, 1)  # so that ties happen
    Y = sparse.csr_array((rng.random((300, 25)) < 0.1).astype(np.float32))
    return X, Y


@pytest.mark.parametrize("k", [1, 7, 400])
@pytest.mark.parametrize("left_out", [False, True])
def test_search(world, plain, k, left_out):
    X, _ = world
    queries = top_terms(X, 5)
    rows = np.arange(300) if left_out else None
    fast = search_inverted_index(queries, sparse.csr_array(X.T), k, rows)
    slow = plain(search_inverted_index, queries, sparse.csr_array(X.T), k, rows)
    np.testing.assert_allclose(fast[1], slow[1], rtol=1e-5, atol=1e-6)
    assert (fast[0] == slow[0]).mean() > 0.99  # sums round differently, and some ties turn
    if left_out:
        assert not (fast[0] == rows[:, None]).any()


def test_heaviest_terms_are_the_largest(world):
    X, _ = world
    cut = top_terms(X, 3)
    for row in range(20):
        values = X[[row]].data
        assert sorted(cut[[row]].data) == sorted(np.sort(values)[-3:])


def test_votes(world, plain):
    _, Y = world
    rng = np.random.default_rng(1)
    neighbors = rng.integers(-1, 300, (50, 9))
    weights = rng.random((50, 9)).astype(np.float32) + 0.1
    fast, slow = vote_top(neighbors, weights, Y, 6), plain(vote_top, neighbors, weights, Y, 6)
    assert (fast[0] == slow[0]).all()
    np.testing.assert_allclose(fast[1], slow[1], rtol=1e-5)


def test_scores_of_candidates(world, plain):
    X, _ = world
    rng = np.random.default_rng(2)
    W = sparse.random_array((25, 80), density=0.3, random_state=rng, format="csr", dtype=np.float32)
    bias = rng.random(25).astype(np.float32)
    labels = rng.integers(-1, 25, (300, 6))
    fast, slow = score_candidates(X, labels, W, bias), plain(score_candidates, X, labels, W, bias)
    np.testing.assert_allclose(fast, slow, rtol=1e-4, atol=1e-5)
    dense = X.toarray() @ W.toarray().T + bias
    assert fast[5, 2] == pytest.approx(dense[5, labels[5, 2]], rel=1e-4) or labels[5, 2] < 0


def test_a_label_with_many_weights_and_rows_with_few_terms(plain):
    rng = np.random.default_rng(5)
    W = sparse.csr_array(rng.standard_normal((3, 4000)).astype(np.float32))
    terms = np.array([rng.choice(4000, 4, replace=False) for _ in range(50)])  # not sorted
    X = sparse.csr_array((rng.random(200, dtype=np.float32), terms.ravel(), np.arange(0, 201, 4)), shape=(50, 4000))
    labels = np.tile(np.array([2, -1, 0], dtype=np.int32), (50, 1))
    bias = rng.standard_normal(3).astype(np.float32)
    expected = (X @ W.T.toarray() + bias)[:, [2, 0]]
    for scores in (score_candidates(X, labels, W, bias), plain(score_candidates, X, labels, W, bias)):
        np.testing.assert_allclose(scores[:, [0, 2]], expected, rtol=1e-5)
        assert np.isneginf(scores[:, 1]).all()


def test_rows_of_labels(world, plain):
    _, Y = world
    candidates = np.random.default_rng(3).permuted(np.tile(np.arange(-4, Y.shape[1]), (Y.shape[0], 1)), axis=1)
    candidates = np.maximum(candidates, -1)[:, :6].astype(np.int32)
    late = np.tile(np.array([7, 3, -1], dtype=np.int32), (Y.shape[0], 1))
    options = {"everywhere": np.array([1, 7], dtype=np.int32), "left_out": np.array([2, 5])}
    plainly = label_problems(candidates, Y, **options)
    options["late"] = late
    fast, slow = label_problems(candidates, Y, **options), plain(label_problems, candidates, Y, **options)
    np.testing.assert_array_equal(fast.indptr, slow.indptr)
    np.testing.assert_array_equal(fast.rows, slow.rows)
    np.testing.assert_array_equal(fast.late, slow.late)
    assert plainly.late is None and not fast.late[fast.indptr[7] : fast.indptr[8]].any()
    only_late = ~fast.rows[fast.indptr[3] : fast.indptr[4]][fast.late[fast.indptr[3] : fast.indptr[4]]]
    has_or_offered = Y[:, [3]].toarray().ravel() + (candidates == 3).any(axis=1) > 0
    np.testing.assert_array_equal(only_late, np.setdiff1d(np.flatnonzero(~has_or_offered), [2, 5]))
    assert np.array_equal(without_rows(fast, np.array([], dtype=int), Y.shape[0]).rows, plainly.rows)
    offered_to_all = fast.rows[fast.indptr[7] : fast.indptr[8]]
    np.testing.assert_array_equal(
        np.where(offered_to_all < 0, ~offered_to_all, offered_to_all), np.delete(np.arange(Y.shape[0]), [2, 5])
    )
    counts = np.diff(sparse.csc_array(Y).indptr)
    label = int(np.argmax(np.where(np.isin(np.arange(len(counts)), [1, 7]), 0, counts)))
    own = fast.rows[fast.indptr[label] : fast.indptr[label + 1]]
    carried = np.flatnonzero(Y[:, [label]].toarray())
    np.testing.assert_array_equal(own[own >= 0], np.setdiff1d(carried, [2, 5]))
    offered = np.flatnonzero((candidates == label).any(axis=1))
    np.testing.assert_array_equal(~own[own < 0], np.setdiff1d(offered, [*carried, 2, 5]))


@pytest.mark.parametrize("weighted", [False, True])
def test_margins(world, plain, weighted):
    X, Y = world
    candidates = np.random.default_rng(3).permuted(np.tile(np.arange(Y.shape[1]), (Y.shape[0], 1)), axis=1)
    candidates = candidates[:, : 2 * Y.shape[1] // 3].astype(np.int32)
    candidates[np.isin(candidates, [3, 4])] = -1  # labels that no row was offered
    Y = sparse.csr_array(Y.toarray() * (np.arange(Y.shape[1]) != 4), dtype=np.float32)  # and one that no row has
    problems = label_problems(candidates, Y)
    settings = {"tol": 0.05, "min_weight": 0.0, "max_epochs": 300}
    if weighted:
        settings["positive_weight"] = np.random.default_rng(4).uniform(1, 5, Y.shape[1]).astype(np.float32)
    fast, slow = fit_squared_hinge(X, problems, **settings), plain(fit_squared_hinge, X, problems, **settings)
    assert (fast[0] != slow[0]).nnz == 0 and (fast[1] == slow[1]).all()  # the same steps in the same order
    assert fast[1][3] == 1.0 and fast[1][4] == -1.0


@pytest.mark.parametrize("min_weight", [0.0, 0.1])
def test_rows_that_are_not_copied_give_the_same_weights(world, monkeypatch, min_weight):
    X, Y = world
    problems = label_problems(np.tile(np.arange(Y.shape[1], dtype=np.int32), (Y.shape[0], 1)), Y)
    held = np.arange(40)
    copied = fit_squared_hinge(X, problems, min_weight=min_weight, held_out=held)
    monkeypatch.setattr("pysldl.backend.numba.squared_hinge.MOST_COPIED", 0)
    read_in_place = fit_squared_hinge(X, problems, min_weight=min_weight, held_out=held)
    assert (copied.W != read_in_place.W).nnz == 0 and (copied.bias == read_in_place.bias).all()
    np.testing.assert_array_equal(copied.held_scores, read_in_place.held_scores)


def test_number_of_threads_changes_nothing(world):
    import numba

    X, Y = world
    everything = np.tile(np.arange(Y.shape[1], dtype=np.int32), (Y.shape[0], 1))
    problems = label_problems(everything, Y)
    before = numba.get_num_threads()
    one, two = [], []
    for threads, found in ((1, one), (min(2, before), two)):
        numba.set_num_threads(threads)
        found += [*search_inverted_index(X, sparse.csr_array(X.T), 5), fit_squared_hinge(X, problems)[1]]
    numba.set_num_threads(before)
    assert all((a == b).all() for a, b in zip(one, two, strict=True))
