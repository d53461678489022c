"""What every index of neighbors must do."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from pysldl.neighbors import ExactIndex, FaissIndex, InvertedIndex

INDEXES = {
    "exact": ExactIndex(),
    "inverted": InvertedIndex(1000),
    "flat": FaissIndex("flat"),
    "ivf": FaissIndex("ivf", recall=1.0),
    "hnsw": FaissIndex("hnsw"),
}


@pytest.fixture(params=INDEXES, ids=list(INDEXES))
def index(request):
    if isinstance(INDEXES[request.param], FaissIndex):
        pytest.importorskip("faiss")
    return clone(INDEXES[request.param])


@pytest.fixture
def vectors(index):
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(200, 8))).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return sparse.csr_array(X) if isinstance(index, InvertedIndex) else X


def tolerance(index):
    """Postings have half precision: eleven binary digits."""
    return 1e-3 if isinstance(index, InvertedIndex) else 1e-5


def nearest(index, vectors, k, **options):
    if hasattr(index, "tune"):
        index.tune(k)
    return index.nearest(vectors, k, **options)


def test_the_nearest_of_a_vector_is_itself_unless_excluded(index, vectors):
    assert index.fit(vectors) is index
    rows, products = nearest(index, vectors[:30], 5)
    assert (rows[:, 0] == np.arange(30)).all() and (np.diff(products, axis=1) <= 0).all()
    np.testing.assert_allclose(products[:, 0], 1.0, atol=tolerance(index))
    assert not (nearest(index, vectors[:30], 5, exclude=np.arange(30))[0] == np.arange(30)[:, None]).any()


def test_the_same_neighbors_after_another_fit_and_alone(index, vectors):
    rows, products = nearest(index.fit(vectors), vectors[:30], 5)
    again = nearest(clone(index).fit(vectors), vectors[:30], 5)
    assert (again[0] == rows).all() and (again[1] == products).all()
    alone = index.nearest(vectors[7:8], 5)
    assert (alone[0] == rows[7]).all()


def test_an_index_that_looks_everywhere_finds_the_true_ones(index, vectors):
    if getattr(index, "kind", "") == "hnsw":
        pytest.skip("it does not look everywhere")
    dense = vectors.toarray() if sparse.issparse(vectors) else vectors
    expected = -np.sort(-(dense[:30] @ dense.T), axis=1)[:, :5]
    np.testing.assert_allclose(nearest(index.fit(vectors), vectors[:30], 5)[1], expected, atol=tolerance(index))
