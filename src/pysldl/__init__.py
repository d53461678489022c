"""Scalable label distribution learning: many labels per row, out of thousands or a million."""

from typing import TYPE_CHECKING

from pysldl._utils.lazy_import import lazy_exports

if TYPE_CHECKING:
    from pysldl.estimator.classifier import SLDLClassifier
    from pysldl.estimator.presets import make_sldl
    from pysldl.metrics import evaluate
    from pysldl.persistence import load_model

__all__ = ["SLDLClassifier", "__version__", "evaluate", "load_model", "make_sldl"]
__version__ = "0.1.0"

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "SLDLClassifier": "pysldl.estimator.classifier",
        "evaluate": "pysldl.metrics",
        "load_model": "pysldl.persistence",
        "make_sldl": "pysldl.estimator.presets",
    },
)
