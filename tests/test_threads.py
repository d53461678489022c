"""Same seed, same result: with one thread and with two."""

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from pysldl import SLDLClassifier, make_sldl
from pysldl.embedding import GaussianLabelEmbedding, VectorLabelEmbedding

numba = pytest.importorskip("numba", reason="numba is not installed, and the plain loops run in one thread")

SPARSE = {"graph": "sparse", "reach": 16, "tail": 8, "random_state": 0}
CLASSIFIERS = {
    "latent": SLDLClassifier(GaussianLabelEmbedding(16, batch_size=32, max_steps=60, **SPARSE), random_state=0),
    "vectors": SLDLClassifier(
        VectorLabelEmbedding(16, graph="sparse", reach=16, max_steps=30, random_state=0), random_state=0
    ),
    "fast": make_sldl("fast"),
    "accurate": make_sldl("accurate"),
    "accurate, as if it were large": make_sldl("accurate", decoder__limit=0, ranker__limit=0),
}


@pytest.fixture(scope="module")
def rows():
    """Texts of two thousand rows: few words each, and labels with a heavy head."""
    rng = np.random.default_rng(0)
    n_rows, n_labels, n_words = 2000, 150, 900
    labels = np.minimum(rng.zipf(1.4, (n_rows, 3)), n_labels) - 1
    words = np.where(
        rng.random((n_rows, 12)) < 0.7, labels[:, np.arange(12) % 3] * 6 + rng.integers(0, 6, (n_rows, 12)), 0
    )
    words = np.where(words == 0, rng.integers(0, n_words, words.shape), words)

    def counted(columns, n_columns):
        matrix = sparse.coo_array(
            (np.ones(columns.size, np.float32), (np.repeat(np.arange(n_rows), columns.shape[1]), columns.ravel())),
            shape=(n_rows, n_columns),
        )
        return sparse.csr_array(matrix)

    Y = counted(labels, n_labels)
    Y.data[:] = 1.0
    return counted(words, n_words), Y


@pytest.mark.filterwarnings("ignore:.*labels occur in no training row")
@pytest.mark.parametrize("name", list(CLASSIFIERS))
def test_one_thread_and_two_give_the_same(rows, name):
    X, Y = rows
    before = numba.get_num_threads()
    found = []
    for threads in (1, min(2, before)):
        numba.set_num_threads(threads)
        with threadpool_limits(threads):
            classifier = CLASSIFIERS[name].fit(X[:1500], Y[:1500])
            found.append(classifier.predict_topk(X[1500:], k=5))
    numba.set_num_threads(before)
    (labels, scores), (labels_of_two, scores_of_two) = found
    assert (labels == labels_of_two).all(axis=1).mean() >= 0.999
    there = labels == labels_of_two
    np.testing.assert_allclose(scores[there], scores_of_two[there], rtol=1e-4, atol=1e-5)
