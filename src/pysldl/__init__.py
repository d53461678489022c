"""Scalable label distribution learning: many labels per row, out of thousands or a million."""

from pysldl.classifier import SLDLClassifier
from pysldl.presets import make_sldl

__all__ = ["SLDLClassifier", "__version__", "make_sldl"]
__version__ = "0.1.0"
