"""`sldl stats`: ranks and rank tests over anybody's results."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from pysldl.cli._output import console, note, print_json, table

if TYPE_CHECKING:
    from pysldl.experiments.significance import RankTest

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
    from pysldl.experiments.results import read_summaries, scores_by_metric
    from pysldl.experiments.significance import rank_test

    matrices = scores_by_metric(read_summaries(results), source=str(results))
    tests = [rank_test(scores, alpha) for scores in matrices.values()]
    if plot is not None:
        _draw(tests, plot)
    if json:
        print_json({test.metric: _as_json(test) for test in tests})
    else:
        _print(tests)
    return 0


def _draw(tests: "list[RankTest]", folder: Path) -> None:
    from pysldl.experiments.figures import critical_difference_diagram, write_drawing

    # Draw all before writing the first, so that a failure leaves no half set of figures.
    for drawing in [critical_difference_diagram(test) for test in tests]:
        for path in write_drawing(drawing, folder):
            note(f"wrote {path}")


def _as_json(test: "RankTest") -> dict[str, Any]:
    return {
        "F_F": test.friedman if math.isfinite(test.friedman) else None,
        "critical_value": test.critical_value,
        "critical_difference": test.critical_difference,
        "average_ranks": test.average_ranks,
    }


def _print(tests: "list[RankTest]") -> None:
    screen = console()
    for test in tests:
        ranks = table(escape(test.metric), "method", "average rank", numbers=("average rank",))
        for method, rank in sorted(test.average_ranks.items(), key=lambda item: item[1]):
            ranks.add_row(escape(method), f"{rank:.2f}")
        screen.print(ranks)
        verdict = "the methods differ" if test.rejects_equality else "no difference between the methods is shown"
        friedman = f"{test.friedman:.4f}" if math.isfinite(test.friedman) else "infinite"
        screen.print(f"F_F {friedman}, critical value {test.critical_value:.4f}: {verdict}")
        size = f"{len(test.average_ranks)} methods, {test.n_datasets} data sets"
        screen.print(f"critical difference {test.critical_difference:.4f} ({size}, alpha {test.alpha:g})\n")
