"""NumPy, numba and torch forms of the same primitive give the same answer, at the defaults of that primitive.

The torch forms run here on the processor, which takes the same code as a GPU. Every test states how far the forms may
differ: bit for bit where both take the same steps in the same order, a few roundings where only the order of a sum
differs, and the tolerance of the solver where the solvers differ.
"""

from contextlib import contextmanager
from itertools import product

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import pysldl.backend.dispatch
from pysldl import SLDLClassifier
from pysldl.backend.candidate_scores import best_by_weights, score_candidates
from pysldl.backend.dispatch import use_device
from pysldl.backend.divergence import log_mixture_volumes, mixture_pulls
from pysldl.backend.exact import listed_products
from pysldl.backend.inverted_index import (
    best_terms,
    limit_postings,
    mean_rows,
    postings_of,
    search_by_terms,
    search_inverted_index,
    top_terms,
)
from pysldl.backend.label_embedding import adam_update_rows, ranking_hinge, walk_step
from pysldl.backend.label_pairs import count_pairs, pair_support
from pysldl.backend.label_problems import held_out_pairs, label_problems
from pysldl.backend.linear_algebra import advance, column_dots, dense_product, sparse_times, turn
from pysldl.backend.nearest import largest, largest_columns, pair_distances, pair_products
from pysldl.backend.squared_hinge import BIAS_CENTER, BIAS_FREEDOM, fit_squared_hinge
from pysldl.backend.topk import top_k
from pysldl.backend.trees import Examples, Trees, boosted_forests, sum_of_trees
from pysldl.backend.voting import mixed_top, vote_by_terms, vote_top
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.decoding import FeatureNeighborDecoder
from pysldl.mapping import RidgeMapping
from pysldl.neighbors import ExactIndex
from pysldl.ranking import LinearRanker

TOL = 0.1  # of the ranker's classifiers, by default


@pytest.fixture(params=["numba", "torch", "triton"])
def against_numpy(request, monkeypatch):
    """Call a function in NumPy and in another form, and return both results."""
    pytest.importorskip(request.param, reason=f"{request.param} is not installed, so there is no such form to compare")
    if request.param == "triton" and not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("the kernels need a GPU, and there is none here")

    @contextmanager
    def in_numpy():
        with monkeypatch.context() as patch:
            patch.setattr("pysldl.backend.dispatch.has_numba", lambda: False)
            yield

    @contextmanager
    def on_torch():
        import torch

        device = torch.device("cuda" if request.param == "triton" else "cpu")
        with monkeypatch.context() as patch:
            patch.setattr(pysldl.backend.dispatch, "find_device", lambda name: device)
            with use_device("cuda"):
                yield

    def call(function):
        with in_numpy():
            plain = function()
        if request.param == "numba":
            return plain, function()
        with on_torch():
            return plain, function()

    call.form = request.param
    return call


@pytest.fixture
def compiled(against_numpy):
    if against_numpy.form == "torch":
        pytest.skip("on a GPU this primitive is a kernel of our own")
    return against_numpy


@pytest.fixture
def only_numba(against_numpy):
    if against_numpy.form != "numba":
        pytest.skip("this primitive has no torch form")
    return against_numpy


@pytest.fixture(scope="module")
def world():
    """Sparse rows with equal values, so that ties happen, and their labels."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((300, 80), density=0.15, random_state=rng, format="csr", dtype=np.float32)
    X.data = np.round(X.data, 1)
    X.eliminate_zeros()
    Y = sparse.csr_array((rng.random((300, 25)) < 0.1).astype(np.float32))
    return X, Y


@pytest.fixture(scope="module")
def problems(world):
    candidates = np.random.default_rng(1).permuted(np.tile(np.arange(25, dtype=np.int32), (300, 1)), axis=1)[:, :12]
    Y = sparse.csr_array(world[1].multiply(np.arange(25) != 4))  # a label that no row has
    return label_problems(candidates, Y, everywhere=np.array([2], dtype=np.int32), left_out=np.arange(100, 300))


def losses(X, problems, W, bias, C=1.0):
    """The ranker's objective of every label, written as it stands."""
    found = np.zeros(len(problems.indptr) - 1)
    for label in range(len(found)):
        rows = problems.rows[problems.indptr[label] : problems.indptr[label + 1]]
        signs = np.where(rows >= 0, 1.0, -1.0)
        w = W[[label]].toarray().ravel().astype(float)
        short = np.maximum(0, 1 - signs * (X[np.where(rows >= 0, rows, ~rows)] @ w + bias[label]))
        found[label] = 0.5 * w @ w + 0.5 * (bias[label] - BIAS_CENTER) ** 2 / BIAS_FREEDOM + C * short @ short
    return found


# The ranker's classifiers


def test_classifiers_are_solved_to_the_same_tolerance(compiled, world, problems):
    X, _ = world
    plain, other = compiled(lambda: fit_squared_hinge(X, problems, min_weight=0.0))
    if compiled.form == "numba":  # the same steps in the same order
        assert (plain[0] != other[0]).nnz == 0 and (plain[1] == other[1]).all()
    best = fit_squared_hinge(X, problems, min_weight=0.0, tol=1e-4, max_epochs=5000)
    for W, bias, *_ in (plain, other):
        margins, exact = X @ W.T.toarray() + bias, X @ best[0].T.toarray() + best[1]
        assert np.abs(margins - exact).max() < 2 * TOL
        np.testing.assert_allclose(losses(X, problems, W, bias), losses(X, problems, *best[:2]), rtol=0.02, atol=1e-4)


@pytest.mark.parametrize("min_weight", [0.0, 0.2])
def test_rows_held_out_are_scored_by_classifiers_that_have_not_seen_them(compiled, world, min_weight):
    X, Y = world
    held = np.arange(0, 300, 9)
    carried = Y.toarray()
    carried[:, 5] = carried[:, 6] = carried[:, 7] = 0
    carried[held[:3], 5] = 1  # no other row has the label,
    carried[np.setdiff1d(np.arange(300), held), 6] = 1  # every other row has it,
    carried[held, 7] = 1  # and only rows held out are offered one
    Y = sparse.csr_array(carried)
    candidates = np.random.default_rng(3).permuted(np.tile(np.arange(25), (300, 1)), axis=1)[:, :15].astype(np.int32)
    candidates[candidates == 7] = -1
    late = np.roll(candidates, 1, axis=0)[:, :4]  # offered by rows held out alone, where not in the others
    late[np.isin(late, [6, 7])] = -1
    settings = {"tol": 0.01, "max_epochs": 1000, "min_weight": min_weight}
    problems = label_problems(candidates, Y, late=late)
    assert problems.late.any()
    plain, other = compiled(lambda: fit_squared_hinge(X, problems, held_out=held, **settings))
    if compiled.form == "numba":
        assert (plain.W != other.W).nnz == 0 and (plain.held_scores == other.held_scores).all()
    without = fit_squared_hinge(X, label_problems(candidates, Y, left_out=held), **settings)
    everything = fit_squared_hinge(X, problems, **settings)
    labels = np.repeat(np.arange(25), np.diff(other.held.indptr))
    expected = (X @ without.W.T.toarray() + without.bias)[other.held.rows, labels]
    far = 0.05 if min_weight == 0 else 0.4  # a weight at the edge of what is kept comes or goes
    assert np.abs(other.held_scores - expected).max() < far and np.isin(held, other.held.rows).all()
    assert (other.held_scores[np.isin(labels, [5, 7])] == -1).all()
    assert (other.held_scores[labels == 6] == 1).all() and (labels == 6).any()
    difference = np.abs((other.W - everything.W).toarray())
    assert np.where(difference >= min_weight - 0.03, 0.0, difference).max() < 0.03 or min_weight == 0
    assert min_weight > 0 or difference.max() < 0.03
    places = other.held.places_of(labels, other.held.rows)
    assert (places == np.arange(len(labels))).all()


@pytest.mark.parametrize("C", [0.3, 5.0])
def test_parameters_of_the_classifiers_mean_the_same(compiled, world, problems, C):
    X, _ = world
    weights = np.random.default_rng(2).uniform(1, 5, 25).astype(np.float32)
    settings = {"C": C, "positive_weight": weights, "min_weight": 0.2}
    plain, other = compiled(lambda: fit_squared_hinge(X, problems, tol=0.01, max_epochs=500, **settings))
    assert plain[0].nnz and min(np.abs(plain[0].data).min(), np.abs(other[0].data).min()) >= np.float32(0.2)
    difference = np.abs((plain[0] - other[0]).toarray())
    assert np.where(difference >= 0.17, 0.0, difference).max() < 0.03  # apart from weights at the edge of min_weight
    assert (difference >= 0.17).sum() <= 3
    np.testing.assert_allclose(plain[1], other[1], atol=0.01)


def test_unfinished_classifiers_are_told(compiled, world, problems):
    def too_short():
        with pytest.warns(ConvergenceWarning, match=r"classifiers of \d+ labels did not converge within max_epochs=1"):
            return fit_squared_hinge(world[0], problems, max_epochs=1)

    compiled(too_short)


def test_a_ranker_without_numba_or_on_a_device_ranks_alike(against_numpy):
    data = make_asymmetric_multilabel(random_state=0)
    train, test = slice(0, 400), slice(400, 900)
    X, seen = sparse.csr_array(data.X, dtype=np.float32), np.asarray(data.Y[train].sum(axis=0)).ravel() > 0
    Y = data.Y[:, np.flatnonzero(seen)]

    def answers():
        clf = SLDLClassifier(decoder=FeatureNeighborDecoder(), ranker=LinearRanker(20, n_frequent=5), random_state=0)
        clf.fit(X[train], Y[train])
        return clf.predict_topk(X[test], 5)[0], clf.score(X[test], Y[test])

    (plain, plain_score), (other, score) = against_numpy(answers)
    if against_numpy.form == "numba":
        assert (plain == other).all(axis=1).mean() >= 0.999
    # Another solver may turn near-ties of the 80 rows held out, and with them the choice of the vote's power.
    assert score == pytest.approx(plain_score, abs=0.005 if against_numpy.form == "numba" else 0.03)


# Searches and votes


@pytest.mark.parametrize("k", [7, 400])
@pytest.mark.parametrize("left_out", [False, True])
def test_search_of_postings(compiled, world, k, left_out):
    X, _ = world
    rows = np.arange(300) if left_out else None
    queries, postings = top_terms(X, 5), sparse.csr_array(X.T)
    plain, other = compiled(lambda: search_inverted_index(queries, postings, k, rows))
    np.testing.assert_allclose(plain[1], other[1], rtol=1e-6, atol=1e-6)
    if compiled.form == "numba":
        np.testing.assert_array_equal(plain[0], other[0])
    assert (plain[0] == other[0]).mean() > 0.99  # the order of a sum may turn a tie


def test_search_of_more_rows_than_are_added_up_at_once(only_numba):
    rng = np.random.default_rng(4)
    rows = [np.unique(np.concatenate([rng.integers(0, 400_000, 50), [131_071, 131_072, 399_999]])) for _ in range(40)]
    postings = sparse.csr_array(
        (rng.random(sum(map(len, rows))).astype(np.float32), np.concatenate(rows), np.cumsum([0, *map(len, rows)])),
        shape=(40, 400_000),
    )
    queries = sparse.random_array((30, 40), density=0.2, format="csr", dtype=np.float32, rng=rng)
    plain, other = only_numba(lambda: search_inverted_index(queries, postings, 60, np.full(30, 131_072)))
    assert {131_071, 399_999} <= set(plain[0].ravel().tolist()) and 131_072 not in plain[0]
    np.testing.assert_array_equal(plain[0], other[0])
    np.testing.assert_array_equal(plain[1], other[1])


@pytest.mark.parametrize("left_out", [False, True])
def test_exact_neighbors(against_numpy, left_out):
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(400, 7)).astype(np.float32)
    Z[200:] = Z[rng.integers(0, 20, 200)]  # twenty rows come many times
    index, rows = ExactIndex().fit(Z), np.arange(90) if left_out else None
    plain, other = against_numpy(lambda: index.search(Z[:90], 8, exclude=rows))
    np.testing.assert_array_equal(plain[0], other[0])
    np.testing.assert_allclose(plain[1], other[1], rtol=1e-9, atol=1e-12)
    plain, other = against_numpy(lambda: index.nearest(index.vectors_[:90], 8, exclude=rows))
    np.testing.assert_array_equal(plain[0], other[0])
    np.testing.assert_allclose(plain[1], other[1], rtol=2e-7)


def test_largest(only_numba):
    values = np.round(np.random.default_rng(3).normal(size=(100, 50)), 1).astype(np.float32)
    plain, other = only_numba(lambda: largest(values, 9, np.arange(100) % 50))
    rows, other_rows = only_numba(lambda: largest_columns(values, 9, np.arange(100) % 50))
    np.testing.assert_array_equal(rows, other_rows)
    np.testing.assert_array_equal(plain[0], other[0])
    np.testing.assert_array_equal(plain[1], other[1])


@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_products_of_pairs(against_numpy, world, form):
    X = world[0] if form == "sparse" else world[0].toarray()
    pairs = np.random.default_rng(3).integers(-1, 300, (300, 9))
    plain, other = against_numpy(lambda: pair_products(X, pairs, X))
    np.testing.assert_allclose(plain, other, rtol=1e-6, atol=1e-6)


def test_distances_of_pairs(against_numpy, world):
    X = world[0].toarray()
    pairs = np.random.default_rng(3).integers(-1, 300, (300, 9))
    plain, other = against_numpy(lambda: pair_distances(X.astype(np.float64), pairs, X))
    np.testing.assert_allclose(plain, other, rtol=1e-12)


@pytest.mark.parametrize("m", [6, 40])
def test_votes(compiled, world, m):
    rng = np.random.default_rng(4)
    neighbors = rng.integers(-1, 300, (50, 9)).astype(np.int32)
    weights = rng.choice(np.array([0.1, 0.25, 0.3], dtype=np.float32), (50, 9))
    plain, other = compiled(lambda: vote_top(neighbors, weights, world[1], m))
    np.testing.assert_array_equal(plain[0], other[0])
    np.testing.assert_array_equal(plain[1], other[1])


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("least", [-np.inf, 0.05])
def test_votes_mixed_with_scores(only_numba, world, share, least):
    rng = np.random.default_rng(4)
    Y = world[1]
    neighbors = rng.integers(-1, 300, (50, 9)).astype(np.int32)
    neighbors[[3, 7]] = -1  # which get the prior
    weights = rng.choice(np.array([0.0, 0.1, 0.25], dtype=np.float32), (50, 9))
    prior = sparse.csr_array((np.arange(Y.shape[1]) % 4 / 4)[None].astype(np.float32))
    scores = rng.integers(-8, 9, (50, Y.shape[1])).astype(np.float32) / 64  # many ties
    arguments = (neighbors, weights, Y, prior, scores, share)
    for m in (1, 7, Y.shape[1]):
        plain, other = only_numba(lambda m=m: mixed_top(*arguments, m, least))
        for one, two in zip(plain, other, strict=True):
            np.testing.assert_array_equal(one, two)
    votes = np.zeros(scores.shape, np.float32)
    for row, slot in np.ndindex(neighbors.shape):
        if neighbors[row, slot] >= 0:
            votes[row] += weights[row, slot] * Y[[neighbors[row, slot]]].toarray()[0].astype(np.float32)
    votes[[3, 7]] = prior.toarray()
    mixed = np.maximum(np.float32(share) * scores + np.float32(1 - share) * votes, np.float32(least))
    order = np.argsort(-mixed, axis=1, kind="stable")
    np.testing.assert_array_equal(other[0], order)
    np.testing.assert_array_equal(other[1], np.take_along_axis(votes, order, axis=1))
    np.testing.assert_array_equal(other[2], np.take_along_axis(mixed, order, axis=1))
    if share == 0:  # the scores may be left out
        for found in only_numba(lambda: mixed_top(*arguments[:4], None, share, Y.shape[1], least)):
            for one, two in zip(found, other, strict=True):
                np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("n_neighbors", [3, 60])
def test_votes_of_the_nearest_rows(compiled, world, n_neighbors):
    X, Y = world
    postings, rows = postings_of(X, 8), np.arange(300)
    limits = {"n_terms": 5, "max_postings": 100}
    plain, other = compiled(lambda: search_by_terms(X, postings, n_neighbors, rows, **limits))
    np.testing.assert_array_equal(plain[0], other[0])
    np.testing.assert_array_equal(plain[1], other[1])
    votes = {"n_neighbors": n_neighbors, "temperature": 0.05, "is_held": rows % 7 == 0}
    plain, other = compiled(lambda: vote_by_terms(X, postings, Y, 6, rows, **votes, **limits))
    np.testing.assert_allclose(plain[1], other[1], rtol=1e-5)
    of_all = [np.sort(found[2], axis=1) for found in (plain, other)]  # they may come in any order
    for labels, same in ((plain[0], other[0]), of_all):
        assert (labels == same).mean() > 0.99  # a weight that is rounded otherwise may turn a tie


@pytest.mark.parametrize("n_terms", [4, None])
def test_postings(against_numpy, world, n_terms):
    plain, other = against_numpy(lambda: postings_of(world[0], n_terms))
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(plain, part), getattr(other, part))


def test_means_of_labels(against_numpy, world):
    plain, other = against_numpy(lambda: mean_rows(*world, 4))
    np.testing.assert_allclose(plain.toarray(), other.toarray(), rtol=1e-6)


def test_boosted_trees(compiled):
    rng = np.random.default_rng(14)
    sets = []
    for n_rows in (900, 500, 60):
        X = np.round(rng.normal(size=(n_rows, 3)), 1).astype(np.float32)
        is_true = np.ones(n_rows, dtype=bool) if n_rows == 60 else X[:, 0] * X[:, 1] + rng.normal(size=n_rows) / 3 > 0
        sets.append(Examples(X, is_true, rng.uniform(0.5, 2.0, n_rows)))
    settings = {"n_trees": 5, "max_leaves": 6, "learning_rate": 0.1, "min_rows": 20}
    plain, other = compiled(lambda: boosted_forests(sets, **settings))
    for (trees, baseline), (same, beginning) in zip(plain, other, strict=True):
        assert baseline == beginning and len(trees.roots) in (0, 5)
        for part, counterpart in zip(trees, same, strict=True):
            np.testing.assert_allclose(part, counterpart, rtol=1e-9)


def test_support_of_candidates_for_each_other(only_numba, world):
    rng = np.random.default_rng(14)
    labels = rng.permuted(np.tile(np.arange(-3, 25, dtype=np.int32), (300, 1)), axis=1)[:, :9].clip(-1)
    scores, counts = rng.random((300, 9)).astype(np.float32), np.bincount(world[1].indices, minlength=25)
    plain, other = only_numba(lambda: pair_support(labels, scores, counts, count_pairs(world[1])))
    assert (plain > 0).any() and not plain[labels < 0].any()
    np.testing.assert_array_equal(plain, other, strict=True)


def test_scores_of_candidates(against_numpy, world):
    rng = np.random.default_rng(5)
    W = sparse.random_array((25, 80), density=0.3, random_state=rng, format="csr", dtype=np.float32)
    labels, bias = rng.integers(-1, 25, (300, 6)).astype(np.int32), rng.random(25).astype(np.float32)
    plain, other = against_numpy(lambda: score_candidates(world[0], labels, W, bias))
    np.testing.assert_allclose(plain, other, rtol=1e-5, atol=1e-6)


def test_rows_of_labels(only_numba, world):
    candidates = np.random.default_rng(6).integers(-1, 25, (300, 6)).astype(np.int32)
    everywhere, late = np.array([3], dtype=np.int32), np.roll(candidates, 1, axis=1)
    plain, other = only_numba(lambda: label_problems(candidates, world[1], everywhere=everywhere, late=late))
    np.testing.assert_array_equal(plain.late, other.late)
    np.testing.assert_array_equal(plain.indptr, other.indptr)
    np.testing.assert_array_equal(plain.rows, other.rows)


@pytest.mark.parametrize("late", [False, True])
def test_pairs_that_wait(against_numpy, world, late):
    candidates = np.random.default_rng(6).integers(-1, 25, (300, 6)).astype(np.int32)
    later = candidates[::-1].copy() if late else None

    def found():
        problems = label_problems(candidates, world[1], everywhere=np.array([3], dtype=np.int32), late=later)
        return [*problems[:2], *held_out_pairs(problems, 300, np.arange(0, 300, 7))]

    for plain, other in zip(*against_numpy(found), strict=True):
        np.testing.assert_array_equal(plain, other)


# Regression and embedding


def test_best_by_weights(only_numba, world):
    """Ties go to the lower label, a bias of -inf hides a label, and a row has fewer labels than were asked for."""
    X = world[0]
    by_feature = sparse.random_array((80, 12), density=0.3, random_state=3, dtype=np.float32, format="csr")
    by_feature.data = np.round(by_feature.data * 2).astype(np.float32)
    bias = np.array([0, 0, -np.inf, *([0.5] * 9)], dtype=np.float32)
    for k in (1, 5, 12):
        plain, other = only_numba(lambda k=k: best_by_weights(X, by_feature, bias, k))
        np.testing.assert_array_equal(plain[0], other[0])
        np.testing.assert_array_equal(plain[1], other[1])
    assert (plain[0][:, -1] == -1).all() and not (plain[0] == 2).any()


def grown_at_random(rng, n_trees, n_leaves):
    """Trees of leaves that were split at random, with the nodes of each tree in the order in which they came."""
    roots, children, depth = [], [], []
    for _ in range(n_trees):
        leaves = [len(children)]
        roots += leaves
        children.append(None)
        depth.append(0)
        while len(leaves) < n_leaves:
            node = leaves.pop(rng.integers(len(leaves)))
            children[node] = len(children), len(children) + 1
            leaves += children[node]
            children += [None, None]
            depth += 2 * [depth[node] + 1]
    n = len(children)
    feature, threshold = rng.integers(0, 4, n).astype(np.int32), rng.integers(-4, 5, n) / 4 + rng.choice([0, 1e-12], n)
    threshold[rng.integers(0, n, 3)] = -1e300, 1e300, np.inf
    left, right = (
        np.array([at if pair is None else pair[side] for at, pair in enumerate(children)], np.int32) for side in (0, 1)
    )
    return Trees(np.array(roots, np.int32), feature, threshold, left, right, rng.normal(size=n), max(depth))


@pytest.mark.parametrize("n_leaves", [1, 2, 8, 31, 32, 70])
def test_sums_of_trees(only_numba, n_leaves):
    rng = np.random.default_rng(6)
    trees = grown_at_random(rng, 5, n_leaves)
    X = (rng.integers(-5, 6, (150, 3, 4)) / 4).astype(np.float32)  # many at a threshold
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.1] = np.inf
    plain, other = only_numba(lambda: sum_of_trees(X, trees))
    np.testing.assert_array_equal(plain, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_times_dense(only_numba, world, dtype):
    P = np.random.default_rng(7).normal(size=(80, 6)).astype(dtype)
    plain, other = only_numba(lambda: sparse_times(world[0], P))
    np.testing.assert_array_equal(plain, other)


def test_dense_product_of_sparse_matrices(only_numba, world):
    X, Y = world
    by_feature = sparse.csr_array(X.T)
    for other, dtype in product((X, Y), (np.float32, np.float64)):
        right = sparse.csr_array(other, dtype=dtype)
        plain, compiled = only_numba(lambda right=right: dense_product(by_feature, right))
        np.testing.assert_array_equal(plain, compiled, strict=True)
        np.testing.assert_allclose(compiled, X.T.toarray() @ right.toarray(), rtol=1e-5, atol=1e-5)


def test_conjugate_gradients(only_numba):
    rng = np.random.default_rng(8)
    arrays = [rng.normal(size=(500, 4)).astype(np.float32) for _ in range(4)]
    length, scale = rng.random(4), rng.random(500).astype(np.float32)

    def step():
        W, residual, direction, image = (array.copy() for array in arrays)
        told = advance(W, residual, direction, image, length, scale)
        turn(direction, residual, scale, length)
        return [W, residual, direction, *told, column_dots(W, residual)]

    for plain, other in zip(*only_numba(step), strict=True):
        np.testing.assert_allclose(plain, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_ridge_regression(against_numpy, world, form):
    X = world[0] if form == "sparse" else world[0].toarray()
    Z = np.random.default_rng(9).normal(size=(300, 5))
    plain, other = against_numpy(lambda: RidgeMapping(random_state=0).fit(X, Z))
    np.testing.assert_allclose(plain.coef_, other.coef_, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n_terms", [1, 5, 40])
def test_best_terms(against_numpy, world, n_terms):
    plain, other = against_numpy(lambda: best_terms(world[0], n_terms))
    np.testing.assert_array_equal(plain[0], other[0])
    np.testing.assert_array_equal(plain[1][plain[0] >= 0], other[1][other[0] >= 0])


@pytest.mark.parametrize("max_postings", [1, 100, 10_000])
def test_limited_postings(only_numba, world, max_postings):
    counts = np.random.default_rng(3).integers(1, 60, world[0].nnz)
    plain, other = only_numba(lambda: limit_postings(world[0], counts, max_postings))
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(plain, part), getattr(other, part))


def test_walk(only_numba, world):
    counts = sparse.csr_array(world[1].T @ world[1])
    P = sparse.csr_array(sparse.diags_array(1 / np.maximum(counts.sum(axis=1), 1)) @ counts, dtype=np.float32)
    P.sort_indices()
    labels, values = top_k(P, 6)
    labels, values = labels.astype(np.int32), np.where(labels < 0, 0.0, values).astype(np.float32)
    plain, other = only_numba(lambda: walk_step(P, labels, values, 0.5))
    np.testing.assert_array_equal(plain[0], other[0])
    np.testing.assert_allclose(plain[1], other[1], rtol=1e-6)


def test_mixtures(only_numba):
    rng = np.random.default_rng(10)
    mu, variance = rng.normal(size=(30, 12)), rng.uniform(0.5, 2, (30, 12))
    plain, other = only_numba(lambda: log_mixture_volumes(mu, variance))
    np.testing.assert_allclose(plain, other, rtol=1e-12, atol=1e-12)
    S = rng.normal(size=(30, 30))
    for plain, other in zip(*only_numba(lambda: mixture_pulls(S + S.T, mu, variance)), strict=True):
        np.testing.assert_allclose(plain, other, rtol=1e-9, atol=1e-9)


def test_adam_on_rows(only_numba):
    rng = np.random.default_rng(11)
    start, gradient, rows = rng.normal(size=(20, 5)), rng.normal(size=(7, 5)), rng.permutation(20)[:7]

    def step():
        parameters, first, second = start.copy(), np.zeros((20, 5)), np.zeros((20, 5))
        adam_update_rows(parameters, first, second, rows, gradient, np.full(7, 0.1))
        return parameters

    plain, other = only_numba(step)
    np.testing.assert_allclose(plain, other, rtol=1e-6)


def test_hinge_over_rankings(only_numba):
    rng = np.random.default_rng(12)
    D, ranking = rng.random((30, 40)), np.stack([rng.permutation(40)[:15] for _ in range(30)]).astype(np.int32)
    plain, other = only_numba(lambda: ranking_hinge(D, ranking, 0.1))
    assert plain[0] == pytest.approx(other[0], rel=1e-12)
    np.testing.assert_array_equal(plain[1], other[1])


def test_products_of_listed_rows(only_numba):
    rng = np.random.default_rng(13)
    left, right = (rng.integers(-99, 99, (n, 7)).astype(np.float64) for n in (10, 30))  # sums of integers are exact
    listed = rng.integers(-1, 30, (10, 5))
    plain, other = only_numba(lambda: listed_products(left, right, listed))
    np.testing.assert_array_equal(plain, other)
