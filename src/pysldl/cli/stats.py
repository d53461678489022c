"""`sldl stats`: ranks and rank tests over anybody's results."""

import json as json_format
import math
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pysldl.experiments.figures import critical_difference_diagram, write_drawing
from pysldl.experiments.results import read_summaries, scores_by_metric
from pysldl.experiments.significance import RankTest, rank_test

__all__ = ["stats"]


def stats(results: Path, *, json: bool = False, plot: Path | None = None, alpha: float = 0.05) -> int:
    """Rank methods over data sets and test the ranks (Friedman, Nemenyi).

    Example: `sldl stats results.csv --plot figures`

    Every method needs a mean on every data set. Higher means are better. Methods that tie take the smaller
    rank in the averages shown; the two tests use mid-ranks.

    Parameters
    ----------
    results : Path
        CSV file with the columns metric, dataset, method, mean and, optionally, std.
    json : bool
        Print `{metric: {"F_F", "critical_value", "critical_difference", "average_ranks": {method: rank}}}`.
        F_F is null where every data set gives the same order, which makes it infinite.
    plot : Path, optional
        Folder for a critical-difference diagram a metric, as SVG and PNG.
    alpha : float
        Significance level.

    Returns
    -------
    int
        Exit code 0.
    """
    matrices = scores_by_metric(read_summaries(results), source=str(results))
    tests = [rank_test(scores, alpha) for scores in matrices.values()]
    drawn = [] if plot is None else _draw(tests, plot)
    if json:
        print(json_format.dumps({test.metric: _as_json(test) for test in tests}, indent=2, ensure_ascii=False))
    else:
        _print(tests, drawn)
    return 0


def _draw(tests: list[RankTest], folder: Path) -> list[Path]:
    # Draw all before writing the first, so that a failure leaves no half set of figures.
    drawings = [critical_difference_diagram(test) for test in tests]
    return [path for drawing in drawings for path in write_drawing(drawing, folder)]


def _as_json(test: RankTest) -> dict[str, Any]:
    return {
        "F_F": test.friedman if math.isfinite(test.friedman) else None,
        "critical_value": test.critical_value,
        "critical_difference": test.critical_difference,
        "average_ranks": test.average_ranks,
    }


def _print(tests: list[RankTest], drawn: list[Path]) -> None:
    console = Console()
    for test in tests:
        n_methods = len(test.average_ranks)
        table = Table(
            title=f"{escape(test.metric)}: {n_methods} methods, {test.n_datasets} data sets",
            title_justify="left",
        )
        table.add_column("method")
        table.add_column("average rank", justify="right")
        for method, rank in sorted(test.average_ranks.items(), key=lambda item: item[1]):
            table.add_row(escape(method), f"{rank:.2f}")
        console.print(table)
        verdict = "the methods differ" if test.rejects_equality else "no difference between the methods is shown"
        friedman = f"{test.friedman:.4f}" if math.isfinite(test.friedman) else "infinite"
        console.print(f"F_F {friedman}, critical value {test.critical_value:.4f}: {verdict}")
        console.print(f"critical difference {test.critical_difference:.4f} (alpha {test.alpha:g})\n")
    for path in drawn:
        console.print(f"wrote {path}", soft_wrap=True, highlight=False, markup=False)
