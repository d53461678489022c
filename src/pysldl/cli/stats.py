"""`sldl stats`: ranks and rank tests over anybody's results."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from pysldl.cli._output import console, note, print_json, table

if TYPE_CHECKING:
    from pysldl.experiments.stats.significance import RankTest

__all__ = ["stats"]


def stats(
    results: Path,
    *,
    lower_is_better: str | None = None,
    reference: str | None = None,
    json: bool = False,
    plot: Path | None = None,
    alpha: float = 0.05,
) -> int:
    """Rank methods over data sets and test the ranks (Friedman, Nemenyi).

    Example: `sldl stats results.csv --plot figures`, or `sldl stats times.csv --lower-is-better seconds`

    Every method needs a mean on every data set. Methods that tie share their mean rank, in the averages shown, in both
    tests and in the diagrams. The Nemenyi p-values are those of each method against the best one, or against
    --reference.

    Parameters
    ----------
    results : Path
        CSV file with the columns metric, dataset, method, mean and, optionally, std.
    lower_is_better : str, optional
        Comma-separated metrics of which lower means are better, such as seconds or a loss; `all` for every one.
    reference : str, optional
        The method that the others are compared with; by default the one with the best rank.
    json : bool
        Print `{metric: {"F_F", "critical_value", "critical_difference", "average_ranks": {method: rank}, "p_value",
        "mid_ranks": {method: rank}, "reference", "nemenyi_p_values": {method: p}}}`. F_F is null where every data set
        gives the same order, which makes it infinite. In `average_ranks` methods that tie take the smaller rank, as in
        the paper's tables; in `mid_ranks` they share their mean rank.
    plot : Path, optional
        Folder for a critical-difference diagram a metric, as SVG and PNG.
    alpha : float
        Significance level.

    Returns
    -------
    int
        Exit code 0.
    """
    from pysldl.exceptions import DataError
    from pysldl.experiments.stats.results import metrics_of, read_summaries, scores_by_metric
    from pysldl.experiments.stats.significance import rank_test

    rows = read_summaries(results)
    lower = _metrics(lower_is_better, metrics_of(rows))
    rows = [replace(row, mean=-row.mean) if row.metric in lower else row for row in rows]
    tests = [rank_test(scores, alpha) for scores in scores_by_metric(rows, source=str(results)).values()]
    for test in tests:
        if reference is not None and reference not in test.mid_ranks:
            raise DataError(f"--reference: {results} has no method {reference!r} of {test.metric}.")
    if plot is not None:
        _draw(tests, plot)
    if json:
        print_json({test.metric: _as_json(test, reference) for test in tests})
    else:
        _print(tests, reference)
    return 0


def _draw(tests: "list[RankTest]", folder: Path) -> None:
    from pysldl.experiments.report.figures import critical_difference_diagram, write_drawing

    # Draw all before writing the first, so that a failure leaves no half set of figures.
    for drawing in [critical_difference_diagram(test) for test in tests]:
        for path in write_drawing(drawing, folder):
            note(f"wrote {path}")


def _metrics(names: str | None, known: list[str]) -> set[str]:
    """The metrics of which lower is better."""
    from pysldl.exceptions import DataError

    if names is None:
        return set()
    wanted = {name.strip() for name in names.split(",") if name.strip()}
    if wanted == {"all"}:
        return set(known)
    if unknown := sorted(wanted - set(known)):
        raise DataError(
            f"--lower-is-better: there is no metric {unknown[0]!r}: choose from {', '.join(known)}, or all."
        )
    return wanted


def _against(test: "RankTest", reference: str | None) -> tuple[str, dict[str, float]]:
    """The method that the others are compared with, and the Nemenyi p-value of each of them."""
    ranks = test.mid_ranks
    compared = min(ranks, key=lambda method: ranks[method]) if reference is None else reference
    return compared, {method: test.nemenyi_p_value(compared, method) for method in ranks if method != compared}


def _as_json(test: "RankTest", reference: str | None) -> dict[str, Any]:
    compared, p_values = _against(test, reference)
    return {
        "F_F": test.friedman if math.isfinite(test.friedman) else None,
        "critical_value": test.critical_value,
        "critical_difference": test.critical_difference,
        "average_ranks": test.average_ranks,
        "p_value": test.p_value,
        "mid_ranks": test.mid_ranks,
        "reference": compared,
        "nemenyi_p_values": p_values,
    }


def _print(tests: "list[RankTest]", reference: str | None) -> None:
    screen = console()
    for test in tests:
        compared, p_values = _against(test, reference)
        columns = ("average rank", f"p against {compared}")
        ranks = table(escape(test.metric), "method", "average rank", escape(columns[1]), numbers=columns)
        for method, rank in sorted(test.mid_ranks.items(), key=lambda item: item[1]):
            ranks.add_row(escape(method), f"{rank:.2f}", f"{p_values[method]:.3g}" if method in p_values else "")
        screen.print(ranks)
        verdict = "the methods differ" if test.rejects_equality else f"not significant at {test.alpha:g}"
        friedman = f"{test.friedman:.4f}" if math.isfinite(test.friedman) else "infinite"
        screen.print(f"F_F {friedman}, critical value {test.critical_value:.4f}, p = {test.p_value:.3g}: {verdict}")
        size = f"{len(test.mid_ranks)} methods, {test.n_datasets} data sets"
        screen.print(f"critical difference {test.critical_difference:.4f} ({size}, alpha {test.alpha:g})\n")
