"""One stage for small problems, another for large ones."""

from typing import Any

from sklearn.base import BaseEstimator, clone

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
    """

    _saved_state: tuple[str, ...] = ()

    def __init__(self, small: Any = None, large: Any = None, *, limit: int = 1 << 25, most_labels: int = 1000) -> None:
        self.small = small
        self.large = large
        self.limit = limit
        self.most_labels = most_labels


def stage_for(stage: Any, n_samples: int, n_labels: int) -> Any:
    """The stage to use for so many rows and labels.

    Examples
    --------
    >>> stage_for(SizeDispatch("exact", "candidates", limit=1000), 100, 11)
    'candidates'
    >>> stage_for("exact", 100, 11)
    'exact'
    """
    if not isinstance(stage, SizeDispatch):
        return stage
    small = n_labels <= stage.most_labels and n_samples * n_labels <= stage.limit
    return stage.small if small else stage.large


def for_size(classifier: Any, n_samples: int, n_labels: int) -> Any:
    """A copy of a classifier with the stages it would use for so many rows and labels, whatever it is fitted on."""
    copy = clone(classifier)
    return copy.set_params(
        **{name: stage_for(value, n_samples, n_labels) for name, value in copy.get_params(deep=False).items()}
    )
