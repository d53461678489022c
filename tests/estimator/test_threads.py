"""Same seed, one thread and two: the same model, bit for bit."""

from contextlib import contextmanager

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from pysldl import SLDLClassifier, make_sldl
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.decoding import JointNeighborDecoder, NeighborDecoder
from pysldl.embedding import RandomLabelEmbedding
from pysldl.estimator.presets import PRESETS
from pysldl.mapping import RidgeMapping
from pysldl.persistence.encoding import TreeEncoder
from pysldl.ranking import LinearRanker

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


def arrays(classifier):
    """Every fitted array by its place in the model."""
    encoder = TreeEncoder()
    encoder.estimator(classifier)
    return encoder.arrays


@pytest.mark.parametrize(
    "classifier",
    [
        *(pytest.param(make_sldl(preset), id=preset) for preset in PRESETS),
        pytest.param(latent(NeighborDecoder(20)), id="latent"),
        pytest.param(latent(JointNeighborDecoder(), LinearRanker(20)), id="joint and ranker"),
    ],
)
def test_the_model_does_not_depend_on_the_number_of_threads(classifier):
    data = make_asymmetric_multilabel(500, 150, 40, random_state=0)
    found = []
    for number in (1, 2):
        with threads(number):
            labels, scores = classifier.fit(data.X, data.Y).predict_topk(data.X, 5)
            found.append(arrays(classifier) | {"predicted labels": labels, "predicted scores": scores})
    one, two = found
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)
