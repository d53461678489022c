"""Rows that are asked for alone, or a few at a time, get what they get among many, to the last bit."""

import numpy as np
import pytest
from scipy import sparse

from pysldl import SLDLClassifier
from pysldl.backend import dispatch, single_query
from pysldl.decoding import FeatureNeighborDecoder
from pysldl.estimator import predictor
from pysldl.ranking import LinearRanker, TreeReranker

N_ROWS, N_FEATURES, N_LABELS = 900, 120, 30

SETTINGS = {
    "trees": {"reranker": TreeReranker(6, n_trees=8)},
    "more trees than candidates": {"reranker": TreeReranker(200, n_trees=3)},
    "no trees": {"reranker": None},
    "centroids": {"ranker": LinearRanker(5, n_frequent=3, n_centroid_candidates=4)},
    "few terms": {"decoder": FeatureNeighborDecoder(7, n_terms=3, max_postings=40)},
}


@pytest.fixture(scope="module")
def world():
    """Words and labels that they bring; a label without rows, and a row without words."""
    rng = np.random.default_rng(0)
    Y = rng.random((N_ROWS, N_LABELS)) < np.linspace(0.3, 0.02, N_LABELS)
    Y[:, 4] = False
    Y[:, 0] |= ~Y.any(axis=1)
    words = rng.random((N_LABELS, N_FEATURES)) < 0.1
    chance = 0.02 + 0.5 * (Y.astype(float) @ words > 0)
    X = sparse.csr_array(np.where(rng.random(chance.shape) < chance, rng.integers(1, 4, chance.shape), 0.0))
    X = sparse.vstack([X, sparse.csr_array((1, N_FEATURES))], format="csr").astype(np.float32)
    return X, sparse.csr_array(Y.astype(np.float32))


@pytest.fixture(params=SETTINGS.values(), ids=SETTINGS)
def model(request, world, monkeypatch):
    pytest.importorskip("numba", reason="without numba there are no loops to compare")
    settings = {
        "decoder": FeatureNeighborDecoder(12, n_terms=8),
        "ranker": LinearRanker(8, n_frequent=4, n_centroid_candidates=0),
        "reranker": TreeReranker(5, n_trees=4),
    } | request.param
    monkeypatch.setattr(single_query, "_loops", None)
    monkeypatch.setattr(dispatch._few_rows, "most", 1)
    with pytest.warns(match="no training examples"):
        fitted = SLDLClassifier(embedding=None, mapping=None, **settings).fit(world[0][:N_ROWS], world[1])
    single_query.compile_loops(lambda: fitted.predict_topk(world[0][:1]))
    return fitted


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("k", [3, 40])
def test_a_few_rows_get_what_many_get(model, world, monkeypatch, size, k):
    X = world[0][N_ROWS - 60 :]
    together = model.predict_topk(X, k)
    calls = []
    monkeypatch.setattr(predictor, "rank_rows", lambda *args: calls.append(1) or single_query.rank_rows(*args))
    parts = [model.predict_topk(X[start : start + size], k) for start in range(0, X.shape[0], size)]
    assert len(calls) == len(parts)
    for whole, some in zip(together, zip(*parts, strict=True), strict=True):
        np.testing.assert_array_equal(whole, np.concatenate(some), strict=True)
    assert (together[0] >= 0).any() and 4 not in together[0]
