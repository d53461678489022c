"""Constraints that are read from the annotations of fields."""

from dataclasses import dataclass
from typing import Literal

import pytest

from pysldl._utils.constraints import Count, Positive, Seed
from pysldl._utils.light_estimator import LightEstimator, validate_parameters
from pysldl.exceptions import DataError


@dataclass
class Base(LightEstimator):
    width: Count = 3
    rate: Positive | None = None
    kind: Literal["a", "b"] = "a"
    flag: bool = False
    seed: Seed = None


@dataclass
class Derived(Base):
    width: int = 5  # another default, the same constraint
    kind: Literal["a", "c"] = "c"


@pytest.mark.parametrize("given", [{}, {"width": 1}, {"rate": 0.5}, {"rate": None}, {"flag": True}, {"seed": 7}])
def test_allowed_values_pass(given):
    validate_parameters(Base(**given))
    validate_parameters(Derived(**given))


@pytest.mark.parametrize("given", [{"width": 0}, {"rate": 0.0}, {"kind": "z"}, {"flag": 3}, {"seed": "x"}])
def test_other_values_are_refused_by_name(given):
    for cls in (Base, Derived):
        with pytest.raises(DataError, match=next(iter(given))):
            validate_parameters(cls(**given))


def test_a_subclass_may_take_other_values():
    validate_parameters(Derived(kind="c"))
    with pytest.raises(DataError, match="kind"):
        validate_parameters(Derived(kind="b"))
