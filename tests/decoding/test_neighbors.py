"""Votes against Eq. 20 written as a loop."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.backend.topk import top_k
from pysldl.decoding import BlendDecoder, LinearReadout, NeighborDecoder
from pysldl.exceptions import DataError, SLDLWarning


@pytest.fixture
def codes():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(40, 6)).astype(np.float32)
    Y = sparse.csr_array((rng.random((40, 9)) < 0.3).astype(np.float32))
    return Z, Y, rng.normal(size=(5, 6)).astype(np.float32)


def slow_votes(Z, Y, z, k):
    distance = np.array([1 - z @ row / np.linalg.norm(z) / np.linalg.norm(row) for row in Z])
    nearest = np.argsort(distance, kind="stable")[:k]
    return sum(Y.toarray()[i] / distance[i] for i in nearest), sum(1 / distance[i] for i in nearest)


def test_votes_equal_equation_20(codes):
    Z, Y, Q = codes
    raw = NeighborDecoder(7, normalize=False).fit(Z, Y).scores(Q).toarray()
    share = NeighborDecoder(7).fit(Z, Y).scores(Q).toarray()
    for i, z in enumerate(Q):
        votes, total = slow_votes(Z, Y, z, 7)
        np.testing.assert_allclose(raw[i], votes, rtol=1e-4)
        np.testing.assert_allclose(share[i], votes / total, rtol=1e-4, atol=1e-6)


def test_coinciding_codes_vote_with_the_floor_or_alone(codes):
    Z, Y, _ = codes
    floor = NeighborDecoder(7, normalize=False, min_distance=1e-4).fit(Z, Y).scores(Z[:3])
    assert np.isfinite(floor.data).all()
    assert floor.max() < 1.1e4
    alone = NeighborDecoder(7, exact_match="only").fit(Z, Y).scores(Z[:3]).toarray()
    np.testing.assert_array_equal(alone, Y[:3].toarray())


def test_a_zero_code_gets_the_label_prior(codes):
    Z, Y, _ = codes
    scores = NeighborDecoder(7).fit(Z, Y).scores(np.zeros((1, 6), np.float32)).toarray()[0]
    np.testing.assert_allclose(scores, Y.toarray().mean(axis=0), rtol=1e-6)


def test_more_neighbors_than_rows_is_reduced_with_a_warning(codes):
    Z, Y, Q = codes
    with pytest.warns(SLDLWarning, match="n_neighbors=100 is more than the 40 training rows; using 40"):
        decoder = NeighborDecoder(100).fit(Z, Y)
    assert decoder.n_neighbors_ == 40
    np.testing.assert_allclose(decoder.scores(Q).toarray(), NeighborDecoder(40).fit(Z, Y).scores(Q).toarray())
    with pytest.raises(DataError, match="'n_neighbors' parameter"):
        NeighborDecoder(0).fit(Z, Y)


def test_left_out_votes_are_those_of_an_index_without_the_row(codes):
    Z, Y, _ = codes
    decoder = NeighborDecoder(7).fit(Z, Y)
    rows = np.array([4, 20])
    found = decoder.loo_scores(Z[rows], rows, Z, Y).toarray()
    for row, scores in zip(rows, found, strict=True):
        others = np.delete(np.arange(40), row)
        expected = NeighborDecoder(7).fit(Z[others], Y[others]).scores(Z[[row]]).toarray()[0]
        np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)


def test_readout_is_ridge_regression(codes):
    from sklearn.linear_model import Ridge

    Z, Y, Q = codes
    alpha = 0.5 * (Z.astype(float) ** 2).sum() / len(Z)
    reference = Ridge(alpha, fit_intercept=False).fit(Z, Y.toarray())
    np.testing.assert_allclose(LinearReadout(0.5).fit(Z, Y).scores(Q), reference.predict(Q), atol=1e-4)


def test_left_out_readout_equals_refitting_without_the_row(codes):
    Z, Y, _ = codes
    decoder = LinearReadout(0.0).fit(Z, Y)  # without penalty, whose unit depends on the row left out
    rows = np.array([4, 20])
    found = decoder.loo_scores(Z[rows], rows, Z, Y)
    for row, scores in zip(rows, found, strict=True):
        others = np.delete(np.arange(40), row)
        expected = LinearReadout(0.0).fit(Z[others], Y[others]).scores(Z[[row]])[0]
        np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_blend_mixes_share_and_readout(codes):
    Z, Y, Q = codes
    votes = NeighborDecoder(7).fit(Z, Y).scores(Q).toarray()
    readout = LinearReadout().fit(Z, Y).scores(Q)
    blend = BlendDecoder(NeighborDecoder(7, normalize=False), weight=0.25).fit(Z, Y)
    np.testing.assert_allclose(blend.scores(Q), 0.75 * votes + 0.25 * readout, atol=1e-6)
    with pytest.raises(DataError, match="'weight' parameter"):
        BlendDecoder(weight=1.5).fit(Z, Y)


@pytest.mark.parametrize("decoder", [NeighborDecoder(7), NeighborDecoder(7, normalize=False), LinearReadout()])
def test_evidence_adds_up_to_the_score(codes, decoder):
    Z, Y, Q = codes
    decoder.fit(Z, Y)
    scores = decoder.scores(Q)
    scores = scores.toarray() if sparse.issparse(scores) else scores
    for label in range(9):
        evidence = decoder.evidence(Q[0], label)
        assert evidence.score == pytest.approx(scores[0, label], rel=1e-4, abs=1e-6)
        if evidence.votes:
            assert sum(v.contribution for v in evidence.votes) == pytest.approx(evidence.score, rel=1e-5)
            mean = sum(v.contribution * v.similarity for v in evidence.votes) / evidence.score
            assert float(evidence.direction @ Q[0]) == pytest.approx(mean, rel=1e-4)


def test_candidates_are_the_best_of_the_scores(codes):
    Z, Y, Q = codes
    Q = np.vstack([Q, np.zeros((1, 6), np.float32)])
    decoder = NeighborDecoder(7).fit(Z, Y)
    for (labels, votes), scores in (
        (decoder.candidates(Q, 4), decoder.scores(Q)),
        (decoder.loo_candidates(Z, np.arange(40), Z, Y, 4), decoder.loo_scores(Z, np.arange(40), Z, Y)),
    ):
        expected, best = top_k(scores, 4)
        np.testing.assert_allclose(votes, np.where(expected < 0, 0, best), rtol=1e-5)
        assert (labels == expected).mean() > 0.95  # sums round differently, and some ties turn
