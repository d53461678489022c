"""The methods that SLDL is compared with, and simple controls."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from pysldl.estimator.base import BaseLabelClassifier

__all__ = ["BASELINES", "CONTROLS", "RECONSTRUCTIONS"]

# Where each class lives. The neural ones need torch, so nothing is imported before it is asked for.
_HOMES = {
    "SLEEC": "sleec",
    "DXML": "dxml",
    "FocalLossClassifier": "reweighted",
    "ClassBalancedLossClassifier": "reweighted",
    "DistributionBalancedLossClassifier": "reweighted",
    "PACA": "paca",
    "FLEM": "flem",
    "DELA": "dela",
    "CLIF": "clif",
    "KDTEA": "kdtea",
    "AdaBoostC2": "adaboost_c2",
    "LabelPrior": "controls",
    "FeatureNeighbors": "controls",
    "OneVsRestLogistic": "controls",
    "RidgeReadout": "controls",
}

Builder = Callable[..., BaseLabelClassifier]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def _builder(class_name: str, **settings: Any) -> Builder:
    def build(**overrides: Any) -> BaseLabelClassifier:
        return __getattr__(class_name)(**{**settings, **overrides})

    build.__doc__ = f"A {class_name}; keyword arguments change its parameters."
    return build


BASELINES: dict[str, Builder] = {
    "SLEEC": _builder("SLEEC", random_state=0),
    "DXML": _builder("DXML", random_state=0),
    "FL": _builder("FocalLossClassifier", random_state=0),
    "CB": _builder("ClassBalancedLossClassifier", random_state=0),
    "DB": _builder("DistributionBalancedLossClassifier", random_state=0),
    "PACA": _builder("PACA", random_state=0),
    "FLEM": _builder("FLEM", random_state=0),
    "DELA": _builder("DELA", random_state=0),
    "CLIF": _builder("CLIF", random_state=0),
    "KD-TEA": _builder("KDTEA", random_state=0),
    "AdaC2": _builder("AdaBoostC2", random_state=0),
}
"""The methods that the paper compares SLDL with, by its names for them.

Each value builds the method with the defaults of its class. Where the paper gives a setting, it is the default; most it
does not give, and the docstring of the class says where the others come from. The default learner of ``"AdaC2"`` is
not that of its authors: kernel ridge regression in place of a support vector machine with the same kernel, which
``learner="svc"`` brings back. Keyword arguments change any setting: ``BASELINES["SLEEC"](n_neighbors=10)``.
"""

RECONSTRUCTIONS = ("KD-TEA",)
"""Those of which only the abstract is public. Tables have to say so."""

CONTROLS: dict[str, Builder] = {
    "prior": _builder("LabelPrior"),
    "knn": _builder("FeatureNeighbors", random_state=0),
    "ovr": _builder("OneVsRestLogistic", random_state=0),
    "ridge": _builder("RidgeReadout", random_state=0),
}
"""Methods that know nothing of label distributions, by short names."""
