"""Parameters against the constraints of their class."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, Real

from pysldl import SLDLClassifier, make_sldl
from pysldl._utils.light_estimator import LightEstimator
from pysldl._utils.validation import validate_parameters
from pysldl.exceptions import DataError


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
