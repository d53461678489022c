"""The figures of the paper and of the page, drawn the same way each time, byte for byte.

Nothing is shown by color alone: bars differ by hatch and lines by marker and dash too, so that each figure
can be read in gray print and by color-blind readers. The colors are those of Okabe and Ito, with a dark red
in place of their yellow, which is too faint for a line.
"""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from pysldl._utils.files import slug, write_atomically
from pysldl.exceptions import DataError, MissingDependencyError
from pysldl.experiments.stats.error_bound import ErrorBoundTerms
from pysldl.experiments.stats.significance import RankTest, indistinguishable_groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


P = ParamSpec("P")

_BLACK = "#1a1a1a"
_GRAY = "#8c8c8c"
_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#882255", "#999999")
_HATCHES = ("", "///", "...", "\\\\\\", "xxx", "---", "ooo", "+++")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*", "d", "8", "H")
_DASHES = ("-", "--", "-.", ":")
_NAME_STEP = 0.30  # between the names of a critical-difference diagram

_STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": _GRAY,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": _BLACK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "figure.dpi": 100,
    "font.size": 9,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.7,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "pysldl",
    "xtick.color": _BLACK,
    "ytick.color": _BLACK,
}


@dataclass(frozen=True, slots=True)
class Drawing:
    """A finished figure: the stem of its files, what it shows in words, and the image in two formats."""

    name: str
    caption: str
    svg: str
    png: bytes


def write_drawing(drawing: Drawing, folder: Path) -> list[Path]:
    """Write `<name>.svg` and `<name>.png` into the folder and return their paths."""
    return [
        write_atomically(folder / f"{drawing.name}.svg", drawing.svg),
        write_atomically(folder / f"{drawing.name}.png", drawing.png),
    ]


def _drawn(draw: Callable[P, tuple[str, str, "Figure"]]) -> Callable[P, Drawing]:
    """Turn a function that returns name, caption and figure into one that returns a :class:`Drawing`."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Drawing:
        try:
            from matplotlib import style
        except ImportError:
            advice = 'pip install "pysldl[plot]"'
            raise MissingDependencyError(f"figures need matplotlib, which is not installed: {advice}.") from None
        # From matplotlib's own defaults, so that a user's settings do not change the files.
        with style.context(["default", _STYLE]):
            name, caption, figure = draw(*args, **kwargs)
            svg, png = io.StringIO(), io.BytesIO()
            # A date or a version in the file would make equal figures differ.
            layout: dict[str, Any] = {"bbox_inches": "tight", "pad_inches": 0.06}
            figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None}, **layout)
            figure.savefig(png, format="png", metadata={"Software": None}, **layout)
        return Drawing(name, caption, svg.getvalue(), png.getvalue())

    return drawn


@_drawn
def critical_difference_diagram(test: RankTest, reference: str | None = None) -> tuple[str, str, "Figure"]:
    """Draw the critical-difference diagram of one metric, with the name of ``reference`` in bold.

    Methods hang from an axis of mid-ranks, as the Nemenyi test asks, the best at the left; a bar joins methods whose
    ranks differ by less than the critical difference.
    """
    groups = indistinguishable_groups(test.mid_ranks, test.critical_difference)
    n_left = (len(test.mid_ranks) + 1) // 2
    # The axis reaches the last rank, or the end of the ruler if that is longer.
    last = max(len(test.mid_ranks), math.ceil(1 + test.critical_difference))
    bar_step = 0.13
    first_name = 0.30 + bar_step * len(groups) + 0.12
    depth = first_name + _NAME_STEP * (n_left - 1) + 0.2
    margin = 0.22 * (last - 1)

    figure = _figure(6.4, 0.95 + depth * 0.86)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(1 - margin, last + margin)
    axes.set_ylim(depth, -0.85)
    _draw_rank_axis(axes, last, test.critical_difference)
    axes.text(last + margin, -0.56, test.metric, ha="right", va="bottom", fontsize=10, fontweight="bold")
    _draw_names(axes, test.mid_ranks, n_left, last, first_name, reference)
    for index, group in enumerate(groups):
        y = 0.22 + bar_step * index
        ends = [test.mid_ranks[group[0]], test.mid_ranks[group[-1]]]
        axes.plot(ends, [y, y], color=_BLACK, linewidth=3.2, solid_capstyle="round", zorder=2)

    caption = (
        f"Average ranks of {len(test.mid_ranks)} methods over {test.n_datasets} data sets on {test.metric}, best at "
        "the left; ties share their mean rank. Bars join methods that the Nemenyi test cannot tell apart at "
        f"the {test.alpha:g} level (critical difference {test.critical_difference:.4f})."
    )
    return f"cd-{slug(test.metric)}", caption, figure


def _draw_rank_axis(axes: "Axes", last: int, critical_difference: float) -> None:
    """The axis of ranks, and the ruler above it that is as long as the critical difference."""
    axes.plot([1, last], [0, 0], color=_BLACK, linewidth=1.2)
    for tick in range(1, last + 1):
        axes.plot([tick, tick], [0, -0.08], color=_BLACK, linewidth=1.0)
        axes.text(tick, -0.13, str(tick), ha="center", va="bottom", fontsize=8)
    ruler_end = 1 + critical_difference
    axes.plot([1, ruler_end], [-0.5, -0.5], color=_BLACK, linewidth=1.2)
    for end in (1, ruler_end):
        axes.plot([end, end], [-0.45, -0.55], color=_BLACK, linewidth=1.2)
    label = f"CD = {critical_difference:.4f}"
    axes.text((1 + ruler_end) / 2, -0.56, label, ha="center", va="bottom", fontsize=8)


def _draw_names(
    axes: "Axes", ranks: Mapping[str, float], n_left: int, last: int, first_name: float, reference: str | None
) -> None:
    """The names with their ranks, the better half at the left, each joined to its place on the axis."""
    ordered = sorted(ranks, key=lambda method: (ranks[method], method))
    for position, method in enumerate(ordered):
        left = position < n_left
        y = first_name + _NAME_STEP * (position if left else len(ordered) - 1 - position)
        rank = ranks[method]
        edge = 1 - 0.04 * (last - 1) if left else last + 0.04 * (last - 1)
        axes.plot([rank, rank, edge], [0, y, y], color=_GRAY, linewidth=0.8, zorder=1)
        axes.plot([rank], [0], marker="o", color=_BLACK, markersize=3.5, zorder=3)
        weight = "bold" if method == reference else "normal"
        label = f"{method}  {rank:.2f}" if left else f"{rank:.2f}  {method}"
        gap = -0.01 * (last - 1) if left else 0.01 * (last - 1)
        axes.text(edge + gap, y, label, ha="right" if left else "left", va="center", fontweight=weight)


@_drawn
def training_time_bars(seconds: Mapping[str, Mapping[str, float]]) -> tuple[str, str, "Figure"]:
    """Draw training times, ``{dataset: {method: seconds}}``, one panel per data set, on one logarithmic axis."""
    methods = list(dict.fromkeys(method for times in seconds.values() for method in times))
    if not methods:
        raise DataError("there are no training times to draw.")
    # A clock may read zero for a trivial fit, and zero has no place on a logarithmic axis.
    floor = 1e-4
    heights = {d: {m: max(s, floor) for m, s in times.items()} for d, times in seconds.items()}
    figure, panels = _panels(list(seconds), height=1.55)
    for dataset, axes in panels.items():
        for index, method in enumerate(methods):
            if method in heights[dataset]:
                axes.bar(index, heights[dataset][method], label=method, **_bar_style(index))
        axes.set_yscale("log")
        axes.set_xlim(-0.7, len(methods) - 0.3)
        axes.set_xticks([])
        axes.minorticks_off()
    every = [height for times in heights.values() for height in times.values()]
    lowest, highest = math.floor(math.log10(min(every)) - 0.01), math.ceil(math.log10(max(every)) + 0.01)
    next(iter(panels.values())).set_ylim(10**lowest, 10**highest)
    _legend_above(figure, [(method, _bar_style(i)) for i, method in enumerate(methods)])
    figure.supylabel("training time of a fold (seconds, log scale)", fontsize=9)
    caption = f"Training time of one fold for {len(methods)} methods, a panel a data set, on a logarithmic scale."
    return "training-time", caption, figure


@_drawn
def parameter_curves(
    curves: Mapping[str, Sequence[tuple[float, float]]], parameter: str, metric: str
) -> tuple[str, str, "Figure"]:
    """Draw a metric in percent over one parameter, ``{dataset: [(value, metric), ...]}``, one line per data set."""
    if not any(curves.values()):
        raise DataError(f"there are no values of {metric} over {parameter} to draw.")
    figure = _figure(6.4, max(3.4, 0.24 * len(curves) + 0.8))
    axes = figure.add_subplot()
    # The legend lists the lines from top to bottom as they end, so that a reader finds them without color.
    ending = sorted((d for d in curves if curves[d]), key=lambda d: -max(curves[d])[1])
    for dataset in ending:
        index = list(curves).index(dataset)
        values, scores = zip(*sorted(curves[dataset]), strict=True)
        color, dash, marker = (looks[index % len(looks)] for looks in (_COLORS, _DASHES, _MARKERS))
        edge: dict[str, Any] = {"markeredgecolor": _BLACK, "markeredgewidth": 0.5}
        line: dict[str, Any] = {"color": color, "linestyle": dash, "marker": marker, "markersize": 5, "linewidth": 1.4}
        axes.plot(values, scores, label=dataset, **line, **edge)
    ticks = sorted({value for curve in curves.values() for value, _ in curve})
    if parameter == "n_steps":
        axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    names = {"c_hat": r"latent dimensions $\hat{c}$", "n_steps": "descent steps (log scale)", "k": "neighbors $k$"}
    axes.set_xlabel(names.get(parameter, parameter))
    axes.set_ylabel(f"{metric} (percent)")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=3.2)
    caption = f"{metric} over {parameter} on {len(ending)} data sets, listed in the order of their right ends."
    return f"curve-{slug(parameter)}-{slug(metric)}", caption, figure


@_drawn
def error_bound_bars(terms: Sequence[ErrorBoundTerms]) -> tuple[str, str, "Figure"]:
    """Draw the two terms of the error bound (Theorem 1) as stacked bars, a panel per data set and a bar per method.

    The number above a bar is the constant b that was observed. Each panel has its own scale, since the length of
    latent vectors differs between data sets.
    """
    if not terms:
        raise DataError("there are no terms of Theorem 1 to draw.")
    methods = list(dict.fromkeys(term.method for term in terms))
    line: dict[str, Any] = {"edgecolor": _BLACK, "linewidth": 0.6}
    parts = (
        ("regression error", {"facecolor": _COLORS[0], **line}),
        ("embedding error", {"facecolor": "white", "hatch": "////", **line}),
    )
    figure, panels = _panels(list(dict.fromkeys(t.dataset for t in terms)), height=1.9, share=False)
    for dataset, axes in panels.items():
        for term in (term for term in terms if term.dataset == dataset):
            place = methods.index(term.method)
            axes.bar(place, term.regression_error, **parts[0][1])
            axes.bar(place, term.embedding_error, bottom=term.regression_error, **parts[1][1])
            top = term.regression_error + term.embedding_error
            axes.annotate(f"{term.b:.2f}", (place, top), (0, 2), textcoords="offset points", ha="center", fontsize=7)
        axes.margins(y=0.16)
        axes.set_xlim(-0.7, len(methods) - 0.3)
        axes.set_xticks(range(len(methods)), methods, rotation=40, ha="right", rotation_mode="anchor", fontsize=8)
        axes.tick_params(axis="x", length=0)
    _legend_above(figure, parts)
    figure.supylabel("mean squared distance", fontsize=9)
    caption = (
        "The two terms of Theorem 1 for each data set and method: regression error (filled) and embedding "
        "error (hatched) on top of it. The number above a bar is the constant b observed."
    )
    return "theorem-1", caption, figure


def _figure(width: float, height: float) -> "Figure":
    # Not through pyplot, which keeps figures alive and picks a window system.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def _panels(names: Sequence[str], height: float, share: bool = True) -> tuple["Figure", dict[str, "Axes"]]:
    """Lay out small panels in rows of four (fewer if fewer are needed) and title each."""
    columns = min(4, len(names))
    lines = math.ceil(len(names) / columns)
    figure = _figure(1.3 + 1.75 * columns, 0.5 + height * lines)
    figure.set_layout_engine("constrained")
    grid = figure.subplots(lines, columns, sharey=share, squeeze=False)
    places = list(grid.flat)
    for unused in places[len(names) :]:
        unused.remove()
    panels = dict(zip(names, places, strict=False))
    for name, axes in panels.items():
        axes.set_title(name)
    return figure, panels


def _bar_style(index: int) -> dict[str, Any]:
    return {
        "facecolor": _COLORS[index % len(_COLORS)],
        "edgecolor": _BLACK,
        "hatch": _HATCHES[(index + index // len(_COLORS)) % len(_HATCHES)],
        "linewidth": 0.6,
    }


def _legend_above(figure: "Figure", entries: Sequence[tuple[str, dict[str, Any]]]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(label=label, **style) for label, style in entries]
    figure.legend(handles=handles, loc="outside upper left", ncols=min(6, len(handles)), handleheight=1.1)
