"""Votes and read-out together."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.decoding import BlendDecoder, LinearReadout, NeighborDecoder
from pysldl.decoding.blend import mixed_scores


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(80, 5)).astype(np.float32), sparse.csr_array((rng.random((80, 6)) < 0.3).astype(np.float32))


@pytest.mark.parametrize(("weight", "part"), [(0.0, NeighborDecoder(9)), (1.0, LinearReadout())])
def test_the_ends_are_its_parts(rows, weight, part):
    Z, Y = rows
    alone = part.fit(Z, Y).scores(Z)
    alone = alone.toarray() if sparse.issparse(alone) else alone
    blend = BlendDecoder(NeighborDecoder(9), weight=weight).fit(Z, Y)
    setattr(blend, "neighbors_" if weight else "readout_", None)  # what has no weight is not asked
    np.testing.assert_allclose(blend.scores(Z), alone, atol=1e-6)


def test_the_mixture_is_weighted():
    votes, readout = sparse.csr_array([[1.0, 0.0]], dtype=np.float32), np.array([[0.2, 0.6]], dtype=np.float32)
    np.testing.assert_allclose(mixed_scores(votes, readout, 0.25), [[0.8, 0.15]], rtol=1e-6)


def test_votes_are_normalized_whatever_the_neighbors_say(rows):
    Z, Y = rows
    blend = BlendDecoder(NeighborDecoder(9, normalize=False)).fit(Z, Y)
    assert blend.neighbors_.normalize and blend.scores(Z).max() <= 1.5


def test_what_was_chosen_is_kept_by_another_fit(rows):
    Z, Y = rows
    blend = BlendDecoder(NeighborDecoder(9), weight=None).fit(Z, Y).tune(Z, np.arange(80), Z)
    chosen = blend.weight_
    assert blend.fit(Z, Y).weight_ == chosen
