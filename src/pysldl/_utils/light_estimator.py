"""Parameters as in scikit-learn's estimators, without importing scikit-learn before something is fitted.

A service must give its first answer within 0.8 s. From the start of the process to the first ``predict_topk`` of
``load_predictor`` pass 0.72 s (0.54 s of processor time) with this base of decoders, indexes, ranker and calibration,
and 2.90 s (2.12 s) with scikit-learn's ``BaseEstimator`` in its place: medians of five starts on two cores.
"""

from inspect import signature
from typing import Any, Self

from pysldl.exceptions import DataError


class LightEstimator:
    """A minimal estimator that scikit-learn's ``clone``, ``set_params("stage__name")`` and searches accept.

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
        told = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(told)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))


def clone(stage: Any) -> Any:
    """Return an unfitted copy: scikit-learn's ``clone``, imported when something is fitted."""
    from sklearn.base import clone as unfitted_copy

    return unfitted_copy(stage)


def validate_parameters(estimator: Any) -> None:
    """Raise a ``DataError`` that names the first parameter that violates ``_parameter_constraints`` of its class.

    The constraints are scikit-learn's: a list of types, intervals and choices for each parameter. A class may write
    them as a function of that name, so that declaring them does not import scikit-learn.

    Examples
    --------
    >>> from pysldl import make_sldl
    >>> validate_parameters(make_sldl("paper", standardize="often"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pysldl.exceptions.DataError: The 'standardize' parameter of SLDLClassifier must be ... Got 'often' instead.
    """
    from sklearn.utils._param_validation import InvalidParameterError, validate_parameter_constraints

    declared = estimator._parameter_constraints
    constraints = declared() if callable(declared) else declared
    try:
        validate_parameter_constraints(
            constraints, estimator.get_params(deep=False), caller_name=type(estimator).__name__
        )
    except InvalidParameterError as error:
        raise DataError(str(error)) from error
