"""Figures of the documents, as small SVG files. Each carries a digest of what it shows: a check need not draw."""

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from blocks import comparison, embedding
from blocks.evidence import DATASETS, REFERENCE, Evidence
from blocks.text import NOT_RECORDED
from pysldl.experiments.report.figures import critical_difference_diagram, error_bound_bars, parameter_curves

CURVE_METRIC = "P@5"


@dataclass(frozen=True)
class Figure:
    """A figure that can be drawn.

    Parameters
    ----------
    name : str
        Of its file in docs/figures, without the ending.
    data : object
        What it shows, as JSON values.
    draw : callable
        Returns the SVG.
    """

    name: str
    data: Any
    draw: Callable[[], str]

    @property
    def mark(self) -> str:
        """A comment at the end of the file that tells what was drawn."""
        text = json.dumps([self.name, self.data], sort_keys=True)
        return f"<!-- data: {hashlib.sha256(text.encode()).hexdigest()[:16]} -->"

    def svg(self) -> str:
        return self.draw().rstrip() + f"\n{self.mark}\n"


def figures(evidence: Evidence) -> list[Figure]:
    """All figures whose records exist."""
    found = []
    for metric, ranks in comparison.all_ranks(evidence).items():
        test = ranks.measured
        name = f"cd-{metric.lower().replace('@', '-')}"
        data = [sorted(test.mid_ranks.items()), round(test.critical_difference, 6)]
        found.append(Figure(name, data, lambda test=test: critical_difference_diagram(test, REFERENCE).svg))
    for parameter, curves in _curves(evidence).items():
        draw = lambda c=curves, p=parameter: parameter_curves(c, p, CURVE_METRIC).svg  # noqa: E731
        found.append(Figure(f"curve-{parameter.replace('_', '-')}", curves, draw))
    export = evidence.export(evidence.ablation_run)
    if export is not None and export.terms:
        terms = export.terms
        data = [
            [t.dataset, t.method, *(round(v, 4) for v in (t.embedding_error, t.regression_error, t.b))] for t in terms
        ]
        found.append(Figure("theorem-1", data, lambda: error_bound_bars(terms).svg))
    curves = embedding.step_curves(evidence)
    if curves:
        data = [
            [c.dataset, c.c_hat, c.cooccurrence, {str(n): round(v, 4) for n, v in c.points.items()}] for c in curves
        ]
        found.append(Figure("steps", data, lambda: _draw_steps(curves)))
    return found


def _curves(evidence: Evidence) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """P@5 over each axis of the grid, by data set."""
    export = evidence.export("paper")
    if export is None:
        return {}
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for (parameter, metric), curves in export.curves.items():
        if metric == CURVE_METRIC and any(len(points) > 1 for points in curves.values()):
            found[parameter] = {
                name: [(float(x), round(float(y), 4)) for x, y in curves[name]] for name in DATASETS if name in curves
            }
    return found


def critical_differences(evidence: Evidence) -> str:
    """The diagrams of all metrics whose ranks are known."""
    found = [figure for figure in figures(evidence) if figure.name.startswith("cd-")]
    return "\n\n".join(f"![critical differences]({'figures/' + f.name}.svg)" for f in found) or NOT_RECORDED


def curves(evidence: Evidence) -> str:
    """P@5 of SLDL over c_hat, number of steps and k."""
    found = _curves(evidence)
    lines = [
        f"![{CURVE_METRIC} over {parameter}](figures/curve-{parameter.replace('_', '-')}.svg)" for parameter in found
    ]
    return "\n\n".join([*lines, evidence.export_source("paper")]) if lines else NOT_RECORDED


def _draw_steps(curves: list[embedding.StepCurve]) -> str:
    """One panel for each data set, one line for each width; random codes at the left."""
    from matplotlib import style
    from matplotlib.figure import Figure as Canvas

    datasets = list(dict.fromkeys(curve.dataset for curve in curves))
    looks = ((color, line) for color in ("#0072B2", "#D55E00", "#009E73", "#CC79A7") for line in ("-o", "--s"))
    look = dict(zip(dict.fromkeys((curve.c_hat, curve.cooccurrence) for curve in curves), looks, strict=False))
    settings = {"svg.hashsalt": "pysldl", "svg.fonttype": "none", "font.size": 9}
    with style.context(["default", settings]):
        canvas = Canvas(figsize=(2.6 * len(datasets) + 0.6, 2.7))
        canvas.set_layout_engine("constrained")
        for axes, dataset in zip(canvas.subplots(1, len(datasets), squeeze=False)[0], datasets, strict=True):
            for curve in (curve for curve in curves if curve.dataset == dataset):
                color, line = look[curve.c_hat, curve.cooccurrence]
                places = [max(n_steps, 10) for n_steps in curve.points]
                label = f"width {curve.c_hat}, {curve.cooccurrence}"
                axes.plot(places, list(curve.points.values()), line, color=color, label=label, markersize=4)
            axes.set_xscale("log")
            axes.set_xticks([10, 100, 1000, 8000], ["random", "100", "1,000", "8,000"])
            axes.minorticks_off()
            axes.set_title(dataset)
            axes.set_xlabel("steps")
        canvas.axes[0].set_ylabel(f"{embedding.STEP_METRIC}, validation rows (%)")
        canvas.axes[0].legend(frameon=False, fontsize=7)
        out = io.StringIO()
        canvas.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()
