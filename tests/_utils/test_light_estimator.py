"""Stages are estimators to scikit-learn although they do not inherit from it; parameters against their constraints."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils import get_tags
from sklearn.utils._param_validation import Interval, Real

from pysldl import SLDLClassifier, make_sldl
from pysldl._utils.light_estimator import LightEstimator, validate_parameters
from pysldl.decoding import BlendDecoder, JointNeighborDecoder, LinearReadout
from pysldl.exceptions import DataError


def test_parameters_go_in_and_come_out() -> None:
    blend = BlendDecoder(JointNeighborDecoder(7), LinearReadout(), weight=0.2)
    assert blend.get_params()["neighbors__n_neighbors"] == 7
    blend.set_params(neighbors__n_neighbors=9, weight=0.3)
    assert (blend.neighbors.n_neighbors, blend.weight) == (9, 0.3)
    model = SLDLClassifier(decoder=blend).set_params(decoder__readout__alpha=4.0)
    assert blend.readout.alpha == 4.0
    assert model.get_params()["decoder__readout__alpha"] == 4.0


def test_scikit_learn_clones_and_asks_them() -> None:
    blend = BlendDecoder(JointNeighborDecoder(7))
    copy = clone(blend)
    assert copy is not blend and copy.neighbors is not blend.neighbors
    assert copy.get_params()["neighbors__n_neighbors"] == 7
    assert not is_classifier(blend) and get_tags(blend).estimator_type is None


def test_they_show_what_differs_from_the_default() -> None:
    assert repr(BlendDecoder(JointNeighborDecoder(7))) == "BlendDecoder(neighbors=JointNeighborDecoder(n_neighbors=7))"
    assert "JointNeighborDecoder(n_neighbors=7)" in repr(SLDLClassifier(decoder=JointNeighborDecoder(7)))


def test_an_unknown_parameter_is_named() -> None:
    with pytest.raises(ValueError, match="'nothing' for LinearReadout: it has alpha"):
        LinearReadout().set_params(nothing=1)


class Declared(BaseEstimator):
    _parameter_constraints = {"width": [Interval(Real, 0, None, closed="neither"), None]}  # noqa: RUF012

    def __init__(self, width=1.0, free="anything"):
        self.width = width
        self.free = free


class Light(LightEstimator):
    def __init__(self, width=1.0):
        self.width = width

    @staticmethod
    def _parameter_constraints():
        return Declared._parameter_constraints


@pytest.mark.parametrize("kind", [Declared, Light])
def test_constraints_of_either_form(kind):
    validate_parameters(kind())
    validate_parameters(kind(width=None))
    with pytest.raises(DataError, match=f"The 'width' parameter of {kind.__name__} must be .* Got -1 instead"):
        validate_parameters(kind(width=-1))


WRONG = {
    "embedding": "GaussianLabelEmbedding",
    "mapping": 3,
    "decoder": object(),
    "ranker": "yes",
    "reranker": "yes",
    "normalize": "often",
    "standardize": 2.5,
    "calibrate": None,
    "online": "later",
    "vectorizer": "tfidf",
    "device": None,
    "memory_limit": -1,
    "progress": "yes",
    "verbose": "yes",
    "random_state": "seed",
}


@pytest.mark.parametrize("name", SLDLClassifier().get_params(deep=False))
def test_every_parameter_of_the_classifier_is_checked_by_fit_and_not_before(name):
    clf = make_sldl("paper", **{name: WRONG[name]})
    with pytest.raises(DataError, match=f"The '{name}' parameter of SLDLClassifier must be"):
        clf.fit(np.eye(4), np.eye(4))
