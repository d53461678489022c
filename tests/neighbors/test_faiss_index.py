"""faiss behind the interface of the exact index: recall as asked for, the same answers where it looks everywhere."""

import builtins

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from pysldl import SLDLClassifier
from pysldl.decoding import NeighborDecoder
from pysldl.embedding import RandomLabelEmbedding
from pysldl.exceptions import DataError, MissingDependencyError
from pysldl.neighbors import ExactIndex, FaissIndex
from pysldl.neighbors import faiss_index as faiss_index_module
from pysldl.persistence import load_model


@pytest.fixture
def faiss():
    return pytest.importorskip("faiss", reason='faiss is not installed: pip install "pysldl[faiss]"')


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(40, 16))
    return (centers[rng.integers(0, 40, 3000)] + 0.7 * rng.normal(size=(3000, 16))).astype(np.float32)


@pytest.mark.parametrize("left_out", [False, True])
def test_flat_finds_what_the_exact_index_finds(faiss, vectors, left_out):
    rows = np.arange(50) if left_out else None
    exact = ExactIndex().fit(vectors).search(vectors[:50], 9, exclude=rows)
    flat = FaissIndex("flat").fit(vectors).tune(9).search(vectors[:50], 9, exclude=rows)
    assert (flat[0] == exact[0]).mean() > 0.99
    np.testing.assert_allclose(flat[1], exact[1], atol=1e-6)


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
@pytest.mark.parametrize("recall", [0.7, 0.98])
def test_recall_is_reached_on_other_queries_too(faiss, vectors, kind, recall):
    index = FaissIndex(kind, recall=recall, random_state=0).fit(vectors).tune(10)
    assert index.recall_ >= recall
    queries = vectors[:1000] + np.float32(0.01)
    found, _ = index.search(queries, 10)
    true, _ = ExactIndex().fit(vectors).search(queries, 10)
    share = np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(found, true, strict=True)])
    assert share > recall - 0.05


def test_less_recall_costs_less_effort(faiss, vectors):
    efforts = [FaissIndex("ivf", recall=r, random_state=0).fit(vectors).tune(10).effort_ for r in (0.5, 0.9, 1.0)]
    assert efforts[0] < efforts[1] < efforts[2]


def test_a_recall_out_of_reach_says_what_was_reached(faiss, vectors, monkeypatch):
    monkeypatch.setattr(faiss_index_module, "MOST_EFFORT", 4)
    monkeypatch.setattr(faiss_index_module, "LINKS", 2)
    with pytest.raises(DataError, match=r"recall=1.0 cannot be reached by kind='hnsw'.*finds 0\.\d+ of the 3 nearest"):
        FaissIndex("hnsw", recall=1.0, random_state=0).fit(vectors).tune(3)


def test_bad_parameters(faiss, vectors):
    with pytest.raises(DataError, match="'recall' parameter"):
        FaissIndex(recall=1.5).fit(vectors)
    with pytest.raises(DataError, match="'kind' parameter"):
        FaissIndex("tree").fit(vectors)


def test_missing_faiss_says_what_to_install(vectors, monkeypatch):
    plain_import = builtins.__import__

    def without_faiss(name, *arguments, **keywords):
        if name == "faiss":
            raise ImportError("No module named 'faiss'")
        return plain_import(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without_faiss)
    with pytest.raises(MissingDependencyError, match=r"pip install \"pysldl\[faiss\]\""):
        NeighborDecoder(5, index=FaissIndex()).fit(vectors, sparse.csr_array(np.ones((3000, 1), np.float32)))


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_in_a_classifier_that_is_saved_and_loaded(faiss, kind, tmp_path):
    from pysldl.datasets import make_asymmetric_multilabel

    data = make_asymmetric_multilabel(random_state=0)
    train, test = data.split("train"), data.split("test")
    decoder = NeighborDecoder(20, index=FaissIndex(kind, recall=0.95, random_state=0))
    clf = SLDLClassifier(RandomLabelEmbedding(32), decoder=decoder, random_state=0)
    assert clone(clf).set_params(decoder__index__recall=0.5).decoder.index.recall == 0.5
    clf.fit(train.X, train.Y)
    exact = SLDLClassifier(RandomLabelEmbedding(32), decoder=NeighborDecoder(20), random_state=0)
    assert clf.score(test.X, test.Y) > exact.fit(train.X, train.Y).score(test.X, test.Y) - 0.02
    clf.save(tmp_path / "model")
    assert (load_model(tmp_path / "model").decision_function(test.X) == clf.decision_function(test.X)).all()


def test_few_vectors_and_duplicates(faiss):
    vectors = np.repeat(np.eye(3, dtype=np.float32), 4, axis=0)
    for kind in ("flat", "ivf", "hnsw"):
        index = FaissIndex(kind, recall=0.9, random_state=0).fit(vectors).tune(30)
        neighbors, distances = index.search(vectors[:1], 4)
        assert set(neighbors[0]) == {0, 1, 2, 3} and np.allclose(distances, 0)
