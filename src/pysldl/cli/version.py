"""`sldl version`: what is installed."""

import platform
from importlib.metadata import version as version_of

from pysldl import __version__
from pysldl.cli._output import console, facts, print_json

__all__ = ["version"]

NEIGHBOURS = ("numpy", "scipy", "scikit-learn", "safetensors")


def version(*, json: bool = False) -> int:
    """Print the versions of the library and of what it stands on.

    Example: `sldl version --json`

    Parameters
    ----------
    json : bool
        Print one JSON object.
    """
    versions = {"pysldl": __version__, "python": platform.python_version()}
    versions |= {name: version_of(name) for name in NEIGHBOURS}
    if json:
        print_json(versions)
    else:
        console().print(facts(versions))
    return 0
