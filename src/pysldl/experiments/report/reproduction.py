"""Write the results of `sldl reproduce`: tables, figures and one page, measured beside published."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from pysldl._utils.files import slug, write_atomically
from pysldl._utils.page_templates import page_style, page_templates
from pysldl.experiments.report import figures, paper_tables
from pysldl.experiments.report.figures import Drawing
from pysldl.experiments.report.tables import Cell, Table, write_table
from pysldl.experiments.run.archive import Archive, unseen_as_in_the_paper
from pysldl.experiments.run.evaluation import PAPER_METRICS
from pysldl.experiments.run.methods import REFERENCE
from pysldl.experiments.run.run_folder import Failure
from pysldl.experiments.stats import results
from pysldl.experiments.stats.error_bound import ErrorBoundTerms
from pysldl.experiments.stats.results import (
    Agreement,
    FoldRecord,
    Measurements,
    Published,
    Selection,
    Summary,
    Unseen,
    agreements,
    metrics_of,
    write_comparison,
)
from pysldl.experiments.stats.significance import Comparison, RankTest, compare_folds, compare_summaries, rank_test

Result = TypeVar("Result", FoldRecord, Summary)
Notes = tuple[str, ...]

NOTHING_PUBLISHED = Published()
# The paper's, and what shows rare labels.
ABLATION_METRICS = ("P@5", "PSP@5")


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that a reader would look for and not find ("data set CUB"), and why ("no local copy was found")."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page."""

    title: str
    paragraphs: tuple[str, ...] = ()  # plain text above the tables
    sentences: tuple[str, ...] = ()  # plain text as a list
    tables: tuple[Table, ...] = ()  # shown open
    figures: tuple[Drawing, ...] = ()
    details: tuple[Table, ...] = ()  # further tables, folded until a reader opens them
    timed: bool = False  # whether it shows times, which differ from run to run: their files lie apart from the others

    @property
    def anchor(self) -> str:
        """Its name in addresses."""
        return slug(self.title)


@dataclass(frozen=True, slots=True)
class ReportContext:
    """Everything the page shows: title and lead, what is missing, the sections, settings and versions."""

    title: str
    lead: str
    missing: tuple[Missing, ...] = ()
    sections: tuple[Section, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


def write_outputs(
    archive: Archive,
    folder: Path,
    selection: Selection = "nested",
    unseen: Callable[[str], Unseen] = unseen_as_in_the_paper,
    metrics: Sequence[str] = PAPER_METRICS,
    *,
    published: Published = NOTHING_PUBLISHED,
    absent: Sequence[str] = (),
    failures: Sequence[Failure] = (),
) -> tuple[list[Summary], list[Agreement]]:
    """Write results.csv, comparison.csv, tables, figures, times and the page.

    What depends on the clock or on the machine is in ``timings`` and on the page. All other files are the same, byte
    for byte, whenever the numbers are. The page also names data sets without a local copy (``absent``). Returns the
    summaries and, for each, the measured beside the published mean.
    """
    measured = archive.measurements(selection, unseen, metrics)
    results.write_summaries(folder / "results.csv", measured.summaries)
    found = agreements(published.results, measured.summaries, REFERENCE)
    if found:
        write_comparison(found, folder / "comparison.csv")
    protocol = {
        name: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in archive.protocol.as_json().items()
    }
    context = reproduction_context(
        measured,
        published,
        missing=[*(Missing(f"data set {name}", "no local copy was found") for name in absent), *_failed(failures)],
        settings={"selection": selection, **protocol},
        versions=_all_values(archive.runs),
    )
    write_reproduction(context, folder)
    return measured.summaries, found


def _failed(failures: Sequence[Failure]) -> list[Missing]:
    """One entry per method and data set, however many folds failed."""
    grouped: dict[str, list[Failure]] = {}
    for failure in failures:
        grouped.setdefault(failure.where, []).append(failure)
    missing = []
    for where, group in grouped.items():
        folds = ", ".join(str(failure.fold) for failure in group if failure.fold is not None)
        missing.append(Missing(where, f"failed{' in fold ' + folds if folds else ''}: {group[0].reason}"))
    return missing


def _all_values(runs: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Versions and machines of all runs: every value that occurs, once."""
    names = dict.fromkeys(name for noted in runs.values() for name in noted)
    return {name: "; ".join(filter(None, dict.fromkeys(n.get(name, "") for n in runs.values()))) for name in names}


def reproduction_context(
    measured: Measurements,
    published: Published,
    *,
    missing: Sequence[Missing] = (),
    settings: Mapping[str, str] | None = None,
    versions: Mapping[str, str] | None = None,
) -> ReportContext:
    """Arrange measured and published results as the page.

    To what is known to be missing (a failed method, say), published data sets and methods without a measurement, and
    methods whose folds are incomplete, are added.
    """
    records, incomplete = _complete_folds(_shown(measured.records, measured.shown_as), measured.n_folds)
    counterparts = _shown(published.results, measured.shown_as)
    rows = results.summarize(records)
    # A single fold allows no test, but means all the same.
    tested = metrics_of(rows) if measured.n_folds >= 2 else []
    comparisons = [c for metric in tested for c in compare_folds(records, metric, REFERENCE)]
    notes = protocol_notes(records)
    sections = [
        _agreement_section(rows, counterparts, notes),
        _results_section(rows, comparisons, notes),
        _statistics_section(rows),
        _ablation_section(rows, comparisons, measured.variants, published.ablation, notes),
        _error_bound_section(measured.terms),
        _time_section(_shown(measured.timed, measured.shown_as) or records),
        _curves_section(measured.curves),
        _published_section(published.results),
    ]
    n_datasets, n_methods = len({r.dataset for r in records}), len({r.method for r in records})
    return ReportContext(
        title="SLDL: the paper's results, measured again",
        lead=(
            f"{_count(n_methods, 'method')} on {_count(n_datasets, 'data set')}, {_folds(measured)}. "
            "Metrics are in percent, higher is better; click on a header to sort."
        ),
        missing=(*missing, *incomplete, *_not_measured(missing, rows, counterparts)),
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
            figures.write_drawing(drawing, folder / ("timings" if section.timed else "figures"))
    return write_report(context, folder / "report.html")


def protocol_notes(records: Sequence[FoldRecord]) -> Notes:
    """Say how parameters were chosen and what became of unseen labels, for the foot of every table."""
    notes = []
    selections = {record.selection for record in records}
    if "nested" in selections:
        notes.append("Parameters chosen on validation parts of the training rows (nested).")
    if "as-published" in selections:
        notes.append("Parameters chosen on the test folds (as published): the values are optimistic.")
    dropped = list(dict.fromkeys(record.dataset for record in records if record.unseen == "drop"))
    if dropped:
        where = f" on {', '.join(dropped)}" if any(record.unseen == "keep" for record in records) else ""
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


def _not_measured(known: Sequence[Missing], rows: Sequence[Summary], published: Sequence[Summary]) -> list[Missing]:
    """Published data sets and methods that have no measurement, if ``known`` does not say so already."""
    known_already = {item.what for item in known}
    missing = []
    for noun, printed, measured, why in (
        ("data set", _datasets(published), _datasets(rows), "published, but nothing was measured on it"),
        ("method", _methods(published), _methods(rows), "published, but not run"),
    ):
        names = [name for name in printed if name not in measured and f"{noun} {name}" not in known_already]
        if names:
            missing.append(Missing(f"{noun}{'s' if len(names) > 1 else ''} {', '.join(names)}", why))
    return missing


def _datasets(rows: Sequence[Summary]) -> list[str]:
    return list(dict.fromkeys(row.dataset for row in rows))


def _methods(rows: Sequence[Summary]) -> list[str]:
    return list(dict.fromkeys(row.method for row in rows))


def _agreement_section(rows: Sequence[Summary], published: Sequence[Summary], notes: Notes) -> Section | None:
    overview = paper_tables.agreement_table(published, rows, notes)
    if not overview.rows:
        return None
    units = [cell.value for row in overview.rows for cell in row.cells if isinstance(cell.value, float)]
    within = sum(abs(unit) <= 1 for unit in units)
    below = sum(unit < -1 for unit in units)
    return Section(
        "Published and measured",
        paragraphs=(
            f"Of {len(units)} means of {REFERENCE}, {within} lie within one published standard deviation of "
            f"the published mean, {len(units) - within - below} above and {below} below.",
        ),
        tables=(overview,),
        details=tuple(paper_tables.published_table(published, rows, metric, notes) for metric in overview.columns),
    )


def _results_section(rows: Sequence[Summary], comparisons: Sequence[Comparison], notes: Notes) -> Section | None:
    tables = tuple(paper_tables.result_table(rows, comparisons, metric, notes=notes) for metric in metrics_of(rows))
    return Section("Results", tables=tables[:1], details=tables[1:]) if tables else None


def _statistics_section(rows: Sequence[Summary]) -> Section | None:
    tests = _rank_tests(rows)
    if not tests:
        return None
    tables = (paper_tables.friedman_table(tests), paper_tables.rank_table(tests))
    diagrams = tuple(figures.critical_difference_diagram(test, REFERENCE) for test in tests)
    return Section("Ranks over the data sets", tables=tables, figures=diagrams)


def _rank_tests(rows: Sequence[Summary]) -> list[RankTest]:
    """Test every metric that has at least two methods on at least two complete data sets."""
    complete = results.rankable_part(rows)
    tests = []
    for metric in metrics_of(complete):
        of_metric = [row for row in complete if row.metric == metric]
        if min(len(_datasets(of_metric)), len(_methods(of_metric))) >= 2:
            tests.append(rank_test(results.scores_by_metric(of_metric)[metric]))
    return tests


def _ablation_section(
    rows: Sequence[Summary],
    comparisons: Sequence[Comparison],
    variants: Sequence[str],
    published: Sequence[Summary],
    notes: Notes,
) -> Section | None:
    tested = [c for c in comparisons if c.metric in ABLATION_METRICS and c.method in variants]
    if not tested:
        return None
    present = [metric for metric in ABLATION_METRICS if any(c.metric == metric for c in tested)]
    shown, *details = (paper_tables.ablation_table(rows, tested, variants, metric, notes) for metric in present)
    if published:
        metric = published[0].metric
        compared = compare_summaries(published, metric, REFERENCE)
        details.append(_as_published(paper_tables.ablation_table(published, compared, _methods(published), metric)))
    return Section(
        "Ablation",
        paragraphs=(f"What each part contributes. Differences are {REFERENCE} minus the variant, in percent.",),
        tables=(shown,),
        sentences=tuple(
            paper_tables.ablation_sentence(dataset, tested) for dataset in dict.fromkeys(c.dataset for c in tested)
        ),
        details=tuple(details),
    )


def _error_bound_section(terms: Sequence[ErrorBoundTerms]) -> Section | None:
    if not terms:
        return None
    return Section(
        "The two terms of Theorem 1",
        paragraphs=("Which stage loses what: the embedding of the labels, or the mapping from the features.",),
        figures=(figures.error_bound_bars(terms),),
        details=(paper_tables.error_bound_table(terms),),
    )


def _time_section(records: Sequence[FoldRecord]) -> Section | None:
    if not records:
        return None
    seconds = results.mean_fit_seconds(records)
    details = (paper_tables.time_table(seconds, _configuration_shown(records)),)
    return Section("Training time", figures=(figures.training_time_bars(seconds),), details=details, timed=True)


def _configuration_shown(records: Sequence[FoldRecord]) -> str:
    """The configuration of methods with a grid, in words, if all records have the same."""
    values: dict[str, set[int]] = {}
    for record in records:
        for name, value in record.parameters.items():
            values.setdefault(name, set()).add(value)
    if not values or any(len(found) > 1 for found in values.values()):
        return ""
    return " with " + ", ".join(f"{name} {found.pop()}" for name, found in values.items()) + " where a method has them"


def _curves_section(curves: results.Curves) -> Section | None:
    drawn = tuple(figures.parameter_curves(of_dataset, *of) for of, of_dataset in curves.items())
    return Section("Effect of the parameters", figures=drawn) if drawn else None


def _published_section(published: Sequence[Summary]) -> Section | None:
    """Show the paper's own tables, with its statistics computed again from the printed means."""
    tests = _rank_tests(published)
    if not tests:
        return None
    comparisons = [c for test in tests for c in compare_summaries(published, test.metric, REFERENCE)]
    higher = sum(c.difference > 0 for c in comparisons)
    significant = sum(c.reference_better() for c in comparisons)
    tables = [paper_tables.result_table(published, comparisons, test.metric, ties="min") for test in tests]
    return Section(
        "The published tables",
        paragraphs=(
            f"As printed, {REFERENCE} has the higher mean in {higher} of {len(comparisons)} comparisons. A "
            "t-test from the printed means and standard deviations, which cannot be paired, finds "
            f"{significant} of them significant at the 0.05 level.",
        ),
        tables=(_as_published(paper_tables.friedman_table(tests)),),
        details=tuple(map(_as_published, tables)),
    )


def _as_published(table: Table) -> Table:
    return replace(table, name=f"published-{table.name}", title=f"{table.title}, as published")


def _folds(measured: Measurements) -> str:
    """How many folds were run of how many, in words."""
    planned = measured.n_planned_folds or measured.n_folds
    if planned == measured.n_folds:
        return f"{planned}-fold cross-validation"
    return f"{measured.n_folds} of the {planned} folds of a cross-validation"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def build_report(context: ReportContext) -> str:
    """Return the page as HTML with its style, script and figures inside; equal contexts give equal pages."""
    environment, templates = page_templates("pysldl.experiments.report", "the report")
    import markupsafe  # jinja2 needs it, too

    environment.filters["sort_key"] = _sort_key
    environment.filters["inline_svg"] = lambda drawing: markupsafe.Markup(_inline_svg(drawing))
    style, script = page_style(templates / "page.css"), (templates / "sort.js").read_text(encoding="utf-8")
    page: str = environment.get_template("page.html.jinja").render(
        report=context, style=markupsafe.Markup(style), script=markupsafe.Markup(script)
    )
    return page + "\n"


def write_report(context: ReportContext, path: Path) -> Path:
    """Write the page to `path`, replacing an older one only once the new one is complete."""
    return write_atomically(path, build_report(context))


def _sort_key(cell: Cell) -> str:
    """What the script sorts by: the number in full, or the text; empty if there is nothing."""
    if cell.value is None:
        return ""
    return str(cell.value).replace("inf", "Infinity") if isinstance(cell.value, float) else str(cell.value)


def _inline_svg(drawing: Drawing) -> str:
    """Return the drawing for use inside HTML: no XML prolog, and names that no other drawing has.

    Every drawing calls its parts the same; in one document a reference would find the first of them.
    """
    svg = drawing.svg[drawing.svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\1figure-{drawing.name}-", svg)
    return svg.replace("<svg ", '<svg aria-hidden="true" ', 1)
