"""What every decoder must do."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from pysldl.decoding import BlendDecoder, FeatureNeighborDecoder, JointNeighborDecoder, LinearReadout, NeighborDecoder
from pysldl.decoding.base import CodedRows
from pysldl.decoding.voting import SimilarityDecoder
from pysldl.exceptions import DataError

DECODERS = {
    "neighbors": NeighborDecoder(7),
    "unnormalized": NeighborDecoder(7, normalize=False, exact_match="only"),
    "features": FeatureNeighborDecoder(7),
    "joint": JointNeighborDecoder(7, weight=0.4, temperature=0.1),
    "tuned": JointNeighborDecoder(),
    "readout": LinearReadout(),
    "blend": BlendDecoder(NeighborDecoder(7), weight=None),
    "blend of both": BlendDecoder(JointNeighborDecoder(7, weight=0.4, temperature=0.1)),
}
N = 150


@pytest.fixture(params=DECODERS, ids=list(DECODERS))
def decoder(request):
    return clone(DECODERS[request.param])


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(N, 6)).astype(np.float32)
    features = sparse.csr_array(np.maximum(rng.normal(size=(N, 20)), 0) * (rng.random((N, 20)) < 0.4), dtype=np.float32)
    Y = sparse.csr_array((rng.random((N, 9)) < 0.3).astype(np.float32))
    return {"codes": codes, "features": features, "both": CodedRows(codes, features)}, Y


def dense(scores):
    return scores.toarray() if sparse.issparse(scores) else np.asarray(scores)


def fitted(decoder, world):
    Z, Y = world[0][decoder.input_kind], world[1]
    decoder.fit(Z, Y)
    if decoder.needs_tuning:
        decoder.tune(Z, np.arange(N), Z)
    return Z, Y


def test_fit_returns_itself_and_the_same_bits_again(decoder, world):
    Z, Y = fitted(decoder, world)
    scores = dense(decoder.scores(Z[:20]))
    assert scores.shape == (20, 9) and np.isfinite(scores).all()
    again = clone(decoder)
    assert again.fit(Z, Y) is again
    fitted(again, world)
    assert (dense(again.scores(Z[:20])) == scores).all()


def test_candidates_are_the_best_scores(decoder, world):
    Z, _ = fitted(decoder, world)
    if isinstance(decoder, JointNeighborDecoder):
        pytest.skip("more neighbors are asked for candidates than for scores")
    labels, votes = decoder.candidates(Z[:20], 3)
    best = -np.sort(-dense(decoder.scores(Z[:20])), axis=1)[:, :3]
    np.testing.assert_allclose(np.where(labels >= 0, votes, 0), np.where(labels >= 0, best, 0), rtol=1e-4, atol=1e-6)


def test_one_row_gets_what_it_gets_among_others(decoder, world):
    Z, _ = fitted(decoder, world)
    together, alone = dense(decoder.scores(Z[:20])), dense(decoder.scores(Z[4:5]))
    np.testing.assert_allclose(alone[0], together[4], rtol=1e-5, atol=1e-6)


def test_a_row_left_out_gets_what_a_fit_without_it_gives(decoder, world):
    Z, Y = fitted(decoder, world)
    rows = np.array([3, 77])
    found = dense(decoder.loo_scores(Z[rows], rows, Z, Y))
    for at, row in enumerate(rows):
        others = np.delete(np.arange(N), row)
        refit = clone(decoder)
        chosen = {name: getattr(decoder, f"{name}_") for name in ("n_neighbors", "weight", "temperature")
                  if getattr(decoder, name, 0) is None}  # fmt: skip
        refit.set_params(**chosen).fit(Z[others], Y[others])
        tolerance = 0.05 if "eadout" in repr(decoder) or "Blend" in repr(decoder) else 1e-4  # its penalty's unit moves
        np.testing.assert_allclose(found[at], dense(refit.scores(Z[row : row + 1]))[0], atol=tolerance)


def test_evidence_adds_up_to_the_score(decoder, world):
    Z, _ = fitted(decoder, world)
    row = Z[8:9] if decoder.input_kind != "codes" else Z[8]
    for label in range(9):
        found = decoder.evidence(row, label)
        assert found.score == pytest.approx(dense(decoder.scores(Z[8:9]))[0, label], rel=1e-3, abs=1e-5)


def test_states_its_memory_and_refuses_bad_parameters(decoder, world):
    assert decoder.memory(1000, 32, 50) >= 0
    name = next(name for name in ("n_neighbors", "alpha", "weight") if name in decoder.get_params(deep=False))
    with pytest.raises(DataError, match=f"'{name}' parameter"):
        decoder.set_params(**{name: -1}).fit(world[0][decoder.input_kind], world[1])


def test_a_blend_counts_the_memory_of_its_own_parts():
    assert BlendDecoder(JointNeighborDecoder()).memory(1000, 32, 50) == JointNeighborDecoder().memory(
        1000, 32, 50
    ) + LinearReadout().memory(1000, 32, 50)


def test_split_candidates_do_not_depend_on_held_out_rows(decoder, world):
    """What the labels of held-out rows are does not matter to any row, except for the late candidates."""
    Z, Y = fitted(decoder, world)
    if not isinstance(decoder, SimilarityDecoder):
        pytest.skip("rows held out have a vote")
    rows, is_held = np.arange(N), np.arange(N) % 5 == 0
    labels, votes, late = decoder.split_candidates(Z, rows, Z, Y, 9, is_held)
    of_all = decoder.loo_candidates(Z, rows, Z, Y, 9)[0]
    np.testing.assert_array_equal(np.sort(late, axis=1), np.sort(of_all, axis=1))
    strange = Y.toarray()
    strange[is_held] = 1 - strange[is_held]
    decoder.Y_ = sparse.csr_array(strange)
    found = decoder.split_candidates(Z, rows, Z, decoder.Y_, 9, is_held)
    assert (found[0] == labels).all() and (found[1] == votes).all() and (found[2] != late).any()
