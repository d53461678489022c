"""Stages are estimators to scikit-learn although they do not inherit from it; parameters against their constraints."""

from dataclasses import KW_ONLY, dataclass

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils import get_tags
from sklearn.utils._param_validation import Interval, Real

from pysldl import SLDLClassifier, make_sldl
from pysldl._utils.constraints import Positive
from pysldl._utils.light_estimator import (
    LightEstimator,
    available_if,
    comes_from_interrupt,
    inherit_parameters,
    parameter_entries,
    validate_parameters,
)
from pysldl.decoding import BlendDecoder, JointNeighborDecoder, LinearReadout
from pysldl.exceptions import DataError, NotAvailableError


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


@dataclass(eq=False, repr=False)
class Light(LightEstimator):
    width: Positive | None = 1.0


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


# Methods that only some models have


class Door:
    def __init__(self, locked):
        self.locked = locked

    @available_if(lambda door: "it is locked." if door.locked else None)
    def enter(self, name):
        """Go in."""
        return f"hello {name}"


def test_the_method_is_there_or_says_why_not():
    assert hasattr(Door(False), "enter") and Door(False).enter("you") == "hello you"
    assert not hasattr(Door(True), "enter") and Door.enter.__doc__ == "Go in."
    with pytest.raises(NotAvailableError, match=r"This Door has no enter: it is locked\."):
        Door(True).enter("you")


# Ctrl-C is found behind other errors, and looking for it ends


def test_an_interrupt_behind_other_errors():
    error = SystemError()
    error.__cause__ = ValueError()
    error.__cause__.__context__ = KeyboardInterrupt()
    assert comes_from_interrupt(error) and not comes_from_interrupt(ValueError())


def test_errors_that_lie_behind_each_other():
    first, second = OSError(), ValueError()
    first.__context__, second.__cause__ = second, first
    assert not comes_from_interrupt(first)


# Parameters sections completed by the entries of base classes


@dataclass(kw_only=True)
class Base:
    """A base.

    Parameters
    ----------
    rate : float, default=0.1
        How fast.
    name : str, default="base"
        What it is called.

    Notes
    -----
    Nothing.
    """

    rate: float = 0.1
    name: str = "base"


@inherit_parameters
@dataclass
class Derived(Base):
    """A class that adds two parameters and changes a default.

    Parameters
    ----------
    width, height : int, default=1
        Its size.

    Examples
    --------
    >>> 1 + 1
    2
    """

    width: int = 1
    height: int = 1
    _: KW_ONLY
    name: str = "derived"


def test_entries_by_name() -> None:
    entries = parameter_entries(Base.__doc__ or "")
    assert list(entries) == ["rate", "name"]
    assert entries["rate"] == "rate : float, default=0.1\n    How fast."


def test_inherited_entries_follow_the_constructor_with_the_defaults_of_the_class() -> None:
    assert list(parameter_entries(Derived.__doc__ or "")) == ["width", "height", "rate", "name"]
    assert parameter_entries(Derived.__doc__ or "")["name"] == 'name : str, default="derived"\n    What it is called.'
    assert (Derived.__doc__ or "").count("width, height : int") == 1
    assert (Derived.__doc__ or "").endswith("Examples\n--------\n>>> 1 + 1\n2")


def test_a_class_without_docstring_stays_without() -> None:
    class Silent(Base):
        pass

    Silent.__doc__ = None
    assert inherit_parameters(Silent).__doc__ is None
