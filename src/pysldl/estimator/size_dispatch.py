"""One stage for small problems, another for large ones."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone

from pysldl._utils.constraints import AnnotatedParameters, CountOrZero, Weight
from pysldl._utils.light_estimator import validate_parameters
from pysldl.decoding.joint import DENSE_FEATURES
from pysldl.ranking.linear import LinearRanker, candidates_for


class ProblemSize(NamedTuple):
    """What a stage may be chosen by: training rows, labels, features, how dense they are, and labels per row.

    ``n_features`` is None where it is not known yet, as of texts, which have many.
    """

    n_samples: int
    n_labels: int
    n_features: int | None = None
    density: float = 0.0
    labels_per_row: float = 1.0

    @classmethod
    def of(cls, X: Any, Y: Any) -> Self:
        """The size of training rows with features ``X`` and a label indicator ``Y``."""
        filled, carried = (M.count_nonzero() if sparse.issparse(M) else np.count_nonzero(M) for M in (X, Y))
        (n_samples, n_labels), n_features = Y.shape, X.shape[1]
        density, labels_per_row = filled / max(n_samples * n_features, 1), carried / max(n_samples, 1)
        return cls(n_samples, n_labels, n_features, density, labels_per_row)


@dataclass(eq=False, repr=False)
class SizeDispatch(AnnotatedParameters, BaseEstimator):
    """A stage that depends on the size of the problem; it may stand for any stage of the classifier.

    Rows of few features are short dense vectors: they can be compared exactly, and a regression on them has an exact
    solution. Rows of many features, such as words, are sparse, and are looked up by what they share.

    Parameters
    ----------
    small, large : stages or None
        The stage itself, or None for none.
    limit : int
        Largest product of training rows and labels that is small: dense scores of all labels have this size.
    most_features : int
        Most features that are few.
    min_density : float
        A problem is small only if more than this share of the features' values are not zero.

    Examples
    --------
    >>> from pysldl.decoding import FeatureNeighborDecoder, NeighborDecoder
    >>> decoder = SizeDispatch(small=NeighborDecoder(), large=FeatureNeighborDecoder(), most_features=10)
    >>> stage_for(decoder, ProblemSize(n_samples=100, n_labels=5, n_features=11, density=0.1))
    FeatureNeighborDecoder()
    """

    small: Any = None
    large: Any = None
    _: KW_ONLY
    limit: CountOrZero = 1 << 25
    most_features: CountOrZero = DENSE_FEATURES
    min_density: Weight = 0.0

    _saved_state: ClassVar[tuple[str, ...]] = ()


def stage_for(stage: Any, size: ProblemSize) -> Any:
    """Return the stage to use for a problem of that size: ``stage`` itself, or one with what depends on the size."""
    if isinstance(stage, SizeDispatch):
        validate_parameters(stage)
        few = size.n_features is not None and size.n_features <= stage.most_features
        small = few and size.density > stage.min_density and size.n_samples * size.n_labels <= stage.limit
        stage = stage.small if small else stage.large
    if isinstance(stage, LinearRanker) and stage.n_candidates is None:
        return clone(stage).set_params(n_candidates=candidates_for(size.labels_per_row))
    return stage


def for_size(classifier: Any, size: ProblemSize) -> Any:
    """Return a copy of a classifier with the stages it would use for a problem of that size."""
    copy = clone(classifier)
    return copy.set_params(**{name: stage_for(value, size) for name, value in copy.get_params(deep=False).items()})
