"""One stage for small problems, another for large ones."""

from numbers import Integral
from typing import Any, ClassVar

from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import Interval

from pysldl._utils.validation import validate_parameters

__all__ = ["SizeDispatch", "for_size", "stage_for"]


class SizeDispatch(BaseEstimator):
    """A stage that depends on the size of the problem; it may stand for any stage of the classifier.

    What is best for a few hundred labels, where every label of every row can be scored, is not what is best for
    thousands, where only candidates can.

    Parameters
    ----------
    small, large : stages or None
        The stage itself, or None for none.
    limit : int
        Largest product of training rows and labels that is small.
    most_labels : int
        Most labels that are few.

    Examples
    --------
    >>> from pysldl.decoding import FeatureNeighborDecoder, NeighborDecoder
    >>> decoder = SizeDispatch(small=NeighborDecoder(), large=FeatureNeighborDecoder(), most_labels=10)
    >>> stage_for(decoder, n_samples=100, n_labels=11)
    FeatureNeighborDecoder()
    """

    _saved_state: tuple[str, ...] = ()
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "limit": [Interval(Integral, 0, None, closed="left")],
        "most_labels": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(self, small: Any = None, large: Any = None, *, limit: int = 1 << 25, most_labels: int = 1000) -> None:
        self.small = small
        self.large = large
        self.limit = limit
        self.most_labels = most_labels


def stage_for(stage: Any, n_samples: int, n_labels: int) -> Any:
    """Return the stage to use for so many rows and labels: ``stage`` itself, unless it is a :class:`SizeDispatch`."""
    if not isinstance(stage, SizeDispatch):
        return stage
    validate_parameters(stage)
    small = n_labels <= stage.most_labels and n_samples * n_labels <= stage.limit
    return stage.small if small else stage.large


def for_size(classifier: Any, n_samples: int, n_labels: int) -> Any:
    """Return a copy of a classifier with the stages it would use for so many rows and labels."""
    copy = clone(classifier)
    return copy.set_params(
        **{name: stage_for(value, n_samples, n_labels) for name, value in copy.get_params(deep=False).items()}
    )
