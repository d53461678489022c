"""The tables of the paper's Section IV, and those that hold the measured results beside the published ones.

Every method is compared with SLDL, at the 0.05 level.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Literal

from pysldl._utils.files import slug
from pysldl.experiments.report.tables import Cell, Row, Table
from pysldl.experiments.run.methods import REFERENCE
from pysldl.experiments.stats.error_bound import ErrorBoundTerms
from pysldl.experiments.stats.results import Summary, agreements, metrics_of, rankable_part, scores_by_metric
from pysldl.experiments.stats.significance import Comparison, RankTest, mean_ranks

_TESTS = {
    "paired": "two-tailed t-test, paired over the folds",
    "unpaired": "two-tailed t-test from means and standard deviations, not paired",
}


def result_table(
    rows: Sequence[Summary],
    comparisons: Iterable[Comparison],
    metric: str,
    *,
    methods: Sequence[str] | None = None,
    notes: Sequence[str] = (),
    ties: Literal["average", "min"] = "average",
) -> Table:
    """Build one of Tables III to X: data sets by methods, mean and deviation, average ranks below.

    A method that was not run on a data set leaves its cell empty; ranks are then over a complete part
    (:func:`~pysldl.experiments.stats.results.rankable_part`). ``comparisons`` with SLDL decide what is underlined.
    ``methods`` are the columns, by default all in the order of the rows. Methods that tie get the mean of their ranks
    (``ties="average"``), as in the tests and diagrams, or the smaller one (``"min"``), as in the paper.
    """
    rows = [row for row in rows if row.metric == metric and (methods is None or row.method in methods)]
    present = dict.fromkeys(row.method for row in rows)
    methods = [method for method in methods or present if method in present]
    compared = [comparison for comparison in comparisons if comparison.metric == metric]
    worse = {(c.dataset, c.method) for c in compared if c.reference_better()}
    of_cell = {(row.dataset, row.method): row for row in rows}
    datasets = list(dict.fromkeys(row.dataset for row in rows))

    highest = {d: max(row.mean for row in rows if row.dataset == d) for d in datasets}

    def cell(dataset: str, method: str) -> Cell:
        row = of_cell.get((dataset, method))
        if row is None:
            return Cell(None)
        return Cell(row.mean, row.std, best=row.mean == highest[dataset], worse=(dataset, method) in worse)

    footer, rank_notes = _rank_footer(rows, metric, methods, len(datasets), ties)
    marks = "Bold: the best of its row."
    if compared:
        marks += f" Underlined: significantly worse than {REFERENCE} ({_TESTS[compared[0].test]}, 0.05 level)."
    return Table(
        f"results-{slug(metric)}",
        metric,
        f"Mean ± standard deviation in percent. {marks}",
        "data set",
        tuple(methods),
        tuple(Row(dataset, tuple(cell(dataset, method) for method in methods)) for dataset in datasets),
        footer,
        (*rank_notes, *notes),
    )


def _rank_footer(
    rows: Sequence[Summary], metric: str, methods: Sequence[str], n_datasets: int, ties: Literal["average", "min"]
) -> tuple[tuple[Row, ...], list[str]]:
    """The row of average ranks, if there is something to rank, and notes on how to read it."""
    complete = rankable_part(rows)
    n_ranked = len({row.dataset for row in complete})
    if n_ranked < 2:
        return (), []
    rank_of = mean_ranks(scores_by_metric(complete)[metric], ties)
    notes = [f"Methods that tie {'share their mean' if ties == 'average' else 'take the smaller'} rank."]
    if n_ranked < n_datasets:
        notes.append(f"Ranks are over the {n_ranked} data sets that have every method.")
    if len(rank_of) < len(methods):
        notes.append("Ranks are of the methods that were run on every data set.")
    return (Row("average rank", tuple(Cell(rank_of.get(method)) for method in methods)),), notes


def ablation_table(
    rows: Sequence[Summary],
    comparisons: Iterable[Comparison],
    variants: Sequence[str],
    metric: str,
    notes: Sequence[str] = (),
) -> Table:
    """Build the ablation table: the variants in the given order, SLDL last, as in the paper."""
    columns = [*(variant for variant in variants if variant != REFERENCE), REFERENCE]
    table = result_table(rows, comparisons, metric, methods=columns, notes=notes)
    return replace(table, name=f"ablation-{slug(metric)}", title=f"Ablation, {metric}")


def ablation_sentence(dataset: str, comparisons: Iterable[Comparison]) -> str:
    """Say in one sentence, for every metric compared, which variants SLDL differs from significantly."""
    here = [c for c in comparisons if c.dataset == dataset]
    verdicts: dict[str, Callable[[Comparison], bool]] = {
        "significantly better than": Comparison.reference_better,
        "significantly worse than": Comparison.reference_worse,
        "not distinguishable from": lambda c: not c.reference_better() and not c.reference_worse(),
    }
    clauses: list[str] = []
    for metric in dict.fromkeys(c.metric for c in here):
        parts = []
        for verdict, holds in verdicts.items():
            difference = "" if verdict.startswith("not") else " ({:+.2f})"
            names = [c.method + difference.format(c.difference) for c in here if c.metric == metric and holds(c)]
            parts += [f"{verdict} {_listing(names)}"] if names else []
        clauses.append(f"on {metric}, {'it' if clauses else REFERENCE} is {_listing(parts, ', and ')}")
    return f"{dataset}: {'; '.join(clauses) or 'nothing to compare'}."


def friedman_table(tests: Sequence[RankTest]) -> Table:
    """Build the Friedman table: F_F, its critical value and the Nemenyi critical difference of each metric."""

    def cells(test: RankTest) -> tuple[Cell, ...]:
        statistic = (Cell(test.friedman, decimals=4), Cell(test.critical_value, decimals=4))
        verdict = (Cell(f"{test.p_value:.2g}"), Cell("yes" if test.rejects_equality else "no"))
        sizes = (Cell(float(size), decimals=0) for size in (len(test.average_ranks), test.n_datasets))
        return (*statistic, *verdict, Cell(test.critical_difference, decimals=4), *sizes)

    level = f" at the {tests[0].alpha:g} level" if tests else ""
    return Table(
        "friedman",
        "Friedman and Nemenyi tests",
        f"Friedman statistic F_F and critical value{level}; Nemenyi critical difference of average ranks.",
        "metric",
        ("F_F", "critical value", "p-value", "methods differ", "critical difference", "methods", "data sets"),
        tuple(Row(test.metric, cells(test)) for test in tests),
    )


def rank_table(tests: Sequence[RankTest]) -> Table:
    """Build the table of average ranks: metrics by methods, the best in bold."""
    caption = "Over the data sets, 1 is best; methods that tie share their mean rank. Bold: the best."
    ranks = {test.metric: test.mid_ranks for test in tests}
    return _lowest_in_bold("average-ranks", "Average ranks", caption, "metric", ranks, decimals=2)


def time_table(seconds: Mapping[str, Mapping[str, float]], of: str = "") -> Table:
    """Build the table of training times: ``{dataset: {method: seconds}}``, the fastest in bold; ``of`` says of what."""
    caption = f"Seconds for one fold{of}, mean over the folds. Bold: the fastest."
    return _lowest_in_bold("training-time", "Training time", caption, "data set", seconds, decimals=3)


def _lowest_in_bold(
    name: str, title: str, caption: str, corner: str, values: Mapping[str, Mapping[str, float]], decimals: int
) -> Table:
    """A table of ``{row: {column: value}}``."""
    columns = tuple(dict.fromkeys(column for of_row in values.values() for column in of_row))
    body = tuple(
        Row(label, tuple(Cell(v.get(c), decimals=decimals, best=v.get(c) == min(v.values())) for c in columns))
        for label, v in values.items()
    )
    return Table(name, title, caption, corner, columns, body)


def published_table(
    published: Sequence[Summary], measured: Sequence[Summary], metric: str, notes: Sequence[str] = ()
) -> Table:
    """Set published and measured means of SLDL on one metric side by side.

    The last column is the difference in units of the published standard deviation. A data set that only one side has
    keeps its row, with the other side empty.
    """
    ours, theirs = (
        {row.dataset: row for row in rows if row.metric == metric and row.method == REFERENCE}
        for rows in (measured, published)
    )
    body = []
    for dataset in dict.fromkeys((*theirs, *ours)):
        here, there = ours.get(dataset), theirs.get(dataset)
        difference = here.mean - there.mean if here and there else None
        deviations = difference / there.std if there and there.std and difference is not None else None
        means = (Cell(row.mean, row.std) if row else Cell(None) for row in (there, here))
        body.append(Row(dataset, (*means, Cell(difference, signed=True), Cell(deviations, signed=True))))
    return Table(
        f"published-{slug(REFERENCE)}-{slug(metric)}",
        f"{metric} of {REFERENCE}, published and measured",
        "Mean ± standard deviation in percent, and the difference in units of the published deviation.",
        "data set",
        ("published", "measured", "difference", "difference / published std"),
        tuple(body),
        notes=tuple(notes),
    )


def agreement_table(published: Sequence[Summary], measured: Sequence[Summary], notes: Sequence[str] = ()) -> Table:
    """Build the overview of :func:`published_table`: its last column for every metric, side by side."""
    found = [one for one in agreements(published, measured, REFERENCE) if one.method == REFERENCE]
    deviations = {(one.dataset, one.metric): one.deviations for one in found}
    metrics = [metric for metric in metrics_of(published) if any(one.metric == metric for one in found)]
    compared = {one.dataset for one in found}
    datasets = dict.fromkeys(row.dataset for row in published if row.dataset in compared)
    body = tuple(
        Row(dataset, tuple(Cell(deviations.get((dataset, metric)), signed=True) for metric in metrics))
        for dataset in datasets
    )
    means = (fmean(one.deviations for one in found if one.metric == metric) for metric in metrics)
    return Table(
        f"agreement-{slug(REFERENCE)}",
        f"{REFERENCE}, measured minus published",
        "In units of the published standard deviation.",
        "data set",
        tuple(metrics),
        body,
        (Row("mean", tuple(Cell(mean, signed=True) for mean in means)),) if body else (),
        tuple(notes),
    )


def error_bound_table(terms: Sequence[ErrorBoundTerms]) -> Table:
    """Build the table of the two terms of the error bound (Theorem 1) and the constant b, by data set and method."""

    def cells(term: ErrorBoundTerms) -> tuple[Cell, ...]:
        total = term.embedding_error + term.regression_error
        return (
            Cell(term.method),
            Cell(term.embedding_error, decimals=4),
            Cell(term.regression_error, decimals=4),
            Cell(term.embedding_error / total if total else None, decimals=3),
            Cell(term.b, decimals=3),
        )

    return Table(
        "theorem-1",
        "The two terms of Theorem 1",
        "What the embedding loses and what the mapping loses, with the constant b observed.",
        "data set",
        ("method", "embedding error", "regression error", "share of the embedding", "b observed"),
        tuple(Row(term.dataset, cells(term)) for term in terms),
    )


def _listing(parts: Sequence[str], conjunction: str = " and ") -> str:
    if len(parts) < 2:
        return "".join(parts)
    return ", ".join(parts[:-1]) + conjunction + parts[-1]
