"""Figures of the benchmarks. Shape and hatch say all that color does, so they can be read in gray."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from matplotlib import style
from matplotlib.figure import Figure

__all__ = ["draw_comparison", "draw_scaling"]

STYLE = {
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9,
    "font.size": 8,
    "grid.color": "#dddddd",
    "hatch.linewidth": 0.7,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "svg.hashsalt": "pysldl",
}
PEER = {"facecolor": "white", "edgecolor": "black", "hatch": "////"}
OURS = {"facecolor": "#0072B2", "edgecolor": "black"}
LINES = tuple(zip("os^Dv<>pX*", ("-", "--", "-.", ":", "-", "--", "-.", ":", "-", "--"), strict=True))


def draw_comparison(
    results: Mapping[str, Sequence[dict[str, Any]]],
    peers: Collection[str],
    metrics: Sequence[str],
    costs: Mapping[str, str],
    path: Path,
) -> None:
    """Bars for every system, a row of panels a data set and a panel a metric or cost; hatched bars are peers."""
    finished = {name: [r for r in rows if "error" not in r] for name, rows in results.items()}
    finished = {name: rows for name, rows in finished.items() if rows}
    if not finished:
        return
    shown = [metrics[0], metrics[2], metrics[-1], *costs]
    tallest = max(map(len, finished.values()))
    with style.context(["default", STYLE]):
        figure = Figure(figsize=(1.9 * len(shown), (0.7 + 0.24 * tallest) * len(finished)), layout="constrained")
        panels = figure.subplots(len(finished), len(shown), sharey="row", squeeze=False)
        for line, (name, rows) in zip(panels, finished.items(), strict=True):
            systems = [row["system"] for row in rows]
            for axes, key in zip(line, shown, strict=True):
                values = [100 * row["metrics"][key] if key in metrics else row[key] for row in rows]
                for place, (system, value) in enumerate(zip(systems, values, strict=True)):
                    axes.barh(place, value, **(PEER if system in peers else OURS))
                    axes.annotate(f"{value:.1f}", (value, place), (2, 0), textcoords="offset points", va="center")
                axes.set_yticks(range(len(systems)), [fill(system, 28) for system in systems])
                axes.set_title(costs.get(key, f"{key}, per cent"))
                if key in metrics:  # a bar is read by its end: the start is cut off to tell the systems apart
                    axes.set_xlim(0.9 * min(values), 1.03 * max(values))
                axes.margins(x=0.25)
            line[0].invert_yaxis()
            line[0].set_ylabel(name)
        _write(figure, path)


def draw_scaling(runs: Sequence[dict[str, Any]], path: Path) -> None:
    """Seconds and memory of every stage over the number of labels, both logarithmic."""
    with style.context(["default", STYLE]):
        figure = Figure(figsize=(8, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        stages = list(dict.fromkeys(stage for run in runs for stage in run["stages"]))
        for number, stage in enumerate(stages):
            there = [run for run in runs if stage in run["stages"]]
            marker, dash = LINES[number % len(LINES)]
            for axes, key in ((left, "seconds"), (right, "peak_mb")):
                values = [max(run["stages"][stage][key], 1e-3) for run in there]
                axes.plot([run["n_labels"] for run in there], values, marker=marker, linestyle=dash, label=stage)
        for axes, title in ((left, "seconds"), (right, "peak memory, MiB")):
            axes.set(xscale="log", yscale="log", xlabel="labels", title=title)
        figure.legend(*left.get_legend_handles_labels(), loc="outside right center", handlelength=3.2)
        _write(figure, path)


def _write(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"))
