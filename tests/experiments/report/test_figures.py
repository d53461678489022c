"""Figures: complete, the same bytes each time, and not told by color alone."""

import builtins
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pysldl.exceptions import DataError, MissingDependencyError
from pysldl.experiments.report.figures import (
    Drawing,
    critical_difference_diagram,
    error_bound_bars,
    parameter_curves,
    training_time_bars,
    write_drawing,
)
from pysldl.experiments.stats.error_bound import ErrorBoundTerms
from pysldl.experiments.stats.results import Scores
from pysldl.experiments.stats.significance import rank_test

matplotlib = pytest.importorskip("matplotlib", reason='matplotlib is not installed: pip install "pysldl[plot]"')

METHODS = ("SLDL", "w/o GE", "random")


def diagram() -> Drawing:
    values = np.random.default_rng(0).normal(size=(12, 7)) + np.arange(7)
    scores = Scores("P@1", tuple("abcdefghijkl"), ("A", "B", "C", "D", "E", "F", "SLDL"), values)
    return critical_difference_diagram(rank_test(scores), "SLDL")


def times() -> Drawing:
    return training_time_bars(
        {f"set {i}": dict.fromkeys(METHODS, 10.0**i) for i in range(-2, 3)} | {"x": {"SLDL": 0.0}}
    )


def curves() -> Drawing:
    return parameter_curves({"x": [(16, 50.0), (32, 51.0)], "y": [(16, 20.0), (32, 19.0)], "z": []}, "c_hat", "P@1")


def terms() -> Drawing:
    return error_bound_bars([ErrorBoundTerms(d, m, 0.5, 1.0, 1.7) for d in ("x", "y") for m in METHODS])


DRAWINGS = pytest.mark.parametrize("draw", [diagram, times, curves, terms])


@DRAWINGS
def test_same_bytes_each_time(draw: Callable[[], Drawing], monkeypatch: pytest.MonkeyPatch) -> None:
    first = draw()
    # Neither the clock nor the reader's own matplotlib settings may show.
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    with matplotlib.rc_context({"font.size": 20, "lines.linewidth": 9, "svg.hashsalt": "other"}):
        again = draw()
    assert again == first


@DRAWINGS
def test_svg_and_png_are_written(draw: Callable[[], Drawing], tmp_path: Path) -> None:
    drawing = draw()
    svg, png = write_drawing(drawing, tmp_path)
    assert ElementTree.parse(svg).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert png.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert (svg.stem, png.stem) == (drawing.name, drawing.name)
    assert drawing.caption.endswith(".")


def test_bars_differ_by_hatch_and_lines_by_marker() -> None:
    # Each hatch is a pattern of its own, each marker a symbol of its own.
    assert times().svg.count("<pattern") == 2, "three methods: one plain, two hatched"
    assert terms().svg.count("<pattern") == 1
    one = parameter_curves({"x": [(1, 1.0), (2, 2.0)]}, "k", "P@1").svg
    assert symbols(curves().svg) == symbols(one) + 1


def symbols(svg: str) -> int:
    """How many different shapes the file places by reference, ticks and letters left out."""
    root = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    lines = [group for group in root.iter(f"{space}g") if str(group.get("id", "")).startswith("line2d")]
    shapes = {
        path.get("d")
        for line in lines
        for path in line.iterfind(f"{space}defs/{space}path")
        if str(path.get("d")).rstrip().endswith("z")
    }
    return len(shapes)


def test_gray_values_of_neighboring_colors_differ() -> None:
    from pysldl.experiments.report import figures

    def lightness(color: str) -> float:
        red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    values = [lightness(color) for color in figures._COLORS]
    assert all(value < 0.75 for value in values), "a line must stand out from white"
    assert abs(values[0] - values[1]) > 0.2


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(DataError, match="no training times"):
        training_time_bars({})
    with pytest.raises(DataError, match="no values of P@1 over k"):
        parameter_curves({"x": []}, "k", "P@1")
    with pytest.raises(DataError, match="no terms"):
        error_bound_bars([])


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingDependencyError, match=r'pip install "pysldl\[plot\]"'):
        diagram()
