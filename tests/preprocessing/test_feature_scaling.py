"""Features that are measurements: standardized where asked for, and searched as dense vectors."""

import numpy as np
import pytest
from scipy import sparse

from pysldl import SLDLClassifier, make_sldl
from pysldl.decoding import FeatureNeighborDecoder
from pysldl.exceptions import MemoryLimitError
from pysldl.metrics import evaluate
from pysldl.persistence import load_model, load_predictor
from pysldl.preprocessing.features import column_scales, is_mostly_dense, standardized
from pysldl.ranking import LinearRanker


@pytest.fixture(scope="module")
def measured():
    """Labels that depend on deviations of a few features, beside one of huge mean and one of huge deviation."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(600, 12))
    Y = (hidden[:, :10] + 0.3 * rng.normal(size=(600, 10)) > 1.0).astype(float)
    Y[Y.sum(axis=1) == 0, 0] = 1
    X = np.hstack(
        [hidden + 5, np.full((600, 1), 3.0), 1e3 + rng.normal(size=(600, 1)), 300 * rng.normal(size=(600, 1))]
    )
    return X, sparse.csr_array(Y)


def precision(clf, X, Y):
    return evaluate(Y[500:], clf.fit(X[:500], Y[:500]).predict_topk(X[500:], 5)[0])["P@1"]


def test_columns_have_mean_0_and_deviation_1(measured):
    X, _ = measured
    Z = standardized(X, *column_scales(X))
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(np.delete(Z.std(axis=0), 12), 1, atol=1e-4)
    np.testing.assert_allclose(Z, standardized(sparse.csr_array(X), *column_scales(sparse.csr_array(X))))


def test_what_counts_as_measurements(measured):
    X, _ = measured
    assert is_mostly_dense(X) and is_mostly_dense(sparse.csr_array(X))
    assert not is_mostly_dense(np.eye(10)) and not is_mostly_dense(sparse.random_array((50, 40), density=0.1))


@pytest.mark.parametrize("preset", ["paper", "accurate"])
def test_the_scale_of_a_feature_does_not_matter(measured, preset):
    X, Y = measured
    raw, standard = (precision(make_sldl(preset, standardize=s), X, Y) for s in (False, True))
    assert standard > raw + 0.1


def test_accurate_decides_by_the_features(measured):
    X, Y = measured
    assert make_sldl("accurate").fit(X, Y).feature_means_ is not None
    counts = sparse.random_array((600, 40), density=0.1, random_state=np.random.default_rng(0), format="csr")
    assert make_sldl("accurate").fit(counts, Y).feature_means_ is None


@pytest.mark.parametrize("large", [False, True])
def test_saved_explained_and_extended(measured, tmp_path, large):
    X, Y = measured
    sizes = {"decoder__limit": 0, "ranker__limit": 0} if large else {}
    clf = make_sldl("accurate", online=True, **sizes).fit(X[:500], Y[:500])
    told = clf.explain(X[510], 1, top=100)
    assert told.score == pytest.approx(clf.decision_function(X[[510]])[0, 1], rel=1e-5)
    clf.save(tmp_path / "model")
    scores = clf.decision_function(X[500:])
    for loaded in (load_model(tmp_path / "model"), load_predictor(tmp_path / "model")):
        many = np.vstack([np.asarray(_dense(part)) for part in loaded.score_blocks(X[500:])])
        np.testing.assert_allclose(many, scores, rtol=1e-5, atol=1e-6)
    means = clf.feature_means_.copy()
    clf.partial_fit(X[500:], Y[500:])
    np.testing.assert_array_equal(clf.feature_means_, means)
    assert clf.n_samples_ == 600 and np.isfinite(clf.predict_topk(X[:5], 3)[1]).all()


def _dense(scores):
    return scores.toarray() if sparse.issparse(scores) else scores


def test_sparse_features_that_would_not_fit_when_dense():
    X = sparse.random_array((400, 50_000), density=1e-4, random_state=np.random.default_rng(0), format="csr")
    Y = np.eye(400, 5)
    Y[5:, 0] = 1
    with pytest.raises(MemoryLimitError, match="standardize=False"):
        make_sldl("fast", standardize=True, memory_limit="100 MB").fit(X, Y)


def test_dense_rows_find_their_exact_neighbors(measured):
    X, Y = measured
    X = X[:, :12].astype(np.float32)
    decoder = FeatureNeighborDecoder(7).fit(X, Y)
    neighbors, similarities = decoder._search(X[:20], np.arange(20), decoder.n_neighbors_)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    exact = unit[:20] @ unit.T
    exact[np.arange(20), np.arange(20)] = -1
    np.testing.assert_allclose(similarities, -np.sort(-exact, axis=1)[:, :7], atol=1e-5)
    assert not (neighbors == np.arange(20)[:, None]).any()


def test_a_ranker_takes_dense_rows(measured):
    X, Y = measured
    votes, ranked = (
        precision(SLDLClassifier(decoder=FeatureNeighborDecoder(20), ranker=ranker, standardize=True), X, Y)
        for ranker in (None, LinearRanker(10))
    )
    assert ranked > votes - 0.02
