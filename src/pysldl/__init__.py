"""Scalable label distribution learning: many labels per row, out of thousands or a million."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pysldl.classifier import SLDLClassifier
    from pysldl.metrics import evaluate
    from pysldl.persistence import load_model
    from pysldl.presets import make_sldl

__all__ = ["SLDLClassifier", "__version__", "evaluate", "load_model", "make_sldl"]
__version__ = "0.1.0"

_HOMES = {
    "SLDLClassifier": "pysldl.classifier",
    "evaluate": "pysldl.metrics",
    "load_model": "pysldl.persistence",
    "make_sldl": "pysldl.presets",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that the command line starts at once."""
    if name not in _HOMES:
        raise AttributeError(f"module 'pysldl' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, imported yet or not, and the modules that were imported."""
    return sorted({*globals(), *__all__})
