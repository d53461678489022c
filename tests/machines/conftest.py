"""The scripts of this folder and of the benchmarks are no package: they find one another by their folders."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

FOLDERS = (str(Path(__file__).parent), str(Path(__file__).resolve().parents[2] / "benchmarks"))


@pytest.fixture(scope="session")
def scripts() -> Iterator[SimpleNamespace]:
    """The scripts by name; forgotten after the tests, since their names are short."""
    known = set(sys.modules)
    before = list(sys.path)
    sys.path[:0] = FOLDERS
    names = ("fingerprints", "machine_settings", "fits", "run", "agreement")
    yield SimpleNamespace(**{name: import_module(name) for name in names})
    sys.path[:] = before
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(FOLDERS):
            del sys.modules[name]
