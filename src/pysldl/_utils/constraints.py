"""Constraints on the parameters of an estimator, read from the annotations of its fields."""

from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

from sklearn.utils._param_validation import Interval, StrOptions

Count = Annotated[int, Interval(Integral, 1, None, closed="left")]
CountOrZero = Annotated[int, Interval(Integral, 0, None, closed="left")]
Positive = Annotated[float, Interval(Real, 0, None, closed="neither")]
NotNegative = Annotated[float, Interval(Real, 0, None, closed="left")]
Share = Annotated[float, Interval(Real, 0, 1, closed="left")]
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
        inherited = getattr(cls, "_parameter_constraints", {})
        cls._parameter_constraints = inherited | {name: one for name, one in declared.items() if one}


def _constraints(annotation: Any) -> list[Any]:
    if annotation is bool:
        return ["boolean"]
    if annotation is type(None):
        return [None]
    if get_origin(annotation) is Annotated:
        return list(annotation.__metadata__)
    if get_origin(annotation) is Literal:
        return [StrOptions(set(get_args(annotation)))]
    of_parts = [_constraints(part) for part in get_args(annotation)]
    return [one for part in of_parts for one in part] if of_parts and all(of_parts) else []
