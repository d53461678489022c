"""What all estimators share, without importing scikit-learn before something is fitted.

Their parameters, fits that leave nothing half done, methods that only some models have, and inherited docstrings.

A service must give its first answer within 0.8 s. From the start of the process to the first ``predict_topk`` of
``load_predictor`` pass 0.72 s (0.54 s of processor time) with this base of decoders, indexes, ranker and calibration,
and 2.90 s (2.12 s) with scikit-learn's ``BaseEstimator`` in its place: medians of five starts on two cores.
"""

import inspect
import re
from collections.abc import Callable
from functools import update_wrapper, wraps
from inspect import signature
from types import MethodType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from pysldl._utils.constraints import AnnotatedParameters, Constraint
from pysldl.exceptions import DataError, NotAvailableError

Arguments = ParamSpec("Arguments")
Owner = TypeVar("Owner")
Result = TypeVar("Result")

AnyClass = TypeVar("AnyClass", bound=type[Any])

SECTION = re.compile(r"(?<=\nParameters\n----------\n).*?(?=\n\n[A-Z][A-Za-z ]+\n-{3,}\n|\Z)", re.DOTALL)
DEFAULT = re.compile(r"default=.*")


class LightEstimator(AnnotatedParameters):
    """A minimal estimator that scikit-learn's ``clone``, ``set_params("stage__name")`` and searches accept.

    A subclass is a dataclass, whose fields are the parameters.

    Examples
    --------
    >>> from pysldl.decoding import NeighborDecoder
    >>> NeighborDecoder().set_params(n_neighbors=7)
    NeighborDecoder(n_neighbors=7)
    """

    @classmethod
    def _param_names(cls) -> list[str]:
        return sorted(signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with ``deep`` also those of stages among them, as ``stage__name``."""
        params = {name: getattr(self, name) for name in self._param_names()}
        if not deep:
            return params
        inner = {
            f"{name}__{key}": value
            for name, stage in params.items()
            if hasattr(stage, "get_params") and not isinstance(stage, type)
            for key, value in stage.get_params().items()
        }
        return params | inner

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, those of inner stages as ``stage__name``."""
        inner: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, nested, rest = key.partition("__")
            if name not in self._param_names():
                raise ValueError(
                    f"Invalid parameter {name!r} for {type(self).__name__}: it has {', '.join(self._param_names())}."
                )
            if nested:
                inner.setdefault(name, {})[rest] = value
            else:
                setattr(self, name, value)
        for name, values in inner.items():
            getattr(self, name).set_params(**values)
        return self

    def __repr__(self) -> str:
        defaults = signature(type(self)).parameters
        shown = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))


def clone(stage: Any) -> Any:
    """Return an unfitted copy: scikit-learn's ``clone``, imported when something is fitted."""
    from sklearn.base import clone as unfitted_copy

    return unfitted_copy(stage)


def validate_parameters(estimator: Any) -> None:
    """Raise a ``DataError`` that names the first parameter that violates ``_parameter_constraints`` of its class.

    The constraints are scikit-learn's: a list of types, intervals and choices for each parameter.

    Examples
    --------
    >>> from pysldl import make_sldl
    >>> validate_parameters(make_sldl("paper", standardize="often"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pysldl.exceptions.DataError: The 'standardize' parameter of SLDLClassifier must be ... Got 'often' instead.
    """
    from sklearn.utils import _param_validation as validation

    def made(one: Any) -> Any:
        if not isinstance(one, Constraint):
            return one
        options = {} if one.closed is None else {"closed": one.closed}
        return getattr(validation, one.name)(*one.arguments, **options)

    constraints = {name: list(map(made, allowed)) for name, allowed in estimator._parameter_constraints.items()}
    given, name = estimator.get_params(deep=False), type(estimator).__name__
    try:
        validation.validate_parameter_constraints(constraints, given, caller_name=name)
    except validation.InvalidParameterError as error:
        raise DataError(str(error)) from error


def all_or_nothing(
    method: Callable[Concatenate[Owner, Arguments], Result],
) -> Callable[Concatenate[Owner, Arguments], Result]:
    """Restore the attributes of an object if the decorated method fails or is interrupted by Ctrl-C.

    A fit that was interrupted leaves an estimator that is not fitted, or that is fitted as it was before. Arrays that
    the method changes in place are not restored, and those of an earlier fit stay in memory until the new one is done.
    """

    @wraps(method)
    def whole(self: Owner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        before = dict(vars(self))
        try:
            return method(self, *args, **kwargs)
        except BaseException as error:
            attributes: dict[str, Any] = vars(self)
            attributes.clear()
            attributes.update(before)
            if not isinstance(error, KeyboardInterrupt) and comes_from_interrupt(error):
                raise KeyboardInterrupt from error
            raise

    return whole


def comes_from_interrupt(error: BaseException) -> bool:
    """Whether Ctrl-C is what lies behind an error; compiled loops turn it into a ``SystemError``."""
    chain: list[BaseException] = []
    seen: BaseException | None = error
    while seen is not None and seen not in chain:  # an error that is raised again can lie behind itself
        if isinstance(seen, KeyboardInterrupt):
            return True
        chain.append(seen)
        seen = seen.__cause__ or seen.__context__
    return False


class available_if:  # noqa: N801
    """Decorate a method that a model has only if ``why_not(model)`` returns None and not a reason.

    Unlike the decorator of that name in scikit-learn, it needs no scikit-learn, and its error says what to do.
    """

    def __init__(self, why_not: Callable[[Any], str | None]) -> None:
        self.why_not = why_not

    def __call__(self, method: Callable[..., Any]) -> "available_if":
        self.method = method
        update_wrapper(self, method)
        return self

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self.method
        reason = self.why_not(instance)
        if reason is not None:
            raise NotAvailableError(f"This {owner.__name__} has no {self.method.__name__}: {reason}")
        return MethodType(self.method, instance)


def parameter_entries(docstring: str) -> dict[str, str]:
    """Return the entries of the Parameters section of a numpydoc docstring, by parameter name.

    An entry that documents several parameters is given for each of them.
    """
    section = SECTION.search(inspect.cleandoc(docstring))
    entries = re.split(r"\n(?=\S)", section.group().rstrip()) if section else []
    return {name: entry for entry in entries for name in entry.split(" :", 1)[0].split(", ")}


def inherit_parameters(cls: AnyClass) -> AnyClass:
    """Complete the Parameters section of a class by the entries of its bases (a class decorator).

    The class documents the parameters that it adds and those to which it gives another meaning. The rest is taken from
    the nearest base, with the default that the class itself has, in the order of the constructor.
    """
    if not cls.__doc__:  # python -OO removes docstrings
        return cls
    entries: dict[str, str] = {}
    for base in reversed(cls.__mro__[1:]):
        entries |= parameter_entries(base.__dict__.get("__doc__") or "")
    own = parameter_entries(cls.__doc__)
    complete = [
        own[name] if name in own else _with_default(entries[name], parameter.default)
        for name, parameter in inspect.signature(cls).parameters.items()
        if name in own or name in entries
    ]
    docstring = inspect.cleandoc(cls.__doc__)
    cls.__doc__ = SECTION.sub(lambda _: "\n".join(dict.fromkeys(complete)), docstring)
    return cls


def _with_default(entry: str, default: object) -> str:
    header, separator, body = entry.partition("\n")
    text = f'"{default}"' if isinstance(default, str) else repr(default)
    return DEFAULT.sub(lambda _: f"default={text}", header) + separator + body
