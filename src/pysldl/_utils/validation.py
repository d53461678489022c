"""Parameters of an estimator checked against the constraints that its class declares."""

from typing import Any

from pysldl.exceptions import DataError

__all__ = ["validate_parameters"]


def validate_parameters(estimator: Any) -> None:
    """Raise an error that names the parameter, where one is outside of ``_parameter_constraints`` of its class.

    The constraints are scikit-learn's: a list of types, intervals and choices for each parameter. A class may write
    them as a function of that name, so that declaring them does not import scikit-learn.

    Parameters
    ----------
    estimator : estimator with ``get_params`` and ``_parameter_constraints``

    Raises
    ------
    DataError

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
