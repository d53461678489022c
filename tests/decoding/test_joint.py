"""Neighbors by code and features together, alone and in the classifier."""

import numpy as np
import pytest
from scipy import sparse

from pysldl import SLDLClassifier
from pysldl.backend.linear_algebra import unit_vectors
from pysldl.backend.voting import vote_totals
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.decoding import JointNeighborDecoder, NeighborDecoder
from pysldl.decoding import joint as joint_module
from pysldl.decoding.base import CodedRows
from pysldl.embedding import RandomLabelEmbedding
from pysldl.exceptions import DataError, SLDLWarning
from pysldl.mapping import RidgeMapping
from pysldl.persistence import load_model
from pysldl.ranking import LinearRanker


@pytest.fixture(params=["exact", "inverted", "all terms"])
def search(request, monkeypatch):
    """Every way of searching, whatever the number of features and how many are zero."""
    monkeypatch.setattr(joint_module, "DENSE_SHARE", 2.0 if request.param == "all terms" else 0.0)
    if request.param == "inverted":
        monkeypatch.setattr(joint_module, "DENSE_FEATURES", 0)
    return request.param


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(120, 6)).astype(np.float32)
    features = sparse.random_array((120, 30), density=0.2, random_state=rng, format="csr", dtype=np.float32)
    Y = sparse.csr_array((rng.random((120, 9)) < 0.3).astype(np.float32))
    return CodedRows(codes, features), Y


def similarities(Z, weight):
    codes, features = unit_vectors(Z.codes), unit_vectors(Z.features.toarray())
    return weight * codes @ codes.T + (1 - weight) * features @ features.T


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("k", [1, 7])
def test_neighbors_are_the_nearest_by_both_parts(rows, search, weight, k):
    Z, Y = rows
    decoder = JointNeighborDecoder(60, weight=weight, temperature=0.1, n_terms=100).fit(Z, Y)
    assert (decoder.postings_ is None) == (search == "exact")
    expected = similarities(Z, weight)
    np.fill_diagonal(expected, -np.inf)
    found, similarity = decoder._search(Z, np.arange(120), 60)
    best = -np.sort(-expected, axis=1)[:, :k]
    np.testing.assert_allclose(similarity[:, :k], np.maximum(best, 0), atol=1e-5 if search == "exact" else 1e-3)
    for row in range(0, 120, 17):
        there = found[row][:k] >= 0
        np.testing.assert_allclose(
            expected[row, found[row][:k][there]],
            similarity[row, :k][there],
            atol=1e-5 if search == "exact" else 1e-3,
        )


def test_votes_are_shares_by_a_softmax_of_the_similarity(rows, search):
    Z, Y = rows
    scores = JointNeighborDecoder(40, weight=0.4, temperature=0.1, n_terms=100).fit(Z, Y).scores(Z[[5]]).toarray()[0]
    similarity = similarities(Z, 0.4)[5]
    nearest = np.argsort(-similarity, kind="stable")[:40]
    weight = np.exp(similarity[nearest] / 0.1)
    np.testing.assert_allclose(scores, weight @ Y[nearest].toarray() / weight.sum(), atol=2e-3)


@pytest.mark.parametrize(("useful", "expected"), [("codes", 1.0), ("features", 0.0)])
def test_the_weight_goes_to_the_part_that_knows_the_labels(search, useful, expected):
    rng = np.random.default_rng(1)
    group = rng.integers(0, 12, 600)
    Y = sparse.csr_array(np.eye(12, dtype=np.float32)[group])
    signal = np.eye(12, dtype=np.float32)[group] + 0.3 * rng.random((600, 12)).astype(np.float32)
    noise = rng.random((600, 12)).astype(np.float32)
    Z = CodedRows(signal, noise) if useful == "codes" else CodedRows(noise, signal)
    chosen = np.arange(0, 600, 2)
    decoder = JointNeighborDecoder(n_terms=12).fit(Z, Y).tune(Z[chosen], chosen, Z)
    assert abs(decoder.weight_ - expected) <= 0.5
    labels, _ = decoder.loo_candidates(Z, np.arange(600), Z, Y, 1)
    assert (labels[:, 0] == group).mean() > 0.95
    given = JointNeighborDecoder(7, weight=0.2, temperature=0.5).fit(Z, Y).tune(Z[chosen], chosen, Z)
    assert (given.n_neighbors_, given.weight_, given.temperature_) == (7, 0.2, 0.5)


def test_evidence_adds_up_to_the_score(rows, search):
    Z, Y = rows
    decoder = JointNeighborDecoder(10, weight=0.6, temperature=0.2).fit(Z, Y)
    scores = decoder.scores(Z[[3]]).toarray()[0]
    for label in range(9):
        evidence = decoder.evidence(Z[[3]], label)
        assert evidence.score == pytest.approx(scores[label], abs=1e-5)
        assert sum(vote.contribution for vote in evidence.votes) == pytest.approx(evidence.score, abs=1e-5)
        if evidence.votes:
            mean = sum(v.contribution * v.similarity for v in evidence.votes) / evidence.score
            linear = evidence.direction @ Z.codes[3] + Z.features[[3]] @ evidence.feature_direction
            assert float(linear[0]) == pytest.approx(mean, rel=1e-3)


def test_few_axes_and_eight_bits_hardly_change_a_similarity(search):
    """Codes that lie in three dimensions, but for noise, are compared by three."""
    rng = np.random.default_rng(0)
    codes = (rng.normal(size=(200, 3)) @ rng.normal(size=(3, 20)) + 1e-3 * rng.normal(size=(200, 20))).astype(
        np.float32
    )
    Z = CodedRows(codes, sparse.csr_array(rng.random((200, 9)), dtype=np.float32))
    Y = sparse.csr_array((rng.random((200, 5)) < 0.3).astype(np.float32))
    plain, short = (
        JointNeighborDecoder(10, weight=0.7, temperature=0.1, n_terms=9, n_axes=n).fit(Z, Y) for n in (None, 3)
    )
    assert plain.axes_ is None and short.axes_.shape == (20, 3)
    beside = 9 if search == "exact" else 0
    assert plain.vectors_.shape == (200, 20 + beside) and short.vectors_.shape == (200, 3 + beside)
    steps = short.vectors_ * 128
    assert (steps == np.rint(steps)).all() and np.abs(steps).max() <= 127
    # Of two searches the last ones found may differ.
    found = [decoder._search(Z[:20], None, 10)[1][:, :5] for decoder in (short, plain)]
    np.testing.assert_allclose(*found, atol=0.02)
    evidence = short.evidence(Z[[3]], 1)
    mean = sum(v.contribution * v.similarity for v in evidence.votes) / evidence.score
    linear = evidence.direction @ codes[3] + Z.features[[3]] @ evidence.feature_direction
    assert float(linear[0]) == pytest.approx(mean, rel=1e-3)


def test_a_judge_decides_what_the_votes_are_for(rows):
    """One who wants the votes of a single neighbor gets them; the votes of the rows are there for whoever asked."""
    Z, Y = rows
    chosen = np.arange(0, 120, 2)
    decoder = (
        JointNeighborDecoder().fit(Z, Y).tune(Z[chosen], chosen, Z, lambda found: -vote_totals(*found, Y, Y[[0]]).nnz)
    )
    assert decoder.n_neighbors_ == 10
    votes = vote_totals(*decoder.pop_tuned_ballots(), Y, decoder.prior_)
    np.testing.assert_allclose(votes.toarray(), decoder.loo_scores(Z[chosen], chosen, Z, Y).toarray(), atol=1e-6)


@pytest.fixture(scope="module")
def data():
    return make_asymmetric_multilabel(800, 240, 50, random_state=0)


def classifier(ranker=None, **settings):
    return SLDLClassifier(
        RandomLabelEmbedding(32), RidgeMapping(), JointNeighborDecoder(), ranker, random_state=0, **settings
    )


@pytest.mark.parametrize("ranker", [None, LinearRanker(20)], ids=["votes", "ranker"])
def test_in_the_classifier(data, search, ranker, tmp_path):
    train, test = data.split("train"), data.split("test")
    clf = classifier(ranker).fit(train.X, train.Y)
    plain = SLDLClassifier(RandomLabelEmbedding(32), decoder=NeighborDecoder(), ranker=ranker, random_state=0)
    assert clf.score(test.X, test.Y) > plain.fit(train.X, train.Y).score(test.X, test.Y) - 0.01
    assert clf.calibration_ is not None
    labels, scores = clf.predict_topk(test.X[:3], 1)
    told = clf.explain(test.X[[0]], int(labels[0, 0]), top=10_000)
    assert told.score == pytest.approx(scores[0, 0], rel=1e-4)
    if ranker is None:
        mean = sum(n.contribution * n.similarity for n in told.neighbors) / told.score
        assert told.terms_total == pytest.approx(mean, rel=1e-3)
    clf.save(tmp_path / "model")
    assert (load_model(tmp_path / "model").decision_function(test.X) == clf.decision_function(test.X)).all()


def test_rows_come_and_go_as_if_fitted_with_them(data, search):
    X, Y = data.X, data.Y
    clf = classifier(online=True).fit(X[:-50], Y[:-50])
    chosen = clf.decoder_.weight_, clf.decoder_.temperature_, clf.decoder_.n_neighbors_
    clf.partial_fit(X[-50:], Y[-50:])
    assert chosen == (clf.decoder_.weight_, clf.decoder_.temperature_, clf.decoder_.n_neighbors_)
    fresh = JointNeighborDecoder(chosen[2], weight=chosen[0], temperature=chosen[1]).fit(
        clf._rows_to_decode(clf.training_features_), Y
    )
    np.testing.assert_allclose(
        clf.decoder_.scores(clf._rows_to_decode(X[:20])).toarray(),
        fresh.scores(clf._rows_to_decode(X[:20])).toarray(),
        atol=1e-5,
    )
    clf.remove_rows([0, 7])
    assert clf.decoder_.Y_.shape[0] == len(clf.decoder_.vectors_) == len(data.X.indptr) - 3


def test_hard_cases(search):
    """Duplicate rows, a row without features, a code of zero, more neighbors than rows, bad parameters."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.random((10, 8)).astype(np.float32), 2, axis=0)
    X[0] = 0
    codes = X[:, :3].copy()
    Y = sparse.csr_array((rng.random((20, 5)) < 0.5).astype(np.float32))
    Z = CodedRows(codes, X)
    with pytest.warns(SLDLWarning, match="n_neighbors=100 is more than the 20 training rows"):
        decoder = JointNeighborDecoder(100).fit(Z, Y).tune(Z, np.arange(20), Z)
    scores = decoder.scores(Z).toarray()
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(scores[0], Y.toarray().mean(axis=0), atol=1e-6)  # near to nothing: the prior answers
    with pytest.raises(DataError, match="'weight' parameter"):
        JointNeighborDecoder(weight=2).fit(Z, Y)
    with pytest.raises(DataError, match="'temperature' parameter"):
        JointNeighborDecoder(temperature=0).fit(Z, Y)
    with pytest.raises(DataError, match="'n_neighbors' parameter"):
        JointNeighborDecoder(0).fit(Z, Y)
