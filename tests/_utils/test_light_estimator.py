"""Stages are estimators to scikit-learn although they do not inherit from it."""

import pytest
from sklearn.base import clone, is_classifier
from sklearn.utils import get_tags

from pysldl import SLDLClassifier
from pysldl.decoding import BlendDecoder, JointNeighborDecoder, LinearReadout


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
