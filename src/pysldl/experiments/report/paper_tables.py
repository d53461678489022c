"""The tables of the paper's Section IV, and those that hold the measured results beside them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pysldl._utils.files import slug
from pysldl.experiments.report.tables import Cell, Row, Table
from pysldl.experiments.stats.results import ErrorBoundTerms, Summary, metrics_of, rankable_part, scores_by_metric
from pysldl.experiments.stats.significance import Comparison, RankTest, average_ranks, mid_ranks

__all__ = [
    "ablation_sentence",
    "ablation_table",
    "agreement_table",
    "friedman_table",
    "published_table",
    "rank_table",
    "result_table",
    "theorem_table",
    "time_table",
]


def result_table(
    rows: Sequence[Summary],
    comparisons: Iterable[Comparison],
    metric: str,
    *,
    reference: str = "SLDL",
    alpha: float = 0.05,
    methods: Sequence[str] | None = None,
    notes: Sequence[str] = (),
    ties: Literal["mean", "smaller"] = "mean",
) -> Table:
    """Build a table of Tables III to X: data sets by methods, mean and deviation, average ranks below.

    Parameters
    ----------
    rows : sequence of Summary
        Of this metric and, perhaps, of others, which are left aside. A method that was not run on a data
        set leaves its cell empty; ranks are then over a complete part (:func:`rankable_part`).
    comparisons : iterable of Comparison
        Of each method with the reference: they decide what is underlined.
    metric : str
        The one to show, in per cent.
    reference : str, default="SLDL"
        Named in the caption.
    alpha : float, default=0.05
        Significance level of the underlines.
    methods : sequence of str, optional
        The columns; those that no row has are left out. By default all, in the order of the rows.
    notes : sequence of str, default=()
        Added below.
    ties : {"mean", "smaller"}, default="mean"
        Rank of methods that tie: the mean of theirs, as in the tests and diagrams, or the smaller, as in the paper.
    """
    rows = [row for row in rows if row.metric == metric and (methods is None or row.method in methods)]
    present = dict.fromkeys(row.method for row in rows)
    methods = [method for method in methods or present if method in present]
    compared = [comparison for comparison in comparisons if comparison.metric == metric]
    worse = {(c.dataset, c.method) for c in compared if c.reference_better(alpha)}
    of_cell = {(row.dataset, row.method): row for row in rows}
    datasets = list(dict.fromkeys(row.dataset for row in rows))

    body = []
    for dataset in datasets:
        highest = max(row.mean for row in rows if row.dataset == dataset)
        cells = []
        for method in methods:
            row = of_cell.get((dataset, method))
            cells.append(
                Cell(None)
                if row is None
                else Cell(row.mean, row.std, best=row.mean == highest, worse=(dataset, method) in worse)
            )
        body.append(Row(dataset, tuple(cells)))

    complete = rankable_part(rows)
    ranked_datasets = {row.dataset for row in complete}
    footer: tuple[Row, ...] = ()
    own_notes = []
    if len(ranked_datasets) >= 2:
        scores = scores_by_metric(complete)[metric]
        ranks = mid_ranks(scores.values) if ties == "mean" else average_ranks(scores.values)
        rank_of = dict(zip(scores.methods, ranks.tolist(), strict=True))
        footer = (Row("average rank", tuple(Cell(rank_of.get(method)) for method in methods)),)
        own_notes.append(f"Methods that tie {'share their mean' if ties == 'mean' else 'take the smaller'} rank.")
        if len(ranked_datasets) < len(datasets):
            own_notes.append(f"Ranks are over the {len(ranked_datasets)} data sets that have every method.")
        if len(rank_of) < len(methods):
            own_notes.append("Ranks are of the methods that were run on every data set.")
    return Table(
        f"results-{slug(metric)}",
        metric,
        f"Mean ± standard deviation in per cent. {_marks_caption(compared, reference, alpha)}",
        "data set",
        tuple(methods),
        tuple(body),
        footer,
        (*own_notes, *notes),
    )


def ablation_table(
    rows: Sequence[Summary],
    comparisons: Iterable[Comparison],
    variants: Sequence[str],
    *,
    metric: str = "P@5",
    reference: str = "SLDL",
    alpha: float = 0.05,
    notes: Sequence[str] = (),
) -> Table:
    """Build the ablation table: the variants in the given order, the reference last, as in the paper."""
    columns = [*(variant for variant in variants if variant != reference), reference]
    table = result_table(rows, comparisons, metric, reference=reference, alpha=alpha, methods=columns, notes=notes)
    return replace(table, name=f"ablation-{slug(metric)}", title=f"Ablation, {metric}")


def ablation_sentence(dataset: str, comparisons: Iterable[Comparison], alpha: float = 0.05) -> str:
    """Say in one sentence, for every metric compared, which variants the reference differs from significantly."""
    here = [c for c in comparisons if c.dataset == dataset]
    if not here:
        return f"{dataset}: nothing to compare."
    subject = here[0].reference
    clauses = []
    for metric in dict.fromkeys(c.metric for c in here):
        of_metric = [c for c in here if c.metric == metric]
        better = [f"{c.method} ({c.difference:+.2f})" for c in of_metric if c.reference_better(alpha)]
        worse = [f"{c.method} ({c.difference:+.2f})" for c in of_metric if c.reference_worse(alpha)]
        alike = [c.method for c in of_metric if c.p_value >= alpha]
        verdicts = [
            f"{verdict} {_listing(names)}"
            for verdict, names in (
                ("significantly better than", better),
                ("significantly worse than", worse),
                ("not distinguishable from", alike),
            )
            if names
        ]
        clauses.append(f"on {metric}, {subject} is {_listing(verdicts, ', and ')}")
        subject = "it"
    return f"{dataset}: {'; '.join(clauses)}."


def friedman_table(tests: Sequence[RankTest]) -> Table:
    """Build the Friedman table: F_F, its critical value and the Nemenyi critical difference a metric."""
    body = tuple(
        Row(
            test.metric,
            (
                Cell(test.friedman, decimals=4),
                Cell(test.critical_value, decimals=4),
                Cell(f"{test.p_value:.2g}"),
                Cell("yes" if test.rejects_equality else "no"),
                Cell(test.critical_difference, decimals=4),
                Cell(float(len(test.average_ranks)), decimals=0),
                Cell(float(test.n_datasets), decimals=0),
            ),
        )
        for test in tests
    )
    level = f" at the {tests[0].alpha:g} level" if tests else ""
    return Table(
        "friedman",
        "Friedman and Nemenyi tests",
        f"Friedman statistic F_F and critical value{level}; Nemenyi critical difference of average ranks.",
        "metric",
        ("F_F", "critical value", "p-value", "methods differ", "critical difference", "methods", "data sets"),
        body,
    )


def rank_table(tests: Sequence[RankTest]) -> Table:
    """Build the table of average ranks: metrics by methods, the best in bold."""
    methods = tuple(dict.fromkeys(method for test in tests for method in test.mid_ranks))
    body = tuple(
        Row(
            test.metric,
            tuple(
                Cell(test.mid_ranks.get(method), best=test.mid_ranks.get(method) == min(test.mid_ranks.values()))
                for method in methods
            ),
        )
        for test in tests
    )
    caption = "Over the data sets, 1 is best; methods that tie share their mean rank. Bold: the best."
    return Table("average-ranks", "Average ranks", caption, "metric", methods, body)


def published_table(
    published: Sequence[Summary],
    measured: Sequence[Summary],
    metric: str,
    method: str = "SLDL",
    notes: Sequence[str] = (),
) -> Table:
    """Set published and measured means of one metric and method side by side.

    The last column is the difference in units of the published standard deviation. A data set that only
    one side has keeps its row, with the other side empty.
    """
    ours, theirs = _means(measured, metric, method), _means(published, metric, method)
    body = []
    for dataset in dict.fromkeys((*theirs, *ours)):
        here, there = ours.get(dataset), theirs.get(dataset)
        difference = here.mean - there.mean if here and there else None
        cells = (
            Cell(there.mean, there.std) if there else Cell(None),
            Cell(here.mean, here.std) if here else Cell(None),
            Cell(difference, signed=True),
            Cell(_in_deviations(here, there), signed=True),
        )
        body.append(Row(dataset, cells))
    return Table(
        f"published-{slug(method)}-{slug(metric)}",
        f"{metric} of {method}, published and measured",
        "Mean ± standard deviation in per cent, and the difference in units of the published deviation.",
        "data set",
        ("published", "measured", "difference", "difference / published std"),
        tuple(body),
        notes=tuple(notes),
    )


def agreement_table(
    published: Sequence[Summary],
    measured: Sequence[Summary],
    method: str = "SLDL",
    notes: Sequence[str] = (),
) -> Table:
    """Build the overview of :func:`published_table`: its last column for every metric, side by side."""
    metrics = [metric for metric in metrics_of(published) if _means(measured, metric, method)]
    ours = {metric: _means(measured, metric, method) for metric in metrics}
    theirs = {metric: _means(published, metric, method) for metric in metrics}
    shared = dict.fromkeys(d for metric in metrics for d in theirs[metric] if d in ours[metric])
    by_metric = [
        [_in_deviations(ours[metric].get(dataset), theirs[metric].get(dataset)) for dataset in shared]
        for metric in metrics
    ]
    body = tuple(
        Row(dataset, tuple(Cell(units, signed=True) for units in across))
        for dataset, across in zip(shared, zip(*by_metric, strict=True), strict=True)
    )
    means = tuple(Cell(_mean_of_known(column), signed=True) for column in by_metric)
    footer = (Row("mean", means),) if body else ()
    return Table(
        f"agreement-{slug(method)}",
        f"{method}, measured minus published",
        "In units of the published standard deviation.",
        "data set",
        tuple(metrics),
        body,
        footer,
        tuple(notes),
    )


def time_table(seconds: Mapping[str, Mapping[str, float]], of: str = "") -> Table:
    """Build the table of training times: ``{dataset: {method: seconds}}``, the fastest in bold; ``of`` says of what."""
    methods = tuple(dict.fromkeys(method for times in seconds.values() for method in times))
    body = tuple(
        Row(
            dataset,
            tuple(Cell(times.get(m), decimals=3, best=times.get(m) == min(times.values())) for m in methods),
        )
        for dataset, times in seconds.items()
    )
    caption = f"Seconds for one fold{of}, mean over the folds. Bold: the fastest."
    return Table("training-time", "Training time", caption, "data set", methods, body)


def theorem_table(terms: Sequence[ErrorBoundTerms]) -> Table:
    """Build the table of the two terms of Theorem 1 and the constant b, a data set and method a row."""
    body = tuple(
        Row(
            term.dataset,
            (
                Cell(term.method),
                Cell(term.embedding_error, decimals=4),
                Cell(term.regression_error, decimals=4),
                Cell(term.embedding_error / total if (total := _total(term)) else None, decimals=3),
                Cell(term.b, decimals=3),
            ),
        )
        for term in terms
    )
    return Table(
        "theorem-1",
        "The two terms of Theorem 1",
        "What the embedding loses and what the mapping loses, with the constant b observed.",
        "data set",
        ("method", "embedding error", "regression error", "share of the embedding", "b observed"),
        body,
    )


def _total(term: ErrorBoundTerms) -> float:
    return term.embedding_error + term.regression_error


def _means(rows: Iterable[Summary], metric: str, method: str) -> dict[str, Summary]:
    return {row.dataset: row for row in rows if row.metric == metric and row.method == method}


def _in_deviations(measured: Summary | None, published: Summary | None) -> float | None:
    if measured is None or published is None or not published.std:
        return None
    return (measured.mean - published.mean) / published.std


def _mean_of_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _marks_caption(comparisons: Sequence[Comparison], reference: str, alpha: float) -> str:
    if not comparisons:
        return "Bold: the best of its row."
    how = {
        "paired": "two-tailed t-test, paired over the folds",
        "unpaired": "two-tailed t-test from means and standard deviations, not paired",
    }[comparisons[0].test]
    underlined = f"Underlined: significantly worse than {reference} ({how}, {alpha:g} level)."
    return f"Bold: the best of its row. {underlined}"


def _listing(parts: Sequence[str], conjunction: str = " and ") -> str:
    if len(parts) < 2:
        return "".join(parts)
    return ", ".join(parts[:-1]) + conjunction + parts[-1]
