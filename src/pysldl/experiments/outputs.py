"""What a finished run leaves behind: tables, figures, the page, and the comparison with the paper."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pysldl.experiments.methods import ABLATION, REFERENCE
from pysldl.experiments.published import Agreement, agreements, write_comparison
from pysldl.experiments.report import Measurements, Missing, Published, reproduction_context, write_reproduction
from pysldl.experiments.results import FoldRecord, Selection, Summary, TheoremTerms, Unseen, summarise, write_summaries
from pysldl.experiments.runner import Failure, Run
from pysldl.experiments.scoring import PAPER_METRICS
from pysldl.experiments.selection import finished_folds, fold_records, parameter_curve, select, terms_of

__all__ = ["Results", "collect", "unseen_as_in_the_paper", "write_outputs"]

CURVE_METRICS = ("P@1", "P@5")
# The paper's propensity-scored figures for this set can only be reached without unseen labels.
DROPPED_IN_THE_PAPER = ("stackex-coffee",)


@dataclass(frozen=True)
class Results:
    """Measured results of a run, one configuration a fold.

    Parameters
    ----------
    selection : {"nested", "as-published"}
        How the configurations were chosen.
    measurements : Measurements
    summaries : list of Summary
        Of the methods with all their folds.
    """

    selection: Selection
    measurements: Measurements
    summaries: list[Summary]


def unseen_as_in_the_paper(dataset: str) -> Unseen:
    """What the paper must have done with test labels that no training row carries."""
    return "drop" if dataset in DROPPED_IN_THE_PAPER else "keep"


def collect(
    run: Run,
    selection: Selection,
    unseen: Callable[[str], Unseen],
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
    records: list[FoldRecord] = []
    terms: list[TheoremTerms] = []
    curves: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {
        (parameter, metric): {} for parameter in ("c_hat", "k") for metric in CURVE_METRICS
    }
    n_folds = len(run.folds)
    for dataset in run.datasets:
        mode = unseen(dataset)
        of_dataset = [record for record in run.folder.records(dataset) if record.fold in run.folds]
        for method in run.methods:
            folds = finished_folds(of_dataset, method, run.folder.protocol)
            chosen = select(folds, selection, mode)
            shown = fold_records(chosen, method.title, selection, mode)
            records += (replace(record, metrics={m: record.metrics[m] for m in metrics}) for record in shown)
            measured = terms_of(chosen, method.title) if len(chosen) == n_folds else None
            terms += [measured] if measured is not None else []
            if method.title == REFERENCE and len(chosen) == n_folds:
                for (parameter, metric), of_parameter in curves.items():
                    if curve := parameter_curve(folds, parameter, metric, mode):
                        of_parameter[dataset] = curve
    whole = [row for row in summarise(records) if row.n_folds == n_folds]
    drawn = {key: of_parameter for key, of_parameter in curves.items() if of_parameter}
    present = {record.method for record in records}
    variants = [title for title in ABLATION if title in present]
    shown_as = {method.title: method.shown_as for method in run.methods if method.shown_as != method.title}
    return Results(selection, Measurements(records, n_folds, variants, terms, drawn, shown_as), whole)


def write_outputs(
    run: Run, results: Results, published: Published, absent: Sequence[str], place: Path
) -> list[Agreement]:
    """Write everything that is made from the records: results.csv, comparison.csv, tables, figures and the page.

    Parameters
    ----------
    run : Run
    results : Results
    published : Published
        Empty where the paper's tables are not at hand.
    absent : sequence of str
        Data sets without a local copy.
    place : Path
        Folder to write to.

    Returns
    -------
    list of Agreement
        Measured beside published means.
    """
    folder = run.folder
    write_summaries(place / "results.csv", results.summaries)
    found = agreements(published.results, results.summaries, REFERENCE)
    if found:
        write_comparison(found, place / "comparison.csv")
    context = reproduction_context(
        results.measurements,
        published,
        missing=[*_absent(absent), *_failed(run.failures)],
        settings={"selection": results.selection, **_readable(folder.protocol.as_json())},
        versions=folder.versions,
        reference=REFERENCE,
    )
    write_reproduction(context, place)
    return found


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
