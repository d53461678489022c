"""Feature neighbors and the ranker, alone and in the classifier."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import normalize

from pysldl import SLDLClassifier, make_sldl
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.decoding import BlendDecoder, FeatureNeighborDecoder, NeighborDecoder
from pysldl.embedding import RandomLabelEmbedding
from pysldl.exceptions import DataError, SLDLWarning
from pysldl.metrics import evaluate
from pysldl.persistence import load_model
from pysldl.ranking import LinearRanker, linear
from pysldl.ranking.candidates import known_candidates


def with_ranker(**settings):
    """What the preset does with large problems, for a small one."""
    return make_sldl("accurate", decoder__limit=0, ranker__limit=0, **settings)


@pytest.fixture(scope="module")
def data():
    return make_asymmetric_multilabel(random_state=0)


@pytest.fixture(scope="module")
def train(data):
    return data.split("train")


@pytest.fixture(scope="module")
def test(data):
    return data.split("test")


@pytest.fixture(scope="module")
def accurate(train):
    return with_ranker().fit(train.X, train.Y, label_names=train.label_names, feature_names=train.feature_names)


def test_all_terms_find_the_exact_neighbors(train, test):
    X, Q = normalize(train.X), normalize(test.X)[:20]
    decoder = FeatureNeighborDecoder(5, n_terms=10_000).fit(X, train.Y)
    _, similarities = decoder._search(Q, None, decoder.n_neighbors_)
    exact = -np.sort(-(Q @ X.T).toarray(), axis=1)[:, :5]
    np.testing.assert_allclose(similarities, exact, atol=1e-3)  # postings have half precision


def test_votes_are_shares_by_a_softmax_of_the_similarity(train, test):
    X, Q = normalize(train.X), normalize(test.X)[[3]]
    scores = FeatureNeighborDecoder(4, n_terms=10_000, temperature=0.1).fit(X, train.Y).scores(Q).toarray()[0]
    cosine = (Q @ X.T).toarray()[0]
    nearest = np.argsort(-cosine, kind="stable")[:4]
    weight = np.exp(cosine[nearest] / 0.1)
    np.testing.assert_allclose(scores, weight @ train.Y[nearest].toarray() / weight.sum(), atol=2e-3)


def test_explanation_adds_up_to_the_ranker_s_score(accurate, test):
    labels, scores = accurate.predict_topk(test.X[:5], 1)
    for row in range(5):
        told = accurate.explain(test.X[[row]], int(labels[row, 0]), top=10_000)
        assert told.score == pytest.approx(scores[row, 0], rel=1e-4)
        bias = accurate.ranker_.bias_[labels[row, 0]]
        assert told.terms_total == pytest.approx(sum(t.contribution for t in told.terms) + bias, rel=1e-3, abs=1e-4)


def test_ranker_beats_the_votes_it_starts_from(accurate, train, test):
    fast = make_sldl("fast").fit(train.X, train.Y)
    ranked, votes = (evaluate(test.Y, clf.predict_topk(test.X, 5)[0]) for clf in (accurate, fast))
    assert ranked["P@1"] > votes["P@1"] and ranked["nDCG@5"] > votes["nDCG@5"] + 0.02
    assert 0.8 < accurate.ranker_.candidate_recall_ <= 1


def test_no_embedding_is_fitted_where_the_decoder_needs_none(accurate):
    assert accurate.embedding_ is None and accurate.mapping_ is None
    with pytest.raises(DataError, match="no latent codes"):
        accurate.transform(np.eye(3))


@pytest.mark.parametrize("decoder", [NeighborDecoder(20), BlendDecoder()], ids=["votes", "blend"])
def test_ranker_on_latent_candidates(train, test, decoder):
    ranked = SLDLClassifier(RandomLabelEmbedding(64), decoder=decoder, ranker=LinearRanker(20), random_state=0)
    plain = SLDLClassifier(RandomLabelEmbedding(64), decoder=decoder, random_state=0)
    assert ranked.fit(train.X, train.Y).score(test.X, test.Y) > plain.fit(train.X, train.Y).score(test.X, test.Y)


def test_a_row_without_words_gets_the_frequent_labels(accurate, train):
    labels, _ = accurate.predict_topk(sparse.csr_array((1, train.X.shape[1])), 5)
    frequent = np.argsort(-accurate.label_counts_, kind="stable")[:10]  # these are rescored
    assert set(labels[0]) <= set(frequent)


def test_a_row_without_words_gets_the_labels_of_such_rows():
    rng = np.random.RandomState(0)
    X = sparse.csr_array(np.eye(20, 3000, dtype=np.float32)[rng.randint(20, size=900)])  # with few there is no ranker
    labels = (X.argmax(axis=1) % 5).ravel()
    empty = np.arange(900) % 10 == 0
    X = sparse.csr_array(sparse.diags_array((~empty).astype(np.float32)) @ X)
    X.eliminate_zeros()
    labels[empty] = 4 + (rng.rand(empty.sum()) < 0.8)  # which no other row has
    clf = make_sldl("accurate").fit(X, np.eye(6, dtype=np.float32)[labels])
    assert clf.ranker_.all_labels_
    np.testing.assert_array_equal(clf.predict_topk(X[empty], k=2)[0], np.tile([5, 4], (90, 1)))


def test_a_label_of_held_out_rows_alone_is_not_offered_to_them():
    labels, votes = np.array([[0, 1, -1]], dtype=np.int32), np.ones((1, 3), dtype=np.float32)
    kept, given = known_candidates(labels, votes, np.array([3, 0]))
    assert kept.tolist() == [[0, -1, -1]] and given.tolist() == [[1, 0, 0]]


def test_threshold_and_probabilities_come_from_held_out_rows(accurate, test):
    predicted = accurate.predict(test.X)
    f1 = 2 * predicted.multiply(test.Y).sum() / (predicted.nnz + test.Y.nnz)
    assert f1 == pytest.approx(accurate.calibration_.held_out_f1_, abs=0.1)


@pytest.mark.parametrize("make", [with_ranker, lambda: make_sldl("accurate"), lambda: make_sldl("fast")])
def test_saved_and_loaded(make, train, test, tmp_path):
    clf = make().fit(train.X, train.Y)
    clf.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert (loaded.decision_function(test.X) == clf.decision_function(test.X)).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: with_ranker(decoder__large__n_neighbors=100),
        lambda: make_sldl("accurate", decoder__small__neighbors__n_neighbors=100),
        lambda: make_sldl("fast", decoder__n_neighbors=100),
    ],
)
def test_hard_cases(make):
    """Duplicate rows, labels with one example, one label on every row, more neighbors than rows, dense features."""
    rng = np.random.default_rng(0)
    X = np.repeat((rng.random((20, 12)) < 0.3).astype(float), 2, axis=0)
    Y = np.zeros((40, 8))
    Y[:, 0] = 1
    Y[np.arange(7), np.arange(1, 8)] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SLDLWarning)
        clf = make().fit(X, Y)
    labels, scores = clf.predict_topk(X, 3)
    assert (labels[:, 0] == 0).all() and np.isfinite(scores[:, 0]).all()


def test_bad_parameters(train):
    with pytest.raises(DataError, match="'n_candidates' parameter"):
        with_ranker(ranker__large__n_candidates=0).fit(train.X, train.Y)
    with pytest.raises(DataError, match="'n_centroid_candidates' parameter"):
        with_ranker(ranker__large__n_centroid_candidates=-1).fit(train.X, train.Y)
    with pytest.raises(DataError, match="propensity"):
        with_ranker(ranker__large__propensity=0.55).fit(train.X, train.Y)
    with pytest.raises(DataError, match="'n_neighbors' parameter"):
        make_sldl("fast", decoder__n_neighbors=0).fit(train.X, train.Y)


def test_the_number_of_candidates_follows_the_labels_of_the_rows(tmp_path):
    rng = np.random.RandomState(0)
    Y = sparse.csr_array((rng.rand(400, 500) < 0.05).astype(np.int8))
    X = normalize(sparse.hstack([Y, sparse.random(400, 4000, 0.01, random_state=0)], format="csr"))
    clf = make_sldl("accurate", random_state=0).fit(X, Y)
    assert clf.ranker_.n_candidates == round(12 * Y.nnz / 400) > 250
    clf.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.ranker_.n_candidates == clf.ranker_.n_candidates
    assert np.array_equal(again.predict_topk(X[:20], k=5)[0], clf.predict_topk(X[:20], k=5)[0])


def test_few_labels_are_candidates_of_all_rows_and_only_held_out_rows_are_searched(train, monkeypatch):
    searched = []
    search = FeatureNeighborDecoder.split_candidates

    def counted(self, Z, rows, *args):
        searched.append(len(rows))
        return search(self, Z, rows, *args)

    monkeypatch.setattr(FeatureNeighborDecoder, "split_candidates", counted)
    clf = SLDLClassifier(decoder=FeatureNeighborDecoder(5), ranker=LinearRanker(100), random_state=0)
    clf.fit(train.X, train.Y)
    with_rows = np.flatnonzero(np.bincount(train.Y.indices, minlength=train.n_labels))
    assert sorted(clf.ranker_.frequent_) == with_rows.tolist() and clf.ranker_.candidate_recall_ == 1
    assert sum(searched) == train.n_samples // 5


def test_where_labels_are_few_all_are_scored(train):
    """All labels by weights and bias are the candidates; votes that nobody gave do not help, and none are asked for."""
    X, shape = rows_of(train), (train.n_samples, 20)
    nothing = np.full(shape, -1, dtype=np.int32), np.zeros(shape, dtype=np.float32)
    ranker = LinearRanker(100).fit(X, train.Y, *nothing, np.random.RandomState(0))
    assert ranker.all_labels_ and not ranker.needs_votes and ranker.vote_power_ == 0
    found = ranker.rank(X[:50])
    scores = (X[:50] @ ranker.W_.T).toarray() + ranker.bias_
    scores[:, np.setdiff1d(np.arange(train.n_labels), ranker.frequent_)] = -np.inf
    n = len(ranker.frequent_)
    np.testing.assert_array_equal(found.labels[:, :n], np.argsort(-scores, axis=1, kind="stable")[:, :n])
    np.testing.assert_allclose(found.linear[:, :n], -np.sort(-scores, axis=1)[:, :n], rtol=1e-5, atol=1e-6)
    assert not found.votes.any()


@pytest.mark.parametrize(("n_hurt", "asked"), [(4, False), (0, True)])
def test_with_few_labels_neighbors_are_asked_if_votes_help_by_more_than_chance(n_hurt, asked):
    """All linear scores are equal; votes put the right label first in five rows, and a wrong one in some others."""
    n = 200
    Y = sparse.csr_array((np.ones(n), (np.arange(n), np.arange(n) % 2)), shape=(n, 6))
    labels = np.tile(np.arange(6, dtype=np.int32), (n, 1))
    votes = np.ones((n, 6), dtype=np.float32)
    votes[1:10:2, 0] = votes[0 : 2 * n_hurt : 2, 0] = 0.1
    power = linear._best_power(Y, labels, np.zeros((n, 6), dtype=np.float32), votes, None, clearly=True)
    assert (power > 0) == asked


def rows_of(train):
    return sparse.csr_array(normalize(train.X), dtype=np.float32)
