"""`sldl stats`: ranks and rank tests for any table of results."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from pysldl.cli._input import split_words
from pysldl.cli._output import console, note, print_json, table
from pysldl.exceptions import DataError

if TYPE_CHECKING:
    from pysldl.experiments.stats.significance import RankTest


def stats(
    results: Path,
    *,
    lower_is_better: str | None = None,
    reference: str | None = None,
    json: bool = False,
    plot: Path | None = None,
    tables: Path | None = None,
    alpha: float = 0.05,
) -> None:
    """Rank methods over data sets and test the ranks (Friedman, Nemenyi).

    Example: `sldl stats results.csv --plot figures`, or `sldl stats times.csv --lower-is-better seconds`

    Every method needs a mean on every data set. Tied methods share their mean rank, in the averages shown, in both
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
        "mid_ranks": {method: rank}, "reference", "nemenyi_p_values": {method: p}}}`. F_F is null if every data set
        gives the same order, which makes it infinite. In `average_ranks` methods that tie take the smaller rank, as in
        the paper's tables; in `mid_ranks` they share their mean rank.
    plot : Path, optional
        Folder for a critical-difference diagram of each metric, as SVG and PNG.
    tables : Path, optional
        Folder for the tables of average ranks and of the tests, as LaTeX, Markdown and CSV.
    alpha : float
        Significance level.
    """
    tests = _tests(results, lower_is_better, alpha)
    for test in tests:
        if reference is not None and reference not in test.mid_ranks:
            raise DataError(f"--reference: {results} has no method {reference!r} of {test.metric}.")
    if plot is not None:
        _draw(tests, plot)
    if tables is not None:
        _write_tables(tests, tables)
    compared = {test.metric: reference or min(test.mid_ranks, key=lambda m: test.mid_ranks[m]) for test in tests}
    if json:
        print_json({test.metric: _as_json(test, compared[test.metric]) for test in tests})
    else:
        for test in tests:
            _print(test, compared[test.metric])


def _tests(results: Path, lower_is_better: str | None, alpha: float) -> "list[RankTest]":
    from pysldl.experiments.stats.results import metrics_of, read_summaries, scores_by_metric
    from pysldl.experiments.stats.significance import rank_test

    rows = read_summaries(results)
    known = metrics_of(rows)
    lower = set(split_words(lower_is_better) or ())
    lower = set(known) if lower == {"all"} else lower
    if unknown := sorted(lower.difference(known)):
        raise DataError(
            f"--lower-is-better: there is no metric {unknown[0]!r}: choose from {', '.join(known)}, or all."
        )
    rows = [replace(row, mean=-row.mean) if row.metric in lower else row for row in rows]
    return [rank_test(scores, alpha) for scores in scores_by_metric(rows, source=str(results)).values()]


def _draw(tests: "list[RankTest]", folder: Path) -> None:
    from pysldl.experiments.report.figures import critical_difference_diagram, write_drawing

    # Draw all before writing the first, so that a failure leaves no half set of figures.
    for drawing in [critical_difference_diagram(test) for test in tests]:
        for path in write_drawing(drawing, folder):
            note(f"wrote {path}")


def _write_tables(tests: "list[RankTest]", folder: Path) -> None:
    from pysldl.experiments.report.paper_tables import friedman_table, rank_table
    from pysldl.experiments.report.tables import write_table

    for made in (rank_table(tests), friedman_table(tests)):
        for path in write_table(made, folder):
            note(f"wrote {path}")


def _as_json(test: "RankTest", reference: str) -> dict[str, Any]:
    return {
        "F_F": test.friedman if math.isfinite(test.friedman) else None,
        "critical_value": test.critical_value,
        "critical_difference": test.critical_difference,
        "average_ranks": test.average_ranks,
        "p_value": test.p_value,
        "mid_ranks": test.mid_ranks,
        "reference": reference,
        "nemenyi_p_values": test.nemenyi_p_values(reference),
    }


def _print(test: "RankTest", reference: str) -> None:
    p_values = test.nemenyi_p_values(reference)
    columns = ("average rank", escape(f"p against {reference}"))
    ranks = table(escape(test.metric), "method", *columns, numbers=columns)
    for method, rank in sorted(test.mid_ranks.items(), key=lambda item: item[1]):
        ranks.add_row(escape(method), f"{rank:.2f}", f"{p_values[method]:.3g}" if method in p_values else "")
    verdict = "the methods differ" if test.rejects_equality else f"not significant at {test.alpha:g}"
    friedman = f"{test.friedman:.4f}" if math.isfinite(test.friedman) else "infinite"
    size = f"{len(test.mid_ranks)} methods, {test.n_datasets} data sets, alpha {test.alpha:g}"
    screen = console()
    screen.print(ranks)
    screen.print(f"F_F {friedman}, critical value {test.critical_value:.4f}, p = {test.p_value:.3g}: {verdict}")
    screen.print(f"critical difference {test.critical_difference:.4f} ({size})\n")
