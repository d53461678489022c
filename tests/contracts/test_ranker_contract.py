"""What every ranker must do."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from pysldl.decoding import FeatureNeighborDecoder
from pysldl.exceptions import DataError
from pysldl.ranking import LinearRanker

RANKERS = {
    "default": LinearRanker(10),
    "only the decoder's": LinearRanker(10, n_frequent=0, n_centroid_candidates=0),
    "centroids": LinearRanker(10, n_frequent=2, n_centroid_candidates=4),
    "propensity": LinearRanker(10, propensity=(0.55, 1.5)),
}


@pytest.fixture(params=RANKERS, ids=list(RANKERS))
def ranker(request):
    return clone(RANKERS[request.param])


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    Y = sparse.csr_array((rng.random((300, 12)) < 0.2).astype(np.float32))
    X = sparse.csr_array(Y @ (rng.random((12, 60)) * (rng.random((12, 60)) < 0.2)), dtype=np.float32)
    decoder = FeatureNeighborDecoder(20).fit(X, Y)
    return X, Y, *decoder.loo_candidates(X, np.arange(300), X, Y, 10)


def test_the_same_ranker_again(ranker, world):
    first = ranker.fit(*world, np.random.RandomState(0))
    assert first is ranker
    again = clone(ranker).fit(*world, np.random.RandomState(0))
    assert (first.W_ != again.W_).nnz == 0 and (first.bias_ == again.bias_).all()


def test_ranks_every_candidate_once_between_0_and_1(ranker, world):
    X, Y, labels, votes = world
    ranked = ranker.fit(*world, np.random.RandomState(0)).rank(X[:40], labels[:40], votes[:40])
    found, scores = ranked.labels, ranked.scores
    there = found >= 0
    assert (scores[there] >= 0).all() and (scores[there] <= 1).all() and np.isneginf(scores[~there]).all()
    assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in found)
    assert all(set(row[row >= 0]) <= set(more) for row, more in zip(labels[:40], found, strict=True))
    best = found[np.arange(40), scores.argmax(axis=1)]
    assert np.mean([Y[row, label] for row, label in enumerate(best)]) > 0.8


def test_one_row_gets_what_it_gets_among_others(ranker, world):
    X, _, labels, votes = world
    ranker.fit(*world, np.random.RandomState(0))
    together, alone = ranker.rank(X[:9], labels[:9], votes[:9]), ranker.rank(X[[5]], labels[[5]], votes[[5]])
    assert (together.labels[5] == alone.labels[0]).all()
    np.testing.assert_allclose(together.scores[5], alone.scores[0], rtol=1e-5)


def test_states_its_memory_and_refuses_bad_parameters(ranker, world):
    assert ranker.memory(1000, 500) > 0
    with pytest.raises(DataError, match="'n_candidates' parameter"):
        ranker.set_params(n_candidates=0).fit(*world, np.random.RandomState(0))
