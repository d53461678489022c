"""From measured records and published tables to the sections of the page, and to the files beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from pysldl.experiments.report.figures import (
    Drawing,
    critical_difference_diagram,
    parameter_curves,
    theorem_bars,
    training_time_bars,
    write_drawing,
)
from pysldl.experiments.report.page import Missing, ReportContext, Section, write_report
from pysldl.experiments.report.paper_tables import (
    ablation_sentence,
    ablation_table,
    agreement_table,
    friedman_table,
    published_table,
    rank_table,
    result_table,
    theorem_table,
    time_table,
)
from pysldl.experiments.report.tables import Table, write_table
from pysldl.experiments.stats.results import (
    ErrorBoundTerms,
    FoldRecord,
    Summary,
    mean_fit_seconds,
    metrics_of,
    rankable_part,
    scores_by_metric,
    summarize,
)
from pysldl.experiments.stats.significance import (
    Comparison,
    RankTest,
    compare_folds,
    compare_summaries,
    rank_test,
)

__all__ = ["Measurements", "Published", "protocol_notes", "reproduction_context", "write_reproduction"]

Result = TypeVar("Result", FoldRecord, Summary)

# The paper's, and what shows rare labels.
_ABLATION_METRICS = ("P@5", "PSP@5")


@dataclass(frozen=True, slots=True)
class Measurements:
    """What a run measured.

    Parameters
    ----------
    records : sequence of FoldRecord
        One a data set, method and fold, with the configuration that was chosen.
    n_folds : int, default=10
        A method with fewer folds on a data set is left out there, and listed as missing.
    variants : sequence of str, default=()
        The methods of the ablation, in the order of its columns.
    terms : sequence of ErrorBoundTerms, default=()
        The two terms of Theorem 1.
    curves : mapping, default={}
        ``{(parameter, metric): {dataset: [(value, metric in per cent), ...]}}``.
    shown_as : mapping of str to str, default={}
        What tables and figures call a method, where that says more than its name.
    of_folds : int, optional
        Folds of the cross-validation, where not all of them were run; default ``n_folds``.
    timed : sequence of FoldRecord, default=()
        With the configuration whose training times are shown; default ``records``.
    """

    records: Sequence[FoldRecord]
    n_folds: int = 10
    variants: Sequence[str] = ()
    terms: Sequence[ErrorBoundTerms] = ()
    curves: Mapping[tuple[str, str], Mapping[str, Sequence[tuple[float, float]]]] = field(default_factory=dict)
    shown_as: Mapping[str, str] = field(default_factory=dict)
    of_folds: int | None = None
    timed: Sequence[FoldRecord] = ()


@dataclass(frozen=True, slots=True)
class Published:
    """What the paper printed: Tables III to X, and the ablation with the metric filled in."""

    results: Sequence[Summary] = ()
    ablation: Sequence[Summary] = ()


def reproduction_context(
    measured: Measurements,
    published: Published,
    *,
    missing: Sequence[Missing] = (),
    settings: Mapping[str, str] | None = None,
    versions: Mapping[str, str] | None = None,
    reference: str = "SLDL",
    alpha: float = 0.05,
) -> ReportContext:
    """Arrange measured and published results as the page.

    Parameters
    ----------
    measured : Measurements
        Methods bear the names that the published tables use.
    published : Published
        May be empty.
    missing : sequence of Missing, default=()
        What the run knows (a failed method, say). Published data sets and methods without a measurement, and
        methods whose folds are incomplete, are added.
    settings, versions : mapping of str to str, optional
        Shown at the end.
    reference : str, default="SLDL"
        The method every other one is compared with.
    alpha : float, default=0.05
        Significance level.
    """
    records, incomplete = _complete_folds(_shown(measured.records, measured.shown_as), measured.n_folds)
    counterparts = _shown(published.results, measured.shown_as)
    rows = summarize(records)
    # A single fold allows no test, but means all the same.
    tested = metrics_of(rows) if measured.n_folds >= 2 else []
    comparisons = [c for metric in tested for c in compare_folds(records, metric, reference)]
    notes = protocol_notes(records)
    sections = [
        _agreement_section(rows, counterparts, reference, notes),
        _results_section(rows, comparisons, reference, alpha, notes),
        _statistics_section(rows, reference, alpha),
        _ablation_section(rows, comparisons, measured.variants, published.ablation, reference, alpha, notes),
        _theorem_section(measured.terms),
        _time_section(_shown(measured.timed, measured.shown_as) or records),
        _curves_section(measured.curves),
        _published_section(published.results, reference, alpha),
    ]
    n_datasets, n_methods = len({r.dataset for r in records}), len({r.method for r in records})
    return ReportContext(
        title="SLDL: the paper's results, measured again",
        lead=(
            f"{_count(n_methods, 'method')} on {_count(n_datasets, 'data set')}, {_folds(measured)}. "
            "Metrics are in percent, higher is better; click on a header to sort."
        ),
        missing=_all_missing(missing, incomplete, rows, counterparts),
        sections=tuple(section for section in sections if section is not None),
        settings=settings or {},
        versions=versions or {},
    )


def write_reproduction(context: ReportContext, folder: Path) -> Path:
    """Write the page, `tables/` (Markdown, LaTeX, CSV) and `figures/` (SVG, PNG); return the page's path.

    Both kinds of files of sections that show times lie in `timings/`.
    """
    for section in context.sections:
        for table in (*section.tables, *section.details):
            write_table(table, folder / ("timings" if section.timed else "tables"))
        for drawing in section.figures:
            write_drawing(drawing, folder / ("timings" if section.timed else "figures"))
    return write_report(context, folder / "report.html")


def protocol_notes(records: Sequence[FoldRecord]) -> tuple[str, ...]:
    """Say how parameters were chosen and what became of unseen labels, for the foot of every table."""
    notes = []
    selections = {record.selection for record in records}
    if "nested" in selections:
        notes.append("Parameters chosen on validation parts of the training rows (nested).")
    if "as-published" in selections:
        who = sorted({record.method for record in records if record.selection == "as-published"})
        of = "" if selections == {"as-published"} else f" for {', '.join(who)}"
        notes.append(f"Parameters chosen on the test folds{of} (as published): the values are optimiztic.")
    dropped = list(dict.fromkeys(record.dataset for record in records if record.unseen == "drop"))
    kept = {record.dataset for record in records if record.unseen == "keep"}
    if dropped:
        where = f" on {', '.join(dropped)}" if kept else ""
        notes.append(f"Test labels that never occur in the training rows are dropped before scoring{where}.")
    return tuple(notes)


def _shown(results: Sequence[Result], names: Mapping[str, str]) -> list[Result]:
    """The same results under the names that tables use."""
    return [replace(result, method=names.get(result.method, result.method)) for result in results]


def _complete_folds(records: Sequence[FoldRecord], n_folds: int) -> tuple[list[FoldRecord], list[Missing]]:
    folds: dict[tuple[str, str], set[int]] = {}
    for record in records:
        folds.setdefault((record.dataset, record.method), set()).add(record.fold)
    kept = [record for record in records if len(folds[record.dataset, record.method]) >= n_folds]
    missing = [
        Missing(f"{method} on {dataset}", f"left out, since only {len(done)} of {n_folds} folds are finished")
        for (dataset, method), done in folds.items()
        if len(done) < n_folds
    ]
    return kept, missing


def _all_missing(
    known: Sequence[Missing],
    incomplete: Sequence[Missing],
    rows: Sequence[Summary],
    published: Sequence[Summary],
) -> tuple[Missing, ...]:
    told = {item.what for item in known}
    absent = []
    for noun, printed, measured, why in (
        ("data set", _datasets(published), _datasets(rows), "published, but nothing was measured on it"),
        ("method", _methods(published), _methods(rows), "published, but not run"),
    ):
        names = [name for name in printed if name not in measured and f"{noun} {name}" not in told]
        if names:
            absent.append(Missing(f"{noun}{'s' if len(names) > 1 else ''} {', '.join(names)}", why))
    return (*known, *incomplete, *absent)


def _datasets(rows: Sequence[Summary]) -> list[str]:
    return list(dict.fromkeys(row.dataset for row in rows))


def _methods(rows: Sequence[Summary]) -> list[str]:
    return list(dict.fromkeys(row.method for row in rows))


def _agreement_section(
    rows: Sequence[Summary], published: Sequence[Summary], reference: str, notes: tuple[str, ...]
) -> Section | None:
    overview = agreement_table(published, rows, reference, notes)
    if not overview.rows:
        return None
    units = [cell.value for row in overview.rows for cell in row.cells if isinstance(cell.value, float)]
    within = sum(abs(unit) <= 1 for unit in units)
    below = sum(unit < -1 for unit in units)
    return Section(
        "Published and measured",
        paragraphs=(
            f"Of {len(units)} means of {reference}, {within} lie within one published standard deviation of "
            f"the published mean, {len(units) - within - below} above and {below} below.",
        ),
        tables=(overview,),
        details=tuple(published_table(published, rows, metric, reference, notes) for metric in overview.columns),
    )


def _results_section(
    rows: Sequence[Summary],
    comparisons: Sequence[Comparison],
    reference: str,
    alpha: float,
    notes: tuple[str, ...],
) -> Section | None:
    tables = [
        result_table(rows, comparisons, metric, reference=reference, alpha=alpha, notes=notes)
        for metric in metrics_of(rows)
    ]
    return Section("Results", tables=tuple(tables[:1]), details=tuple(tables[1:])) if tables else None


def _statistics_section(rows: Sequence[Summary], reference: str, alpha: float) -> Section | None:
    tests = _rank_tests(rows, alpha)
    if not tests:
        return None
    return Section(
        "Ranks over the data sets",
        tables=(friedman_table(tests), rank_table(tests)),
        figures=tuple(critical_difference_diagram(test, reference) for test in tests),
    )


def _rank_tests(rows: Sequence[Summary], alpha: float) -> list[RankTest]:
    """Test every metric that has at least two methods on at least two complete data sets."""
    complete = rankable_part(rows)
    tests = []
    for metric in metrics_of(complete):
        of_metric = [row for row in complete if row.metric == metric]
        if min(len(_datasets(of_metric)), len(_methods(of_metric))) >= 2:
            tests.append(rank_test(scores_by_metric(of_metric)[metric], alpha))
    return tests


def _ablation_section(
    rows: Sequence[Summary],
    comparisons: Sequence[Comparison],
    variants: Sequence[str],
    published: Sequence[Summary],
    reference: str,
    alpha: float,
    notes: tuple[str, ...],
) -> Section | None:
    tested = [
        c for c in comparisons if c.metric in _ABLATION_METRICS and c.method in variants and c.method != reference
    ]
    if not tested:
        return None
    shown, *details = (
        ablation_table(rows, tested, variants, metric=metric, reference=reference, alpha=alpha, notes=notes)
        for metric in _ABLATION_METRICS
        if any(c.metric == metric for c in tested)
    )
    if published:
        metric = published[0].metric
        compared = compare_summaries(published, metric, reference)
        printed = ablation_table(published, compared, _methods(published), metric=metric, reference=reference)
        details.append(_as_published(printed))
    return Section(
        "Ablation",
        paragraphs=(f"What each part contributes. Differences are {reference} minus the variant, in per cent.",),
        tables=(shown,),
        sentences=tuple(
            ablation_sentence(dataset, tested, alpha) for dataset in dict.fromkeys(c.dataset for c in tested)
        ),
        details=tuple(details),
    )


def _theorem_section(terms: Sequence[ErrorBoundTerms]) -> Section | None:
    if not terms:
        return None
    return Section(
        "The two terms of Theorem 1",
        paragraphs=("Which stage loses what: the embedding of the labels, or the mapping from the features.",),
        figures=(theorem_bars(terms),),
        details=(theorem_table(terms),),
    )


def _time_section(records: Sequence[FoldRecord]) -> Section | None:
    if not records:
        return None
    seconds = mean_fit_seconds(records)
    of = _configuration_shown(records)
    return Section(
        "Training time", figures=(training_time_bars(seconds),), details=(time_table(seconds, of),), timed=True
    )


def _configuration_shown(records: Sequence[FoldRecord]) -> str:
    """The configuration of methods with a grid, in words, where all records have the same."""
    values: dict[str, set[int]] = {}
    for record in records:
        for name, value in record.parameters.items():
            values.setdefault(name, set()).add(value)
    if not values or any(len(found) > 1 for found in values.values()):
        return ""
    return " with " + ", ".join(f"{name} {found.pop()}" for name, found in values.items()) + " where a method has them"


def _curves_section(
    curves: Mapping[tuple[str, str], Mapping[str, Sequence[tuple[float, float]]]],
) -> Section | None:
    figures: list[Drawing] = [
        parameter_curves(of_dataset, parameter, metric) for (parameter, metric), of_dataset in curves.items()
    ]
    return Section("Effect of the parameters", figures=tuple(figures)) if figures else None


def _published_section(published: Sequence[Summary], reference: str, alpha: float) -> Section | None:
    """Show the paper's own tables, with its statistics computed again from the printed means."""
    tests = _rank_tests(published, alpha)
    if not tests:
        return None
    comparisons = [c for test in tests for c in compare_summaries(published, test.metric, reference)]
    higher = sum(c.difference > 0 for c in comparisons)
    significant = sum(c.reference_better(alpha) for c in comparisons)
    tables = [
        result_table(published, comparisons, test.metric, reference=reference, alpha=alpha, ties="smaller")
        for test in tests
    ]
    return Section(
        "The published tables",
        paragraphs=(
            f"As printed, {reference} has the higher mean in {higher} of {len(comparisons)} comparisons. A "
            "t-test from the printed means and standard deviations, which cannot be paired, finds "
            f"{significant} of them significant at the {alpha:g} level.",
        ),
        tables=(_as_published(friedman_table(tests)),),
        details=tuple(map(_as_published, tables)),
    )


def _as_published(table: Table) -> Table:
    return replace(table, name=f"published-{table.name}", title=f"{table.title}, as published")


def _folds(measured: Measurements) -> str:
    """How many folds were run of how many, in words."""
    planned = measured.of_folds or measured.n_folds
    if planned == measured.n_folds:
        return f"{planned}-fold cross-validation"
    return f"{measured.n_folds} of the {planned} folds of a cross-validation"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
