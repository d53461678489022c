"""What a finished run leaves behind: tables, figures, the page, and the comparison with the paper."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pysldl.experiments.report import Missing, Published, reproduction_context, write_reproduction
from pysldl.experiments.run.archive import Archive, Results, export_results, read_export, unseen_as_in_the_paper
from pysldl.experiments.run.folder import Failure, Run
from pysldl.experiments.run.methods import REFERENCE
from pysldl.experiments.run.scoring import PAPER_METRICS
from pysldl.experiments.stats.published import Agreement, agreements, write_comparison
from pysldl.experiments.stats.results import Selection, Unseen, write_summaries

__all__ = ["Results", "collect", "export_results", "read_export", "unseen_as_in_the_paper", "write_outputs"]

NOTHING_PUBLISHED = Published()


def collect(
    run: Run,
    selection: Selection,
    unseen: Callable[[str], Unseen] = unseen_as_in_the_paper,
    metrics: Sequence[str] = PAPER_METRICS,
) -> Results:
    """Choose a configuration a fold and gather what tables and figures show.

    Parameters
    ----------
    run : Run
    selection : {"nested", "as-published"}
    unseen : callable
        From the name of a data set to ``"keep"`` or ``"drop"``.
    metrics : sequence of str
        The ones to show; configurations are chosen by all eight.
    """
    return Archive.of_run(run).results(selection, unseen, metrics)


def write_outputs(
    archive: Archive,
    place: Path,
    selection: Selection = "nested",
    unseen: Callable[[str], Unseen] = unseen_as_in_the_paper,
    metrics: Sequence[str] = PAPER_METRICS,
    *,
    published: Published = NOTHING_PUBLISHED,
    absent: Sequence[str] = (),
    failures: Sequence[Failure] = (),
) -> tuple[Results, list[Agreement]]:
    """Write everything that is made from the records: results.csv, comparison.csv, tables, figures, times and the page.

    What depends on the clock or on the machine lies in ``timings`` and on the page. All other files are the same,
    byte for byte, whenever the numbers are.

    Parameters
    ----------
    archive : Archive
        Of a run, or read from an export.
    place : Path
        Folder to write to.
    selection, unseen, metrics
        As in :func:`collect`.
    published : Published
        Empty where the paper's tables are not at hand.
    absent : sequence of str
        Data sets without a local copy.
    failures : sequence of Failure

    Returns
    -------
    results : Results
    found : list of Agreement
        Measured beside published means.
    """
    results = archive.results(selection, unseen, metrics)
    write_summaries(place / "results.csv", results.summaries)
    found = agreements(published.results, results.summaries, REFERENCE)
    if found:
        write_comparison(found, place / "comparison.csv")
    context = reproduction_context(
        results.measurements,
        published,
        missing=[*_absent(absent), *_failed(failures)],
        settings={"selection": selection, **_readable(archive.protocol.as_json())},
        versions=_together(archive.runs),
        reference=REFERENCE,
    )
    write_reproduction(context, place)
    return results, found


def _together(runs: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Where all runs were made: every value that occurs, once."""
    names = dict.fromkeys(name for noted in runs.values() for name in noted)
    values = {name: dict.fromkeys(noted.get(name, "") for noted in runs.values()) for name in names}
    return {name: "; ".join(value for value in found if value) for name, found in values.items()}


def _readable(settings: dict[str, Any]) -> dict[str, str]:
    return {key: ", ".join(map(str, v)) if isinstance(v, list) else str(v) for key, v in settings.items()}


def _absent(names: Sequence[str]) -> list[Missing]:
    return [Missing(f"data set {name}", "no local copy was found") for name in names]


def _failed(failures: Sequence[Failure]) -> list[Missing]:
    """One entry a method and data set, however many folds failed."""
    grouped: dict[str, list[Failure]] = {}
    for failure in failures:
        grouped.setdefault(failure.where, []).append(failure)
    missing = []
    for where, group in grouped.items():
        folds = ", ".join(str(failure.fold) for failure in group if failure.fold is not None)
        missing.append(Missing(where, f"failed{' in fold ' + folds if folds else ''}: {group[0].reason}"))
    return missing
