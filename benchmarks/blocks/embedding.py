"""Blocks about what the label embedding learns: planted directions, steps, trained against random codes."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

import numpy as np

from blocks.evidence import Evidence, Rows, from_record
from blocks.text import NOT_RECORDED, listed, number, table
from pysldl.experiments.stats.significance import paired_p_value

STEP_METRIC = "PSP@5"
GAUSSIANS = ("trained", "trained, truncated rankings", "fifty steps at 1e-3")


def planted(evidence: Evidence) -> str:
    """Which planted directions are known, and how sure they are."""
    found = evidence.rows("planted")
    if not found:
        return NOT_RECORDED
    header = [
        "method",
        "answers",
        "direction, mean",
        "lowest",
        "parent in nearest 3, mean",
        "lowest",
        "median rank of the parent",
    ]
    if found.earlier:
        rows = [
            [
                f"{r['worlds']}: {r['schedule']}, {r['cooccurrence']}",
                str(r["fits"]),
                *(number(r[key]) for key in ("direction_mean", "direction_lowest", "near_mean", "near_lowest")),
                number(r["parent_rank_median"]),
            ]
            for r in found.rows
        ]
        return f"{table(header, rows)}\n\n{found.source}"
    parts = []
    known = [
        [
            name,
            str(len(some)),
            *_mean_and_lowest(some, "direction"),
            *_mean_and_lowest(some, "near"),
            number(median(row["rank"] for row in some)),
        ]
        for name, some in _groups(found, "known").items()
    ]
    parts.append(table(header, known))
    header = ["how sure is a direction?", "answers"]
    header += [
        title
        for name in ("right", "called sure at 95 %", "right of those called sure")
        for title in (f"{name}, mean", "lowest")
    ]
    sure = [
        [
            name,
            str(len(some)),
            *(c for column in ("direction", "sure", "right_of_sure") for c in _mean_and_lowest(some, column)),
        ]
        for name, some in _groups(found, "sure").items()
    ]
    parts.append(table(header, sure))
    said = [
        [name, *(f"{sum(row[column] for row in some):,}" for column in ("said", "said_and_planted", "planted"))]
        for name, some in _groups(found, "implies").items()
    ]
    if said:
        parts.append(table(["pairs of labels", "called an implication", "of these planted", "planted in all"], said))
    return "\n\n".join((*parts, found.source))


def planted_sentence(evidence: Evidence) -> str:
    """What trained Gaussians and counts know of planted directions, worst worlds included."""
    found = evidence.rows("planted")
    if not found:
        return ""
    if found.earlier:
        trained = [r for r in found.rows if r["schedule"] == "trained"]
        short = [r for r in found.rows if r["schedule"].startswith("fifty")]
        means, lowest = [r["direction_mean"] for r in trained], min(r["direction_lowest"] for r in trained)
        after = [r["direction_mean"] for r in short]
        return (
            f"Trained Gaussians know the direction of {min(means):.0f} to {max(means):.0f} % of the implications "
            "planted in synthetic labels, by world "
            f"and weighting (lowest of all fits {lowest:.0f} %; the generator's defaults were chosen while looking "
            f"at this figure); after the fifty steps of the authors' code it is {min(after):.0f} to "
            f"{max(after):.0f} %"
        )
    told = []
    for setting in dict.fromkeys(row["setting"] for row in found.rows):
        trained = found.where(table="known", setting=setting, method="trained")
        short = found.where(table="known", setting=setting, method=GAUSSIANS[2])
        sure = found.where(table="sure", setting=setting, method="counts of rows")
        if trained and short:
            told.append(
                f"in the {setting} worlds {100 * fmean(r['direction'] for r in trained):.1f} % (lowest fit "
                f"{100 * min(r['direction'] for r in trained):.1f} %), after the fifty steps of the authors' code "
                f"{100 * fmean(r['direction'] for r in short):.1f} %"
            )
        right = [r["right_of_sure"] for r in sure if r["right_of_sure"] is not None]
        if sure and right:
            told.append(
                f"counts of rows call {100 * fmean(r['sure'] for r in sure):.1f} % of the directions sure at 95 % "
                "there, of which "
                f"{100 * fmean(right):.1f} % are right"
            )
    return f"Directions planted in synthetic labels that trained Gaussians know: {'; '.join(told)}" if told else ""


def _groups(found: Rows, name: str) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in found.where(table=name):
        weighting = f", {row['cooccurrence']}" if row.get("cooccurrence") else ""
        groups.setdefault(f"{row['setting']} worlds: {row['method']}{weighting}", []).append(row)
    return groups


def _mean_and_lowest(rows: Sequence[dict[str, Any]], column: str) -> tuple[str, str]:
    known = [100 * row[column] for row in rows if row[column] is not None]
    return (number(fmean(known)), number(min(known))) if known else ("none", "none")


@from_record("trained_vs_random")
def trained_vs_random(found: Rows) -> str:
    """Means, the difference and the p-value of a t-test paired over the folds."""
    header = ["data set", "metric", "random", "trained", "difference", "p"]
    rows = []
    if found.earlier:
        for r in found.rows:
            beside = f"{number(r['difference'], 2, signed=True)} ± {number(r['deviation'], 2)}"
            rows.append(
                [r["dataset"], r["metric"], number(r["random"], 2), number(r["trained"], 2), beside, number(r["p"], 3)]
            )
    else:
        for dataset in dict.fromkeys(row["dataset"] for row in found.rows):
            for metric in ("P@1", "P@5", "nDCG@5", "PSP@1", "PSP@5"):
                values = {
                    name: {row["fold"]: row[metric] for row in found.where(dataset=dataset, embedding=name)}
                    for name in ("trained", "random")
                }
                folds = sorted(values["trained"].keys() & values["random"].keys())
                trained, random = ([values[name][fold] for fold in folds] for name in ("trained", "random"))
                gap = np.subtract(trained, random)
                rows.append(
                    [
                        dataset,
                        metric,
                        number(fmean(random), 2),
                        number(fmean(trained), 2),
                        f"{number(gap.mean(), 2, signed=True)} ± {number(gap.std(ddof=1), 2)}",
                        number(paired_p_value(trained, random), 3),
                    ]
                )
    return table(header, rows, left=2)


@dataclass(frozen=True)
class StepCurve:
    """Mean of a metric over the folds for every number of steps."""

    dataset: str
    c_hat: int
    cooccurrence: str
    points: dict[int, float]

    @property
    def best(self) -> int:
        return max(self.points, key=lambda n_steps: self.points[n_steps])


def step_curves(evidence: Evidence, metric: str = STEP_METRIC) -> list[StepCurve]:
    """One curve for each data set, width and weighting, over the folds that have all its numbers of steps."""
    grouped: dict[tuple[str, int, str], dict[int, list[float]]] = {}
    for row in evidence.rows("steps").rows:
        key = (row["dataset"], row["c_hat"], row["cooccurrence"])
        grouped.setdefault(key, {}).setdefault(row["n_steps"], []).append(row[metric])
    return [
        StepCurve(*key, {n_steps: fmean(values) for n_steps, values in sorted(by_steps.items())})
        for key, by_steps in grouped.items()
    ]


def steps(evidence: Evidence) -> str:
    """Accuracy against the number of steps, as a table and a figure."""
    curves = step_curves(evidence)
    if not curves:
        return NOT_RECORDED
    numbers = sorted({n_steps for curve in curves for n_steps in curve.points})
    rows = []
    for curve in curves:
        cells = []
        for n_steps in numbers:
            text = number(curve.points.get(n_steps), 2)
            cells.append(f"**{text}**" if n_steps == curve.best else text)
        rows.append([curve.dataset, f"{curve.c_hat}, {curve.cooccurrence}", *cells])
    found = evidence.rows("steps")
    folds = len({row["fold"] for row in found.rows})
    best = listed([f"{curve.best:,} ({curve.dataset}, {curve.c_hat}, {curve.cooccurrence})" for curve in curves])
    header = ["data set", "c_hat, links", *("random" if n == 0 else f"{n:,} steps" for n in numbers)]
    return (
        f"{table(header, rows, left=2)}\n\n"
        f"![{STEP_METRIC} against the number of steps](figures/steps.svg)\n\n"
        f"{STEP_METRIC} on validation rows in percent, mean of {folds} folds. The best number of steps is "
        f"{best}.\n\n{found.source}"
    )


def steps_sentence(evidence: Evidence) -> str:
    """One sentence for the README."""
    curves = step_curves(evidence)
    if not curves:
        return ""
    widths = sorted({curve.c_hat for curve in curves})
    told = []
    for width in widths:
        best = sorted({curve.best for curve in curves if curve.c_hat == width})
        told.append(f"{listed([f'{n:,}' for n in best], 'or')} at width {width}")
    return f"the best number of steps on validation rows is {listed(told)}"
