"""Constraints on the parameters of an estimator, read from the annotations of its fields."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin


@dataclass(frozen=True)
class Constraint:
    """A constraint of scikit-learn, by its class and arguments: scikit-learn is not imported before a fit checks it."""

    name: str
    arguments: tuple[Any, ...]
    closed: str | None = None


def whole(low: int) -> Constraint:
    """Whole numbers of at least ``low``."""
    return Constraint("Interval", (Integral, low, None), "left")


def between(low: float, high: float | None, closed: Literal["left", "right", "both", "neither"]) -> Constraint:
    """Numbers from ``low`` to ``high``."""
    return Constraint("Interval", (Real, low, high), closed)


def has_methods(*names: str) -> Constraint:
    """Objects with these methods."""
    return Constraint("HasMethods", (list(names),))


def one_of(*words: str) -> Constraint:
    """One of these words."""
    return Constraint("StrOptions", (set(words),))


Count = Annotated[int, whole(1)]
CountOrZero = Annotated[int, whole(0)]
Positive = Annotated[float, between(0, None, "neither")]
NotNegative = Annotated[float, between(0, None, "left")]
Share = Annotated[float, between(0, 1, "left")]
Weight = Annotated[float, between(0, 1, "both")]
Seed = Annotated[Any, "random_state"]


class AnnotatedParameters:
    """Base of estimators whose fields say which values they take.

    scikit-learn's constraints are in the annotation (``Count``, ``Positive``, ``Literal["a", "b"]``, ``bool``). A field
    that is annotated with no more than a type, such as ``epochs: int = 200``, keeps the constraint of the base class.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        declared = {name: _constraints(annotation) for name, annotation in vars(cls).get("__annotations__", {}).items()}
        inherited = getattr(super(cls, cls), "_parameter_constraints", {})
        own = vars(cls).get("_parameter_constraints", {})
        cls._parameter_constraints = inherited | own | {name: one for name, one in declared.items() if one}


def _constraints(annotation: Any) -> list[Any]:
    if annotation is bool:
        return ["boolean"]
    if annotation is type(None):
        return [None]
    if get_origin(annotation) is Annotated:
        return list(annotation.__metadata__)
    if get_origin(annotation) is Literal:
        return [one_of(*get_args(annotation))]
    of_parts = [_constraints(part) for part in get_args(annotation)]
    return [one for part in of_parts for one in part] if of_parts and all(of_parts) else []
