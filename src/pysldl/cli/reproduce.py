"""`sldl reproduce`: the paper's experiments, from data to one page."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pysldl.cli._output import console, note, print_json, table

if TYPE_CHECKING:
    from pysldl.experiments.run.folder import Failure
    from pysldl.experiments.run.methods import Method
    from pysldl.experiments.run.protocol import Protocol
    from pysldl.experiments.run.runner import Step
    from pysldl.experiments.stats.published import Agreement
    from pysldl.experiments.stats.results import Summary

__all__ = ["reproduce"]

FAILED = 1
CONTROLS = ("random", "identity")
DEFAULT_METHODS = ("sldl", *CONTROLS)
PRINTED_METRICS = ("P@1", "P@5", "PSP@5")
SECONDS_BETWEEN_LINES = 10


def reproduce(
    *,
    out: Path,
    methods: str | None = None,
    datasets: str | None = None,
    metrics: str | None = None,
    folds: int = 10,
    first_folds: int | None = None,
    which_folds: str | None = None,
    merge: str | None = None,
    stratified: bool = False,
    c_hats: str | None = None,
    n_steps: str | None = None,
    ks: str | None = None,
    validation_rows: int = 2000,
    selection: Literal["nested", "as-published"] = "nested",
    unseen: Literal["paper", "keep", "drop"] = "paper",
    published: Path | None = None,
    check: bool = False,
    data_dir: Path | None = None,
    jobs: int = 2,
    device: str | None = None,
    seed: int = 0,
    report_only: bool = False,
    export: Path | None = None,
    from_export: Path | None = None,
    json: bool = False,
) -> int:
    """Run the paper's experiments and write every table and figure, and one page that holds them.

    Example: `sldl reproduce --out results/paper --published results.csv`, or
    `sldl reproduce --out results/quick --datasets stackex-chess,cal500 --methods sldl,random --first-folds 2`

    Cross-validation over a grid of c_hat, number of descent steps, and k. Every finished configuration is on disk at
    once: stop the run whenever you like, also by killing it, and the same command goes on where it stopped. More
    methods and data sets may be added to a folder later; other settings need another folder.

    Parameters
    ----------
    out : Path
        Results folder: folds, records, results.csv, tables (Markdown, LaTeX, CSV), figures, timings, report.html.
    methods : str, optional
        Comma-separated names: sldl, official, blend, without-ge, without-ge-symmetric, without-ac, random, identity,
        svd, or a baseline. By default sldl,random,identity; with --report-only or --from-export all that were run.
        Settings after colons make a variant, a method beside the others: `AdaC2,AdaC2:learner=svc`.
    datasets : str, optional
        Names of the catalog, or data files, with commas between. By default all of the paper's that are found.
    metrics : str, optional
        The ones to show, with commas between. By default the paper's eight.
    folds : int
        Of the cross-validation.
    first_folds : int, optional
        Run only this many of them.
    which_folds : str, optional
        Run only these, counted from 0, such as 0-4,8: to share them out among machines.
    merge : str, optional
        Results folders of other runs with the same settings, with commas between: what is finished there is taken over,
        and only the rest is run.
    stratified : bool
        Iterative stratification: every label keeps its share of rows in every fold.
    c_hats, ks : str, optional
        Latent dimensions and neighbor counts to try, comma-separated. By default the paper's: 16,32,...,128 and
        10,20,...,100.
    n_steps : str, optional
        Numbers of descent steps to try for methods that train an embedding, comma-separated: few steps regularize. All
        of them come from one descent. By default 100,300,1000.
    validation_rows : int
        Nested selection compares configurations on tenths of the training rows, one after the other, until they hold so
        many rows together.
    selection : {"nested", "as-published"}
        Choose c_hat, n_steps and k on validation parts of the training rows, or by the test folds, as the paper seems
        to have done; the latter is optimiztic, is labeled so, and is written to the folder `as-published`.
    unseen : {"paper", "keep", "drop"}
        Test labels that no training row carries: kept in the truth, dropped from it, or dropped only on
        stackex-coffee, as the paper's figures imply. Each table says which.
    published : Path, optional
        The paper's results (columns metric, dataset, method, mean, std), to be shown beside the measured ones.
    check : bool
        Also print every mean beside the published one, and whether SLDL keeps up: no mean 1.5 published deviations
        short, none short on average. Needs --published; exit code 1 where it does not hold.
    data_dir : Path, optional
        Folder with the data sets; default the environment variable PYSLDL_DATA.
    jobs : int
        Processes, each on one thread. Results do not depend on it.
    device : str, optional
        For baselines that can use one, such as cuda.
    seed : int
        Of folds and methods.
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

    Results that depend on the clock lie in `timings/` and on the page; all other tables and figures are the same, byte
    for byte, however many processes and threads made them.

    Returns
    -------
    int
        Exit code: 0, or 1 where a method failed or the check does not hold.
    """
    from pysldl.exceptions import DataError
    from pysldl.experiments.report import Published
    from pysldl.experiments.report.outputs import write_outputs
    from pysldl.experiments.run.archive import Archive, export_results, unseen_as_in_the_paper
    from pysldl.experiments.run.folder import open_run
    from pysldl.experiments.run.merge import merge_folders
    from pysldl.experiments.run.methods import find_methods
    from pysldl.experiments.run.protocol import N_STEPS, PAPER_C_HATS, PAPER_KS, Protocol
    from pysldl.experiments.run.runner import find_sources, run_experiment
    from pysldl.experiments.run.scoring import find_metrics
    from pysldl.experiments.stats.published import read_published

    if check and published is None:
        raise DataError("--check needs --published FILE: the paper's results, to check against.")
    if from_export is not None and (report_only or export is not None or merge is not None):
        raise DataError("--from-export reads exported results: leave out --report-only, --export and --merge.")
    shown = find_metrics(None if metrics is None else _words(metrics))
    printed = Published() if published is None else read_published(published)
    merged = [] if merge is None else [Path(word) for word in _words(merge)]
    asked = {
        "methods": None if methods is None else _words(methods),
        "datasets": None if datasets is None else _words(datasets),
    }
    absent: list[str] = []
    failures: list[Failure] = []
    if from_export is not None:
        archive = Archive.read(from_export).only(**asked)
    elif report_only:
        if merged:
            note(f"took {merge_folders(out, merged)} finished configurations over")
        archive = Archive.of_run(open_run(out)).only(**asked)
    else:
        protocol = Protocol(
            n_folds=folds,
            seed=seed,
            stratified=stratified,
            c_hats=PAPER_C_HATS if c_hats is None else _numbers(c_hats, "--c-hats"),
            n_steps=N_STEPS if n_steps is None else _numbers(n_steps, "--n-steps"),
            ks=PAPER_KS if ks is None else _numbers(ks, "--ks"),
            validation_rows=validation_rows,
        )
        chosen = find_methods(asked["methods"] or DEFAULT_METHODS)
        chosen_folds = _folds(first_folds, which_folds, folds)
        sources, absent = find_sources(asked["datasets"], data_dir)
        started = time.monotonic()
        with _progress(_configurations(chosen, protocol), len(chosen_folds)) as (plan, step):
            run = run_experiment(
                chosen,
                sources,
                protocol,
                out,
                jobs=jobs,
                device=device,
                folds=chosen_folds,
                merge=merged,
                on_plan=plan,
                on_step=step,
            )
        if run.n_taken:
            note(f"took {run.n_taken} finished configurations over")
        note(f"measured in {_clock(time.monotonic() - started)}; writing tables and figures")
        archive, failures = Archive.of_run(run), run.failures
    mode = unseen_as_in_the_paper if unseen == "paper" else lambda _: unseen
    place = out if selection == "nested" else out / "as-published"
    results, found = write_outputs(
        archive, place, selection, mode, shown, published=printed, absent=absent, failures=failures
    )
    for failure in failures:
        fold = "" if failure.fold is None else f", fold {failure.fold}"
        note(f"failed: {failure.where}{fold}: {failure.reason}")
    if export is not None:
        for path in export_results(out, export):
            note(f"wrote {path}")
    holds = _print_check(found, quiet=json) if check else True
    if json:
        print_json(
            {
                "summaries": [asdict(row) for row in results.summaries],
                "failures": [asdict(failure) for failure in failures],
                "check": holds if check else None,
                "report": str(place / "report.html"),
            }
        )
    else:
        if not check:
            _print_means(results.summaries)
        console().print(f"wrote {place / 'report.html'}", markup=False, soft_wrap=True)
    return FAILED if failures or not holds else 0


@contextmanager
def _progress(
    n_configurations: int, n_folds: int
) -> "Iterator[tuple[Callable[[dict[str, float]], None], Callable[[Step], None]]]":
    """A bar with the time left, in which data sets count by what they cost; without a terminal a line now and then."""
    terminal = Console(stderr=True)
    said = time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    weights: dict[str, float] = {}
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bars:
        bar = bars.add_task("reading the data", total=None)

        def plan(costs: dict[str, float]) -> None:
            weights.update({name: cost / n_configurations for name, cost in costs.items()})
            bars.update(bar, total=n_folds * sum(costs.values()), description="running")

        def step(done: "Step") -> None:
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


def _configurations(methods: "Sequence[Method]", protocol: "Protocol") -> int:
    from pysldl.experiments.run.evaluation import configurations

    return sum(len(configurations(method, protocol)) for method in methods)


def _print_means(rows: "Sequence[Summary]") -> None:
    """Means and deviations, a table for each of the metrics that say most."""
    cells = {(row.metric, row.dataset, row.method): row for row in rows}
    known = dict.fromkeys(row.metric for row in rows)
    methods = tuple(dict.fromkeys(row.method for row in rows))
    for metric in [metric for metric in PRINTED_METRICS if metric in known] or list(known)[:1]:
        listing = table(f"{metric}, percent", "data set", *methods, numbers=methods)
        for dataset in dict.fromkeys(row.dataset for row in rows):
            found = [cells.get((metric, dataset, method)) for method in methods]
            listing.add_row(
                dataset, *("-" if row is None else f"{row.mean:.2f} ± {row.std or 0.0:.2f}" for row in found)
            )
        console().print(listing)


def _print_check(found: "Sequence[Agreement]", *, quiet: bool = False) -> bool:
    """Every mean beside the published one, the controls' beside it, and the verdict on SLDL."""
    from pysldl.experiments.run.methods import REFERENCE
    from pysldl.experiments.stats.published import verdict

    cells = {(row.dataset, row.metric, row.method): row for row in found}
    methods = [name for name in (REFERENCE, *CONTROLS) if any(row.method == name for row in found)]
    columns = ("published", *methods)
    listing = table("per cent (distance in published deviations)", "", *columns, numbers=columns)
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


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str, option: str) -> tuple[int, ...]:
    from pysldl.exceptions import DataError

    try:
        return tuple(int(word) for word in _words(text))
    except ValueError:
        raise DataError(f"{option} must be whole numbers with commas between, but is {text!r}.") from None


def _folds(first: int | None, which: str | None, n_folds: int) -> list[int]:
    """Numbers of the folds to run."""
    from pysldl.cli._input import parse_ranges
    from pysldl.exceptions import DataError

    if first is not None and which is not None:
        raise DataError("--first-folds and --which-folds both say which folds to run: give one of them.")
    if which is not None:
        return parse_ranges(which, "--which-folds", n_folds, "fold")
    if first is not None and not 1 <= first <= n_folds:
        raise DataError(f"--first-folds must lie between 1 and {n_folds}, but is {first}.")
    return list(range(first or n_folds))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
