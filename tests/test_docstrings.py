"""Docstrings of the public names, checked by numpydoc."""

from importlib import import_module
from inspect import isclass, isfunction

import pytest

validation = pytest.importorskip("numpydoc.validate")

PACKAGES = (
    "pysldl",
    "pysldl.baselines",
    "pysldl.datasets",
    "pysldl.decoding",
    "pysldl.embedding",
    "pysldl.estimator",
    "pysldl.inspection",
    "pysldl.mapping",
    "pysldl.metrics",
    "pysldl.neighbors",
    "pysldl.persistence",
    "pysldl.preprocessing",
    "pysldl.ranking",
)
PUBLIC = [f"{package}.{name}" for package in PACKAGES for name in getattr(import_module(package), "__all__", ())]

CHECKED = {
    *("GL03", "GL05", "GL06", "GL07", "GL08", "GL10"),  # there is one, with known sections in the usual order
    *("SS01", "SS02", "SS03", "SS04", "SS06"),  # the summary is one line with a period
    *("PR01", "PR02", "PR03", "PR04", "PR05", "PR06", "PR07", "PR10"),  # every parameter, in order, with a type
}
CHECKED_FOR_CLASSES = {"EX01"}  # an example that runs

# What is still wrong. An entry that has been mended must leave this table.
KNOWN_FAILURES: dict[str, set[str]] = {}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_docstring(name: str) -> None:
    package, _, short = name.rpartition(".")
    thing = getattr(import_module(package), short)
    if not (isclass(thing) or isfunction(thing)):
        pytest.skip("a constant has no docstring")
    checked = CHECKED | (CHECKED_FOR_CLASSES if isclass(thing) else set())
    errors = {code: message for code, message in validation.validate(name)["errors"] if code in checked}
    assert set(errors) == KNOWN_FAILURES.get(name, set()), errors


def test_known_failures_are_of_public_names() -> None:
    assert not set(KNOWN_FAILURES) - set(PUBLIC)
