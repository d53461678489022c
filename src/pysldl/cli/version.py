"""`sldl version`: what is installed."""

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

from pysldl import __version__
from pysldl.cli._output import print_result

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "faiss-cpu", "torch")


def version(*, json: bool = False) -> None:
    """Print the versions of the library and of the packages it uses, those of its extras included.

    Example: `sldl version --json`

    Parameters
    ----------
    json : bool
        Print one JSON object; null stands for a package that is not installed.
    """
    versions: dict[str, str | None] = {"pysldl": __version__, "python": platform.python_version()}
    versions |= {name: _installed(name) for name in PACKAGES}
    print_result(versions, json, {name: found or "not installed" for name, found in versions.items()})


def _installed(package: str) -> str | None:
    try:
        return version_of(package)
    except PackageNotFoundError:
        return None
