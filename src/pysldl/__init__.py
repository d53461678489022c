"""Scalable label distribution learning: many labels per row, out of thousands or a million."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pysldl.classifier import SLDLClassifier
    from pysldl.presets import make_sldl

__all__ = ["SLDLClassifier", "__version__", "make_sldl"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import the estimator when it is first asked for, so that the command line starts at once."""
    if name == "SLDLClassifier":
        from pysldl.classifier import SLDLClassifier

        return SLDLClassifier
    if name == "make_sldl":
        from pysldl.presets import make_sldl

        return make_sldl
    raise AttributeError(f"module 'pysldl' has no attribute {name!r}")
