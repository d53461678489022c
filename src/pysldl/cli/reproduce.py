"""`sldl reproduce`: run the paper's experiments and write a report."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pysldl.cli._input import parse_numbers, parse_ranges, split_words
from pysldl.cli._output import console, note, print_json, say, table
from pysldl.exceptions import DataError

if TYPE_CHECKING:
    from pysldl.experiments.run.archive import Archive
    from pysldl.experiments.run.protocol import Protocol
    from pysldl.experiments.run.run_folder import Failure, Run
    from pysldl.experiments.run.runner import RunStep
    from pysldl.experiments.stats.results import Agreement, Summary

FAILED = 1
CONTROLS = ("random", "identity")
DEFAULT_METHODS = ("sldl", *CONTROLS)
PRINTED_METRICS = ("P@1", "P@5", "PSP@5")
SECONDS_BETWEEN_LINES = 10


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ExperimentOptions:
    """What is run.

    Parameters
    ----------
    methods : str, optional
        Comma-separated names: sldl, official, blend, without-ge, without-ge-symmetric, without-ac, random, identity,
        svd, or a baseline; or a group: all, ablations, baselines, controls. By default sldl,random,identity; with
        --report-only or --from-export all that were run.
        Settings after colons make a variant, a method beside the others: `AdaC2,AdaC2:learner=svc`.
    datasets : str, optional
        Comma-separated names of the catalog, or data files. By default all of the paper's that are found.
    folds : int
        Number of folds of the cross-validation.
    first_folds : int, optional
        Run only the first so many folds.
    which_folds : str, optional
        Run only these folds, counted from 0, such as 0-4,8, to divide them among machines.
    merge : str, optional
        Comma-separated results folders of other runs with the same settings: what is finished there is copied, and only
        the rest is run.
    stratified : bool
        Iterative stratification: every label keeps its share of rows in every fold.
    c_hats : str, optional
        Latent dimensions to try, comma-separated. By default the paper's: 16,32,...,128.
    n_steps : str, optional
        Numbers of descent steps to try for methods that train an embedding, comma-separated: few steps regularize. All
        of them come from one descent. By default 100,300,1000.
    ks : str, optional
        Neighbor counts to try, comma-separated. By default the paper's: 10,20,...,100.
    validation_rows : int
        Nested selection compares configurations on tenths of the training rows, one after the other, until they hold so
        many rows together.
    data_dir : Path, optional
        Folder with the data sets; default the environment variable PYSLDL_DATA.
    jobs : int
        Number of processes, each with one thread. Results do not depend on it.
    device : str, optional
        Device for baselines that can use one, such as cuda.
    seed : int
        Seed of the folds and of the methods.
    """

    methods: str | None = None
    datasets: str | None = None
    folds: int = 10
    first_folds: int | None = None
    which_folds: str | None = None
    merge: str | None = None
    stratified: bool = False
    c_hats: str | None = None
    n_steps: str | None = None
    ks: str | None = None
    validation_rows: int = 2000
    data_dir: Path | None = None
    jobs: int = 2
    device: str | None = None
    seed: int = 0

    def protocol(self) -> "Protocol":
        """Return the protocol that these options describe."""
        from pysldl.experiments.run.protocol import N_STEPS, PAPER_C_HATS, PAPER_KS, Protocol

        return Protocol(
            n_folds=self.folds,
            seed=self.seed,
            stratified=self.stratified,
            c_hats=parse_numbers(self.c_hats, "--c-hats", PAPER_C_HATS),
            n_steps=parse_numbers(self.n_steps, "--n-steps", N_STEPS),
            ks=parse_numbers(self.ks, "--ks", PAPER_KS),
            validation_rows=self.validation_rows,
        )

    def merged_folders(self) -> list[Path]:
        """Return the results folders to merge."""
        return [Path(word) for word in split_words(self.merge) or ()]

    def chosen_folds(self) -> list[int]:
        """Return the numbers of the folds to run."""
        if self.first_folds is not None and self.which_folds is not None:
            raise DataError("--first-folds and --which-folds both say which folds to run: give one of them.")
        if self.which_folds is not None:
            return parse_ranges(self.which_folds, "--which-folds", self.folds, "fold")
        if self.first_folds is not None and not 1 <= self.first_folds <= self.folds:
            raise DataError(f"--first-folds must lie between 1 and {self.folds}, but is {self.first_folds}.")
        return list(range(self.first_folds or self.folds))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What is shown and written.

    Parameters
    ----------
    metrics : str, optional
        Comma-separated metrics to show. By default the paper's eight.
    selection : {"nested", "as-published"}
        Choose c_hat, n_steps and k on validation parts of the training rows, or by the test folds, as the paper seems
        to have done; the latter is optimistic, is labeled so, and is written to the folder `as-published`.
    unseen : {"paper", "keep", "drop"}
        Test labels that no training row carries: kept in the truth, dropped from it, or dropped only on
        stackex-coffee, as the paper's figures imply. Each table says which.
    published : Path, optional
        The paper's results (columns metric, dataset, method, mean, std), to be shown beside the measured ones.
    check : bool
        Also print every mean beside the published one, and whether SLDL keeps up: no mean 1.5 published deviations
        short, none short on average. Needs --published; exit code 1 if it does not hold.
    report_only : bool
        Run nothing: write tables and figures of what the folder holds. Needs neither the data nor the methods. With
        --merge, what other folders hold is brought into it first.
    export : Path, optional
        Also reduce the results to a few small text files in this folder, for a repository; methods and data sets that
        it has already are replaced, others are kept.
    from_export : Path, optional
        Run nothing: write tables and figures to --out from a folder of --export.
    json : bool
        Print the means and standard deviations, what failed and where the page is, for scripts.
    """

    metrics: str | None = None
    selection: Literal["nested", "as-published"] = "nested"
    unseen: Literal["paper", "keep", "drop"] = "paper"
    published: Path | None = None
    check: bool = False
    report_only: bool = False
    export: Path | None = None
    from_export: Path | None = None
    json: bool = False


def reproduce(
    *,
    out: Path,
    experiment: ExperimentOptions | None = None,
    report: ReportOptions | None = None,
) -> int:
    """Run the paper's experiments and write all tables and figures, and one page that contains them.

    Example: `sldl reproduce --out results/paper --published results.csv`, or
    `sldl reproduce --out results/quick --datasets stackex-chess,cal500 --methods sldl,random --first-folds 2`

    Cross-validation over a grid of c_hat, number of descent steps, and k. Every finished configuration is saved at
    once: stop the run at any time, even by killing it, and the same command resumes it. More methods and data sets may
    be added to a folder later; other settings need another folder.

    Results that depend on the clock lie in `timings/` and on the page; all other tables and figures are the same, byte
    for byte, however many processes and threads made them.

    Parameters
    ----------
    out : Path
        Results folder: folds, records, results.csv, tables (Markdown, LaTeX, CSV), figures, timings, report.html.
    experiment : ExperimentOptions, optional
    report : ReportOptions, optional

    Returns
    -------
    int
        Exit code: 0, or 1 if a method failed or the check does not hold.
    """
    from pysldl.experiments.report.reproduction import write_outputs
    from pysldl.experiments.run.archive import export_results, unseen_as_in_the_paper
    from pysldl.experiments.run.evaluation import find_metrics
    from pysldl.experiments.stats.results import Published, read_published

    experiment, report = experiment or ExperimentOptions(), report or ReportOptions()
    if report.check and report.published is None:
        raise DataError("--check needs --published FILE: the paper's results, to check against.")
    metrics = find_metrics(split_words(report.metrics))
    published = Published() if report.published is None else read_published(report.published)
    archive, absent, failures = _results(out, experiment, report)
    treatment = unseen_as_in_the_paper if report.unseen == "paper" else lambda _: report.unseen
    place = out if report.selection == "nested" else out / "as-published"
    summaries, found = write_outputs(
        archive, place, report.selection, treatment, metrics, published=published, absent=absent, failures=failures
    )
    for failure in failures:
        fold = "" if failure.fold is None else f", fold {failure.fold}"
        note(f"failed: {failure.where}{fold}: {failure.reason}")
    if report.export is not None:
        for path in export_results(out, report.export):
            note(f"wrote {path}")
    holds = _print_check(found, quiet=report.json) if report.check else True
    _print_results(summaries, failures, place / "report.html", holds, report)
    return FAILED if failures or not holds else 0


def _results(
    out: Path, experiment: ExperimentOptions, report: ReportOptions
) -> "tuple[Archive, list[str], list[Failure]]":
    """The results to show, read or measured now; data sets without a local copy; and what failed."""
    from pysldl.experiments.run.archive import Archive
    from pysldl.experiments.run.run_folder import merge_folders, open_run

    if report.from_export is None and not report.report_only:
        run, absent = _run(out, experiment)
        return Archive.of_run(run), absent, run.failures
    if report.from_export is None:
        if experiment.merge is not None:
            note(f"merged {merge_folders(out, experiment.merged_folders())} finished configurations")
        archive = Archive.of_run(open_run(out))
    elif report.report_only or report.export is not None or experiment.merge is not None:
        raise DataError("--from-export reads exported results: leave out --report-only, --export and --merge.")
    else:
        archive = Archive.read(report.from_export)
    return archive.only(split_words(experiment.methods), split_words(experiment.datasets)), [], []


def _run(out: Path, experiment: ExperimentOptions) -> "tuple[Run, list[str]]":
    """Run the experiments with a bar; also the data sets without a local copy."""
    from pysldl.experiments.run.evaluation import configurations
    from pysldl.experiments.run.methods import find_methods
    from pysldl.experiments.run.runner import find_sources, run_experiment

    folds, merge = experiment.chosen_folds(), experiment.merged_folders()
    protocol = experiment.protocol()
    methods = find_methods(split_words(experiment.methods) or DEFAULT_METHODS)
    sources, absent = find_sources(split_words(experiment.datasets), experiment.data_dir)
    started = time.monotonic()
    n_configurations = sum(len(configurations(method, protocol)) for method in methods)
    with _progress(n_configurations, len(folds)) as (plan, step):
        run = run_experiment(
            methods,
            sources,
            protocol,
            out,
            jobs=experiment.jobs,
            device=experiment.device,
            folds=folds,
            merge=merge,
            on_plan=plan,
            on_step=step,
        )
    if run.n_merged:
        note(f"merged {run.n_merged} finished configurations")
    note(f"measured in {_clock(time.monotonic() - started)}; writing tables and figures")
    return run, absent


@contextmanager
def _progress(
    n_configurations: int, n_folds: int
) -> "Iterator[tuple[Callable[[dict[str, float]], None], Callable[[RunStep], None]]]":
    """A bar with the time left, in which data sets count by what they cost; without a terminal a line now and then."""
    terminal = Console(stderr=True)
    said = time.monotonic()
    done = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    columns = (*done, TextColumn("left"), TimeRemainingColumn())
    weights: dict[str, float] = {}
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bars:
        bar = bars.add_task("reading the data", total=None)

        def plan(costs: dict[str, float]) -> None:
            weights.update({name: cost / n_configurations for name, cost in costs.items()})
            bars.update(bar, total=n_folds * sum(costs.values()), description="running")

        def step(done: "RunStep") -> None:
            nonlocal said
            work = weights[done.dataset] * done.n_configurations
            if done.found:  # work of an earlier run says nothing about the speed of this one
                bars.update(bar, total=(bars.tasks[bar].total or work) - work)
            else:
                text = f"{done.method} on {done.dataset}, fold {done.fold}"
                bars.update(bar, advance=work, description=text)
                if not terminal.is_terminal and time.monotonic() - said >= SECONDS_BETWEEN_LINES:
                    said = time.monotonic()
                    task = bars.tasks[bar]
                    note(f"{_clock(task.elapsed or 0)}: {text} is done, {task.percentage:.0f} % of all")

        yield plan, step


def _print_results(
    summaries: "Sequence[Summary]", failures: "Sequence[Failure]", page: Path, holds: bool, report: ReportOptions
) -> None:
    if report.json:
        shown = {"summaries": list(map(asdict, summaries)), "failures": list(map(asdict, failures))}
        print_json(shown | {"check": holds if report.check else None, "report": str(page)})
        return
    if not report.check:
        _print_means(summaries)
    say(f"wrote {page}")


def _print_means(rows: "Sequence[Summary]") -> None:
    """Means and deviations of the metrics that say most: a table for each data set, with a row for each method."""
    cells = {(row.metric, row.dataset, row.method): row for row in rows}
    known = dict.fromkeys(row.metric for row in rows)
    metrics = [metric for metric in PRINTED_METRICS if metric in known] or list(known)[:1]
    for dataset in dict.fromkeys(row.dataset for row in rows):
        listing = table(f"{dataset}, percent", "method", *metrics, numbers=tuple(metrics))
        for method in dict.fromkeys(row.method for row in rows if row.dataset == dataset):
            found = [cells.get((metric, dataset, method)) for metric in metrics]
            listing.add_row(method, *("-" if r is None else f"{r.mean:.2f} ± {r.std or 0.0:.2f}" for r in found))
        console().print(listing)


def _print_check(found: "Sequence[Agreement]", *, quiet: bool = False) -> bool:
    """Every mean beside the published one, the controls' beside it, and the verdict on SLDL."""
    from pysldl.experiments.run.methods import REFERENCE
    from pysldl.experiments.stats.results import verdict

    cells = {(row.dataset, row.metric, row.method): row for row in found}
    methods = [name for name in (REFERENCE, *CONTROLS) if any(row.method == name for row in found)]
    columns = ("published", *methods)
    listing = table("percent (distance in published deviations)", "", *columns, numbers=columns)
    for dataset in dict.fromkeys(row.dataset for row in found):
        listing.add_row(dataset, style="bold")
        for metric in dict.fromkeys(row.metric for row in found if row.dataset == dataset):
            rows = [cells.get((dataset, metric, method)) for method in methods]
            printed = next(row for row in rows if row is not None)
            listing.add_row(
                metric,
                f"{printed.published:.2f} ± {printed.published_std:.2f}",
                *("-" if row is None else f"{row.measured:.2f} ({row.deviations:+.2f})" for row in rows),
            )
    out = Console(quiet=True) if quiet else console()
    out.print(listing)
    holds = False
    for method in methods:
        kept_up, words = verdict([row for row in found if row.method == method])
        out.print(f"{method}: {words}", markup=False, soft_wrap=True)
        holds = kept_up if method == REFERENCE else holds
    return holds


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
