"""Same seed, one thread and two: the same labels."""

from contextlib import contextmanager

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from pysldl import SLDLClassifier, make_sldl
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.decoding import JointNeighborDecoder, LinearRanker, NeighborDecoder
from pysldl.embedding import RandomLabelEmbedding
from pysldl.mapping import RidgeMapping

numba = pytest.importorskip("numba", reason="numba is not installed, so only one thread is used")


@contextmanager
def threads(number):
    """So many threads for compiled loops and for BLAS."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(number, before))
    try:
        with threadpool_limits(number):
            yield
    finally:
        numba.set_num_threads(before)


def latent(decoder, ranker=None):
    mapping = RidgeMapping(solver="cg", early_stopping=True)
    return SLDLClassifier(RandomLabelEmbedding(32), mapping, decoder, ranker, random_state=0)


@pytest.mark.parametrize(
    "classifier",
    [
        make_sldl("paper", embedding__n_components=32, embedding__n_steps=100),
        make_sldl("accurate"),
        make_sldl("fast"),
        latent(NeighborDecoder(20)),
        latent(JointNeighborDecoder(), LinearRanker(20)),
    ],
    ids=["paper", "accurate", "fast", "latent", "joint and ranker"],
)
def test_top_five_labels_do_not_depend_on_the_number_of_threads(classifier):
    data = make_asymmetric_multilabel(random_state=0)
    found = []
    for number in (1, 2):
        with threads(number):
            found.append(classifier.fit(data.X, data.Y).predict_topk(data.X, 5))
    same = (found[0][0] == found[1][0]).all(axis=1)
    assert same.mean() >= 0.999
    np.testing.assert_allclose(found[0][1][same], found[1][1][same], rtol=1e-3)
