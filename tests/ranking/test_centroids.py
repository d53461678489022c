"""Labels by the mean of their rows: alone, as candidates of the ranker, and after new labels."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import normalize

from pysldl import SLDLClassifier
from pysldl.backend.dispatch import has_numba
from pysldl.backend.topk import drop_duplicates
from pysldl.decoding import FeatureNeighborDecoder
from pysldl.metrics import evaluate, inverse_propensity
from pysldl.persistence import load_model
from pysldl.ranking import LinearRanker
from pysldl.ranking.centroids import LabelCentroids


@pytest.fixture(scope="module")
def world():
    """Many labels, each with three words of its own; a row has two labels, one word of each, and noise.

    Few rows share a word, so neighbors miss labels that their words name.
    """
    rng = np.random.default_rng(0)
    n, c = 1500, 300
    Y = np.zeros((n, c))
    X = np.zeros((n, 3 * c + 200))
    for row in range(n):
        for label in rng.choice(c, 2, replace=False):
            Y[row, label] = 1
            X[row, 3 * label + rng.integers(3)] = 1
        X[row, 3 * c + rng.choice(200, 6, replace=False)] = 1
    return normalize(sparse.csr_array(X, dtype=np.float32)), sparse.csr_array(Y)


def test_they_are_the_labels_with_the_largest_cosine_to_the_mean(world):
    X, Y = world
    found = LabelCentroids(n_terms=100, label_terms=10_000).fit(X, Y).candidates(X[:50], 10)
    means = normalize(np.asarray((Y.T @ X).todense()))
    cosine = X[:50] @ means.T
    best = -np.sort(-cosine, axis=1)[:, :10]
    np.testing.assert_allclose(
        np.take_along_axis(cosine, found, axis=1), best, atol=1e-3
    )  # the means have half precision


def test_terms_are_cut_to_the_heaviest(world):
    means = LabelCentroids(label_terms=4).fit(*world)
    assert np.bincount(means.index_.postings_.indices).max() == 4


def test_new_labels_get_centroids_and_those_without_rows_lose_theirs(world):
    X, Y = world
    old = LabelCentroids().fit(X, Y[:, :290])
    grown = old.updated(X, Y)
    assert (grown.index_.postings_ != LabelCentroids().fit(X, Y).index_.postings_).nnz == 0
    assert old.index_.postings_.shape[1] == 290
    without = sparse.csr_array(Y * (np.arange(300) != 7))
    without.eliminate_zeros()
    assert (grown.updated(X, without).candidates(X, 25) != 7).all()
    assert (grown.updated(X, without).updated(X, Y).index_.postings_ != grown.index_.postings_).nnz == 0


def classifier(**settings):
    return SLDLClassifier(
        decoder=FeatureNeighborDecoder(10), ranker=LinearRanker(10, n_frequent=5, **settings), random_state=0
    )


def test_the_ranker_takes_them_where_they_find_more(world):
    X, Y = world
    without, chosen = (classifier(n_centroid_candidates=n).fit(X[:1200], Y[:1200]) for n in (0, None))
    assert without.ranker_.centroids_ is None and chosen.ranker_.n_centroid_candidates_ == 25
    assert chosen.ranker_.candidate_recall_ > without.ranker_.candidate_recall_ + 0.02
    few, more = (evaluate(Y[1200:], clf.predict_topk(X[1200:], 5)[0])["P@1"] for clf in (without, chosen))
    assert more > few


def test_the_ranker_leaves_them_where_they_find_nothing(world):
    X, Y = world
    everything = SLDLClassifier(
        decoder=FeatureNeighborDecoder(200), ranker=LinearRanker(300, n_frequent=40), random_state=0
    )
    assert everything.fit(X[:600], Y[:600, :30]).ranker_.centroids_ is None


def test_one_row_is_answered_as_many_are(world, tmp_path):
    X, Y = world
    clf = classifier().fit(X[:1200], Y[:1200])
    clf.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    many = clf.decision_function(X[1200:1210])
    for row in range(10):
        alone = loaded.decision_function(X[[1200 + row]])
        np.testing.assert_allclose(alone, many[[row]], rtol=0 if has_numba() else 1e-4, atol=0 if has_numba() else 1e-5)


def test_labels_that_come_later_are_found_by_their_words(world):
    X, Y = world
    seen = np.flatnonzero(Y[:, 295:].sum(axis=1) == 0)
    clf = classifier().set_params(online=True).fit(X[seen], Y[seen][:, :295])
    later = np.flatnonzero(Y[:, 295:].sum(axis=1) > 0)
    clf.partial_fit(X[later], Y[later], label_names=[str(label) for label in range(300)])
    assert clf.ranker_.centroids_.index_.postings_.shape[1] == 300
    words = sparse.csr_array(np.eye(X.shape[1], dtype=np.float32)[[3 * 297, 3 * 299 + 1]])
    assert clf.predict_topk(words, 1, names=True)[0].ravel().tolist() == ["297", "299"]


def test_repetitions_go():
    candidates = np.array([[3, 1, 3, -1, 1], [0, 0, 0, 2, -1]], dtype=np.int32)
    assert drop_duplicates(candidates).tolist() == [[3, 1, -1, -1, -1], [0, -1, -1, 2, -1]]


def test_propensities_favor_rare_labels(world):
    X, Y = world
    Y = Y.tolil()
    Y[:, 0] = 1  # on every row
    Y[: Y.shape[0] // 2, 1] = 1
    Y = sparse.csr_array(Y)
    train, test = slice(0, 1200), slice(1200, None)
    plain, weighted = (classifier(C=0.1, propensity=p).fit(X[train], Y[train]) for p in (None, (0.55, 1.5)))
    weights = inverse_propensity(Y[train])
    told = [evaluate(Y[test], clf.predict_topk(X[test], 5)[0], inv_propensity=weights) for clf in (plain, weighted)]
    assert told[1]["PSP@5"] > told[0]["PSP@5"] + 0.02
