"""The table of classes that a model folder may contain; a file never decides what is imported."""

from importlib import import_module
from typing import Any, TypeVar

from pysldl.exceptions import DataError, MissingDependencyError

# By the module that has them. Packages that import their classes when they are asked for stand for their modules.
CLASSES = {
    "pysldl.estimator.classifier": ("SLDLClassifier",),
    "pysldl.estimator.size_dispatch": ("SizeDispatch",),
    "pysldl.estimator.calibration": ("PredictionSets", "ScoreCalibration"),
    "pysldl.embedding": (
        *("GaussianLabelEmbedding", "IdentityLabelEmbedding", "RandomLabelEmbedding"),
        *("SVDLabelEmbedding", "VectorLabelEmbedding"),
    ),
    "pysldl.mapping": ("LandmarkRidge", "RidgeMapping", "SharedFactorRidge"),
    "pysldl.mapping.normal_equations": ("NormalEquations",),
    "pysldl.decoding": (
        *("BlendDecoder", "FeatureNeighborDecoder", "JointNeighborDecoder"),
        *("LinearReadout", "NeighborDecoder"),
    ),
    "pysldl.preprocessing.vocabulary": ("Vocabulary",),
    "pysldl.neighbors": ("ExactIndex", "FaissIndex"),
    "pysldl.neighbors.inverted_index": ("InvertedIndex",),
    "pysldl.ranking": ("LinearRanker", "TreeReranker"),
    "pysldl.ranking.centroids": ("LabelCentroids",),
    "pysldl.baselines": (
        *("AdaBoostC2", "CLIF", "DELA", "DXML", "FLEM", "KDTEA", "PACA", "SLEEC"),
        *("ClassBalancedLossClassifier", "DistributionBalancedLossClassifier", "FocalLossClassifier"),
        *("FeatureNeighbors", "LabelPrior", "OneVsRestLogistic", "RidgeReadout"),
    ),
    "pysldl.baselines.adaboost_c2.kernel_ridge_chain": ("KernelRidgeChain",),
    "pysldl.baselines.adaboost_c2.linear_chain": ("LinearChain",),
    "pysldl.baselines.adaboost_c2.svm_chain": ("SVMChain",),
    "pysldl.baselines.sleec": ("LocalEmbedding",),
}
HOMES = {name: module for module, names in CLASSES.items() for name in names}

Class = TypeVar("Class", bound=type)

_registered: dict[str, type] = {}


def register_saveable(cls: Class) -> Class:
    """Let models hold stages of your own class; usable as a decorator.

    The class ``cls`` must be a scikit-learn estimator with ``_saved_state``, the names of its fitted attributes. It
    must be registered before a model that holds it is saved, and again in the program that loads the model.

    Returns
    -------
    type
        The class itself.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> class Box(BaseEstimator):
    ...     _saved_state = ("content_",)
    >>> register_saveable(Box) is Box
    True
    """
    if not is_estimator(cls) or not hasattr(cls, "_saved_state"):
        raise DataError(f"{cls.__name__} cannot be registered: it must be an estimator with a _saved_state.")
    if cls.__name__ in HOMES or _registered.get(cls.__name__, cls) is not cls:
        raise DataError(f"{cls.__name__} cannot be registered: another class has that name.")
    _registered[cls.__name__] = cls
    return cls


def home_of(name: Any) -> str | None:
    """Return the module of the library that defines the class of that name; None if none does."""
    return HOMES.get(name) if isinstance(name, str) else None


def find_class(name: Any) -> type | None:
    """Return the class of that name; None if there is none, or an extra that it needs is not installed."""
    home = home_of(name)
    if home is None:
        return _registered.get(name) if isinstance(name, str) else None
    try:
        found: type = getattr(import_module(home), name)
    except (ModuleNotFoundError, MissingDependencyError):
        return None
    return found


def is_estimator(cls: Any) -> bool:
    """Return whether a class has parameters as scikit-learn's estimators have them."""
    return isinstance(cls, type) and hasattr(cls, "get_params")


def name_of(cls: type) -> str:
    """Return the name under which ``cls`` is saved; an error if loading could not find it again."""
    if find_class(cls.__name__) is not cls:
        raise DataError(
            f"{cls.__module__}.{cls.__qualname__} cannot be saved: it is not a class of the library. "
            "Register your own classes with pysldl.persistence.register_saveable."
        )
    return cls.__name__
