"""Packages that import their public names when they are first used."""

import sys

import pytest

from pysldl._utils.lazy_import import lazy_exports


def test_names_are_visible_before_they_are_imported():
    sys.modules.pop("colorsys", None)
    get, names = lazy_exports(__name__, {"rgb_to_hsv": "colorsys"})
    assert "rgb_to_hsv" in names() and "lazy_exports" in names()
    assert "colorsys" not in sys.modules
    assert get("rgb_to_hsv")(0, 0, 0) == (0, 0, 0)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        get("nothing")
