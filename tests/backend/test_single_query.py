"""One row alone gets what it gets among others, to the last bit: a service answers the same however it is asked."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.backend import dispatch, single_query
from pysldl.backend.candidate_scores import score_candidates
from pysldl.backend.dispatch import has_numba
from pysldl.backend.inverted_index import search_by_terms
from pysldl.backend.linear_algebra import sparse_times
from pysldl.backend.trees import NO_TREES, Trees, sum_of_trees
from pysldl.backend.voting import vote_top


@pytest.fixture
def features():
    rng = np.random.default_rng(0)
    X = sparse.random_array((200, 60), density=0.15, random_state=rng, format="csr", dtype=np.float32)
    X.data[::3] = 0.5  # so that ties happen
    return sparse.vstack([X, sparse.csr_array((1, 60), dtype=np.float32)], format="csr")


@pytest.fixture(params=["NumPy", "numba"], autouse=True)
def loops(request, features, monkeypatch):
    """The loops of single rows, compiled or not; compiled ones must have been made ready for what they are given."""
    monkeypatch.setattr(single_query, "_loops", None)
    monkeypatch.setattr(dispatch._few_rows, "most", 1)
    if request.param == "NumPy":
        monkeypatch.setattr(single_query, "uses_numba", lambda: False)
        yield
        return
    if not has_numba():
        pytest.skip("numba is not installed")
    single_query.compile_loops(lambda: all_forms(features))
    loops = [getattr(single_query._loops, name) for name in single_query._loops.__all__]
    ready = [len(loop.signatures) for loop in loops]
    yield
    assert [len(loop.signatures) for loop in loops] == ready


def all_forms(features):
    """One row through all forms, as a prediction goes."""
    row, labels, votes = features[[0]], np.zeros((1, 3), dtype=np.int32), np.ones((1, 3), dtype=np.float32)
    search_by_terms(row, sparse.csr_array(features.T), 1, n_terms=1, max_postings=1)
    vote_top(labels, votes, features, 1)
    score_candidates(row, labels, features, np.zeros(201, dtype=np.float32))
    mapped = [part.copy() for part in NO_TREES[:-1]]
    for part in mapped:
        part.flags.writeable = False
    for trees in (NO_TREES, Trees(*mapped, 0)):
        sum_of_trees(np.zeros((1, 1, 1), dtype=np.float32), trees)


@pytest.fixture(params=[1, 7])
def parts(request):
    """Rows so many at a time: alone, and a few together."""
    return lambda n_rows: [list(range(at, min(at + request.param, n_rows))) for at in range(0, n_rows, request.param)]


def same(together, alone):
    for whole, parts in zip(together, zip(*alone, strict=True), strict=True):
        np.testing.assert_array_equal(whole, np.concatenate(parts), strict=True)


@pytest.mark.parametrize("k", [1, 7, 300])
@pytest.mark.parametrize("left_out", [False, True])
@pytest.mark.parametrize("limits", [{"n_terms": 5, "max_postings": 70}, {"n_terms": 60, "max_postings": 1 << 40}])
def test_search(features, parts, k, left_out, limits):
    features.data[::7] *= -1  # sums that come back to nothing, too
    postings, rows = sparse.csr_array(features.T), np.arange(201)

    def found(some):
        return search_by_terms(features[some], postings, k, rows[some] if left_out else None, **limits)

    same(found(slice(None)), [found(part) for part in parts(201)])


def test_arrays_of_a_caller_may_be_read_only_and_of_another_type(features):
    row, postings = features[[0]], sparse.csr_array(features.T)
    expected = search_by_terms(row, postings, 5, n_terms=9, max_postings=100)
    row.indices = row.indices.astype(np.int64)
    row.data.flags.writeable = False
    same(expected, [search_by_terms(row, postings, 5, n_terms=9, max_postings=100)])


def test_trees(parts):
    X = np.random.default_rng(4).random((30, 5, 2), dtype=np.float32)
    children = np.array([[1, 2], [1, 1], [2, 2], [4, 5], [4, 4], [6, 7], [6, 6], [7, 7]], dtype=np.int32)
    thresholds = np.array([0.4, np.inf, np.inf, 0.7, np.inf, 0.2, np.inf, np.inf])
    feature, value = np.array([1, 0, 0, 0, 0, 1, 0, 0], dtype=np.int32), np.arange(8) / 7
    left, right = np.ascontiguousarray(children[:, 0]), np.ascontiguousarray(children[:, 1])
    trees = Trees(np.array([0, 3], dtype=np.int32), feature, thresholds, left, right, value, 2)
    together = sum_of_trees(X, trees)
    for part in trees[:-1]:
        part.flags.writeable = False  # as those of a mapped model may be
    same([together], [[sum_of_trees(X[part], trees)] for part in parts(30)])
    assert len(np.unique(together)) == 5


def test_votes(parts):
    rng = np.random.default_rng(1)
    Y = sparse.csr_array((rng.random((200, 25)) < 0.1).astype(np.float32))
    neighbors = rng.integers(-1, 200, (50, 9))
    neighbors[7] = -1
    weights = rng.random((50, 9)).astype(np.float32) + np.float32(0.1)
    weights[::2] = 0.25
    alone = [vote_top(neighbors[part], weights[part], Y, 6) for part in parts(50)]
    same(vote_top(neighbors, weights, Y, 6), alone)


def test_scores_of_candidates(features, parts):
    rng = np.random.default_rng(2)
    W = sparse.random_array((25, 60), density=0.4, random_state=rng, format="csr", dtype=np.float32)
    bias = rng.normal(size=25).astype(np.float32)
    labels = rng.integers(-1, 25, (201, 6), dtype=np.int32)
    alone = [(score_candidates(features[part], labels[part], W, bias),) for part in parts(201)]
    together = score_candidates(features, labels, W, bias)
    if has_numba():
        same((together,), alone)
    else:  # SciPy adds up many rows in another order than one
        np.testing.assert_allclose(together, np.concatenate([scores for (scores,) in alone]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_with_a_dense_matrix(features, dtype):
    P = np.random.default_rng(3).normal(size=(60, 9)).astype(dtype)
    alone = [(sparse_times(features[[row]], P),) for row in range(201)]
    same((sparse_times(features, P),), alone)
