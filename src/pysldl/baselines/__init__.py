"""The methods that SLDL is compared with, and simple controls, each with the interface of ``SLDLClassifier``."""

from typing import TYPE_CHECKING, Any

from pysldl._utils.lazy_import import lazy_exports
from pysldl.baselines.registry import BASELINES, CONTROLS
from pysldl.exceptions import MissingDependencyError

if TYPE_CHECKING:
    from pysldl.baselines.adaboost_c2.classifier import AdaBoostC2
    from pysldl.baselines.clif import CLIF
    from pysldl.baselines.controls import FeatureNeighbors, LabelPrior, OneVsRestLogistic, RidgeReadout
    from pysldl.baselines.dela import DELA
    from pysldl.baselines.dxml import DXML
    from pysldl.baselines.flem import FLEM
    from pysldl.baselines.kdtea import KDTEA
    from pysldl.baselines.paca import PACA
    from pysldl.baselines.reweighted import (
        ClassBalancedLossClassifier,
        DistributionBalancedLossClassifier,
        FocalLossClassifier,
    )
    from pysldl.baselines.sleec import SLEEC

__all__ = [
    "BASELINES",
    "CLIF",
    "CONTROLS",
    "DELA",
    "DXML",
    "FLEM",
    "KDTEA",
    "PACA",
    "SLEEC",
    "AdaBoostC2",
    "ClassBalancedLossClassifier",
    "DistributionBalancedLossClassifier",
    "FeatureNeighbors",
    "FocalLossClassifier",
    "LabelPrior",
    "OneVsRestLogistic",
    "RidgeReadout",
]

_import, __dir__ = lazy_exports(
    __name__,
    {
        "CLIF": "pysldl.baselines.clif",
        "DELA": "pysldl.baselines.dela",
        "DXML": "pysldl.baselines.dxml",
        "FLEM": "pysldl.baselines.flem",
        "KDTEA": "pysldl.baselines.kdtea",
        "PACA": "pysldl.baselines.paca",
        "SLEEC": "pysldl.baselines.sleec",
        "AdaBoostC2": "pysldl.baselines.adaboost_c2.classifier",
        "ClassBalancedLossClassifier": "pysldl.baselines.reweighted",
        "DistributionBalancedLossClassifier": "pysldl.baselines.reweighted",
        "FeatureNeighbors": "pysldl.baselines.controls",
        "FocalLossClassifier": "pysldl.baselines.reweighted",
        "LabelPrior": "pysldl.baselines.controls",
        "OneVsRestLogistic": "pysldl.baselines.controls",
        "RidgeReadout": "pysldl.baselines.controls",
    },
)


def __getattr__(name: str) -> Any:
    try:
        return _import(name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingDependencyError(
            f'{name} needs PyTorch, which is not installed: pip install "pysldl[deep]".'
        ) from error
