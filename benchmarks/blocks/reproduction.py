"""Blocks of docs/reproduction.md: the paper's row for SLDL, its controls and the ablation."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from blocks.evidence import ABLATION_RUN, DATASETS, METRICS, REFERENCE, Evidence, Mean
from blocks.text import NOT_RECORDED, listed, number, plural, table
from pysldl.experiments.stats.results import LARGEST_SHORTFALL, agreements
from pysldl.experiments.stats.significance import compare_folds

ALPHA = 0.05
SHOWN = ("P@5", "PSP@5")
VARIANTS = {
    "paper": ("random", "identity"),
    ABLATION_RUN: ("w/o GE", "w/o GE (symmetric)", "w/o AC", "random", "identity"),
}
# One difference of a variant on a data set: the mean of SLDL, what it is ahead, and whether that is significant.
Difference = tuple[float, float, bool]


def settings(evidence: Evidence, run: str = "paper") -> str:
    """The grid and the validation rows, in one sentence."""
    protocol = evidence.protocol(run)
    if protocol is None:
        c_hats = "128" if run == ABLATION_RUN else "16, 32, ..., 128"
        return (
            f"10 folds; c_hat in {c_hats}, k in 10, 20, ..., 100, at most 1,000 steps, chosen on 2,000 training rows."
        )
    grid = f"c_hat in {_grid(protocol.c_hats)}, n_steps in {_grid(protocol.n_steps)}, k in {_grid(protocol.ks)}"
    return (
        f"{protocol.n_folds} folds; {grid}, chosen in each fold on as many tenths of its training rows as hold "
        f"{protocol.validation_rows:,} rows."
    )


def ablation_settings(evidence: Evidence) -> str:
    return settings(evidence, evidence.ablation_run)


def agreement(evidence: Evidence) -> str:
    """Means of SLDL beside their distances from the published ones, in published deviations."""
    rows = []
    for dataset in DATASETS:
        cells = [_distance(evidence, dataset, metric) for metric in METRICS]
        if any(cell is not None for cell in cells):
            told = ("–" if c is None else f"{c[0]:.2f} ({number(c[1], 1, signed=True)})" for c in cells)
            rows.append([dataset, *told])
    return f"{table(['data set', *METRICS], rows)}\n\n{_source(evidence, 'paper', 'reproduction')}"


def distances(evidence: Evidence, method: str = REFERENCE) -> list[tuple[float, str, str]]:
    """Distance of every mean from the published one of SLDL in published deviations, with data set and metric."""
    found = [(_distance(evidence, d, m, method), d, m) for d in DATASETS for m in METRICS]
    return [(cell[1], dataset, metric) for cell, dataset, metric in found if cell is not None]


def reproduced(found: Sequence[tuple[float, str, str]]) -> str:
    """Whether no mean falls far short and the average is not below the paper's, by the rule of ``--check``."""
    holds = min(found)[0] > -LARGEST_SHORTFALL and fmean(distance for distance, *_ in found) >= 0
    return "reproduced" if holds else "reproduced in part"


def selections(evidence: Evidence) -> str:
    """Average and lowest distance from the published means of SLDL, for both ways of choosing a configuration."""
    if evidence.export("paper") is None:
        found = evidence.earlier("selections")
        cells = {(r["selection"], r["method"]): (r["average_deviations"], r["lowest_deviations"]) for r in found.rows}
    else:
        cells = {}
        for selection in ("nested", "as-published"):
            by_method: dict[str, list[float]] = {}
            for one in agreements(evidence.published, evidence.export("paper", selection).summaries, REFERENCE):
                by_method.setdefault(one.method, []).append(one.deviations)
            cells |= {(selection, name): (fmean(values), min(values)) for name, values in by_method.items()}
    if not cells:
        return NOT_RECORDED
    methods = [m for m in (REFERENCE, "random", "identity") if any(name == m for _, name in cells)]
    rows = [
        [selection, *(f"{a:+.2f} ({low:+.2f})" for a, low in (cells[selection, method] for method in methods))]
        for selection in ("nested", "as-published")
    ]
    return f"{table(['selection', *methods], rows)}\n\n{_source(evidence, 'paper', 'selections')}"


def controls(evidence: Evidence) -> str:
    return _differences_table(evidence, "paper")


def ablation(evidence: Evidence) -> str:
    return _differences_table(evidence, ABLATION_RUN)


def theorem(evidence: Evidence) -> str:
    """The two terms of Theorem 1 for every data set and variant, and on how many sets random codes have less."""
    name = evidence.ablation_run if evidence.export(evidence.ablation_run) is not None else "paper"
    export = evidence.export(name)
    if export is None or not export.terms:
        return NOT_RECORDED
    terms = {(term.dataset, term.method): term for term in export.terms}
    methods = list(dict.fromkeys(method for _, method in terms))
    rows = []
    for dataset in DATASETS:
        found = [terms.get((dataset, method)) for method in methods]
        if any(found):
            cells = (
                "–" if t is None else f"{t.embedding_error:.2f} + {t.regression_error:.2f} ({t.b:.2f})" for t in found
            )
            rows.append([dataset, *cells])
    both = [
        dataset
        for dataset in DATASETS
        if (ours := terms.get((dataset, REFERENCE))) and (random := terms.get((dataset, "random")))
        if random.embedding_error < ours.embedding_error and random.regression_error < ours.regression_error
    ]
    compared = sum((dataset, REFERENCE) in terms and (dataset, "random") in terms for dataset in DATASETS)
    reading = (
        f"Both terms are smaller for random codes than for the trained Gaussians on {len(both)} of {compared} sets"
        f"{f' ({listed(both)})' if both else ''}: a smaller bound does not mean a better ranking, and the theorem "
        "does not "
        "explain what training the embedding gains."
    )
    return f"{table(['data set', *methods], rows)}\n\n{reading}\n\n{evidence.export_source(name)}"


def crash_recovery(evidence: Evidence) -> str:
    """How the runs that were killed ended."""
    found = evidence.rows("crash_recovery")
    if not found:
        return NOT_RECORDED
    kills, ends = found.where(event="killed"), found.where(event="ended")
    total, files = found.rows[0]["configurations"], found.rows[0]["files"]
    at = sorted(row["finished"] for row in kills)
    different = sum(row["different"] for row in ends)
    verdict = "byte for byte those of an undisturbed run" if not different else f"different in {different} cases"
    return (
        f"{plural(len(kills), 'kill')} fell with {at[0]} to {at[-1]} of {total} configurations on disk; "
        f"{plural(len(ends), 'run')} got to the end in between and after, and all {files} tables of each were "
        f"{verdict}.\n\n"
        f"{found.source}"
    )


def reading(evidence: Evidence) -> str:
    """What the tables of this page say, in both directions."""
    found = distances(evidence)
    lowest, dataset, metric = min(found)
    points = [
        f"**The paper's row for SLDL is {reproduced(found)}.** The {len(found)} means lie "
        f"{fmean(d for d, *_ in found):+.2f} "
        "published "
        f"deviations from the paper's on average; the lowest is {lowest:+.2f} ({metric} of {dataset}). "
        f"{plural(sum(d > 2 for d, *_ in found), 'mean')} of {len(found)} lie more than two deviations above. "
        "Where it ranks among the baselines is another question: see [comparison.md](comparison.md)."
    ]
    run = differences(evidence, "paper")
    if run:
        points.append(_control_sentence(run, "random", "**Trained Gaussians against random codes of the same width.**"))
        points.append(
            _control_sentence(
                run, "identity", "**No embedding at all** (the identity: a code as wide as there are labels)."
            )
            + " What the embedding buys is a small latent space, 128 numbers for a row at most instead of one for "
            "each label."
        )
    parts = differences(evidence, ABLATION_RUN)
    if parts:
        points.append(_ablation_sentences(evidence, parts))
    return "\n".join(f"- {point}" for point in points)


def differences(evidence: Evidence, run: str) -> dict[tuple[str, str, str], Difference]:
    """What SLDL is ahead of its variants, by data set, metric and variant."""
    export = evidence.export(evidence.ablation_run if run == ABLATION_RUN else run)
    if export is None:
        return {
            (row["dataset"], row["metric"], row["variant"]): (row["sldl"], row["difference"], bool(row["significant"]))
            for row in evidence.earlier("differences").where(run=run)
        }
    means = {(row.dataset, row.metric): row.mean for row in export.summaries if row.method == REFERENCE}
    whole = {(row.dataset, row.method) for row in export.summaries}
    records = [r for r in export.records if (r.dataset, r.method) in whole]
    found = {}
    for metric in METRICS:
        for test in compare_folds(records, metric, REFERENCE):
            if test.method in VARIANTS[run]:
                mean = means[test.dataset, metric]
                found[test.dataset, metric, test.method] = (mean, test.difference, test.p_value < ALPHA)
    return found


def tally(found: dict[tuple[str, str, str], Difference], metric: str, variant: str) -> tuple[int, int, int, float]:
    """On how many sets SLDL is significantly ahead and behind, on how many it was compared, and the mean difference."""
    kept = [cell for (_, m, v), cell in found.items() if (m, v) == (metric, variant)]
    ahead, behind = (sum(star and sign * d > 0 for _, d, star in kept) for sign in (1, -1))
    return ahead, behind, len(kept), fmean(d for _, d, _ in kept) if kept else 0.0


def _control_sentence(found: dict[tuple[str, str, str], Difference], variant: str, title: str) -> str:
    told = []
    for metric in SHOWN:
        ahead, behind, sets, mean = tally(found, metric, variant)
        told.append(
            f"{mean:+.2f} points of {metric} on average over {sets} sets, significantly ahead on {ahead} and behind "
            f"on {behind}"
        )
    behind = [d for (d, m, v), (_, diff, star) in found.items() if v == variant and m == "P@5" and star and diff < 0]
    note = f" (P@5 behind: {listed(behind)})" if behind else ""
    return f"{title} SLDL is {listed(told)}{note}."


def _ablation_sentences(evidence: Evidence, found: dict[tuple[str, str, str], Difference]) -> str:
    printed: dict[str, list[float]] = {}
    theirs = {(row.dataset, row.method): row.mean for row in evidence.published_ablation}
    for (dataset, method), mean in theirs.items():
        if method != REFERENCE and (dataset, REFERENCE) in theirs:
            printed.setdefault(method, []).append(theirs[dataset, REFERENCE] - mean)
    told = []
    for variant in VARIANTS[ABLATION_RUN]:
        ahead, behind, sets, mean = tally(found, "P@5", variant)
        if not sets:
            continue
        rare = tally(found, "PSP@5", variant)
        paper = printed.get("w/o GE" if variant.startswith("w/o GE") else variant)
        beside = f"; the paper prints {min(paper):.1f} to {max(paper):.1f} points of P@5" if paper else ""
        told.append(
            f"{variant}: {mean:+.2f} points of P@5 ({ahead} of {sets} sets significantly ahead, {behind} behind) and "
            f"{rare[3]:+.2f} of PSP@5 ({rare[0]} ahead, {rare[1]} behind){beside}"
        )
    confound = ""
    if not any(variant == "w/o GE" for _, _, variant in found):
        confound = (
            " Of the two forms without Gaussians only the symmetric one is recorded so far. It takes the direction "
            "away with the Gaussians, and it is further behind than random codes on the stackex sets: it does not "
            "show what the Gaussians gain."
        )
    return f"**What each component contributes**, SLDL minus the variant. {'; '.join(told)}.{confound}"


def _differences_table(evidence: Evidence, run: str) -> str:
    found = differences(evidence, run)
    if not found:
        return NOT_RECORDED
    variants = [v for v in VARIANTS[run] if any(name == v for _, _, name in found)]
    datasets = [d for d in DATASETS if any(name == d for name, _, _ in found)]
    header, rows, last = ["data set"], [[dataset] for dataset in datasets], ["significantly ahead / behind"]
    for metric in SHOWN:
        header += [f"{metric}: {REFERENCE}", *(f"ahead of {variant}" for variant in variants)]
        last.append("")
        for row in rows:
            cells = [found.get((row[0], metric, variant)) for variant in variants]
            row.append(next(number(cell[0], 2) for cell in cells if cell))
            row += ("–" if c is None else f"{number(c[1], 2, signed=True)}{'*' if c[2] else ''}" for c in cells)
        last += ("{} / {}".format(*tally(found, metric, variant)[:2]) for variant in variants)
    return f"{table(header, [*rows, last])}\n\n{_source(evidence, run, 'differences')}"


def _distance(evidence: Evidence, dataset: str, metric: str, method: str = REFERENCE) -> tuple[float, float] | None:
    """A measured mean and its distance from the published one of SLDL."""
    mean: Mean | None = evidence.means.get((dataset, method, metric))
    there: Any = evidence.published_means.get((dataset, REFERENCE, metric))
    return None if mean is None or there is None else (mean.mean, (mean.mean - there.mean) / there.std)


def _source(evidence: Evidence, run: str, earlier: str) -> str:
    name = evidence.ablation_run if run == ABLATION_RUN else run
    return evidence.earlier(earlier).source if evidence.export(name) is None else evidence.export_source(name)


def _grid(values: Sequence[int]) -> str:
    steps = {after - before for before, after in pairwise(values)}
    if len(values) > 3 and len(steps) == 1:
        return f"{values[0]}, {values[1]}, ..., {values[-1]}"
    return ", ".join(f"{value:,}" for value in values)
