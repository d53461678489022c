"""The benchmarks are scripts beside the package: they find one another by their folder."""

import sys
from pathlib import Path

import pytest

from pysldl.datasets import make_asymmetric_multilabel, write_npz

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    """Let the scripts be imported, and forget them after each test: their names are short."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.syspath_prepend(BENCHMARKS / "peers")
    known = set(sys.modules)
    yield BENCHMARKS
    for name in set(sys.modules) - known:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", None)):
            del sys.modules[name]


@pytest.fixture
def command_line(monkeypatch):
    """Set the arguments of a script whose main() is called next."""

    def set_arguments(*arguments):
        monkeypatch.setattr(sys, "argv", ["script", *map(str, arguments)])

    return set_arguments


@pytest.fixture(scope="session")
def small_file(tmp_path_factory):
    """A small data set with a standard split, in a file."""
    path = tmp_path_factory.mktemp("data") / "small.npz"
    write_npz(make_asymmetric_multilabel(300, 80, 30), path)
    return path
