"""Blocks of docs/comparison.md and docs/baselines.md: SLDL, its controls and the paper's baselines side by side."""

from dataclasses import dataclass
from statistics import fmean

import numpy as np

from blocks.evidence import (
    BASELINES,
    CONTROLS,
    DATASETS,
    EARLIER,
    METRICS,
    PAPER_METHODS,
    REFERENCE,
    Evidence,
    Rows,
    from_record,
)
from blocks.text import NOT_RECORDED, listed, number, table
from pysldl.experiments.stats.results import Scores
from pysldl.experiments.stats.significance import RankTest, compare_folds, rank_test

ROMAN = ("III", "IV", "V", "VI", "VII", "VIII", "IX", "X")
OURS = (REFERENCE, "w/o GE", "w/o AC", "random", "identity", "accurate")
RECONSTRUCTED = "KD-TEA"
FAR = 2.0


def tables(evidence: Evidence) -> str:
    """Tables III to X: mean and deviation of every method on every set, one table for each metric."""
    parts = []
    for roman, metric in zip(ROMAN, METRICS, strict=True):
        methods = [m for m in (*BASELINES, *OURS, *CONTROLS) if _any(evidence, m, metric)]
        if not methods:
            continue
        marks = _marks(evidence, metric)
        rows = []
        for method in methods:
            cells = []
            for dataset in DATASETS:
                mean = evidence.means.get((dataset, method, metric))
                best = mean is not None and mean.mean == _best(evidence, dataset, metric)
                text = evidence.marked(mean, 2, with_std=True)
                cells.append((f"**{text}**" if best else text) + marks.get((dataset, method), ""))
            rows.append([method, *cells])
        parts.append(f"### {metric} (Table {roman})\n\n{table(['method', *DATASETS], rows)}")
    return "\n\n".join(parts) or NOT_RECORDED


def _any(evidence: Evidence, method: str, metric: str) -> bool:
    return any((dataset, method, metric) in evidence.means for dataset in DATASETS)


def _best(evidence: Evidence, dataset: str, metric: str) -> float:
    """The highest mean of SLDL and the baselines."""
    found = (evidence.means.get((dataset, method, metric)) for method in PAPER_METHODS)
    return max(mean.mean for mean in found if mean is not None)


def _marks(evidence: Evidence, metric: str) -> dict[tuple[str, str], str]:
    """Where SLDL is significantly better or worse, paired over the folds."""
    tests = compare_folds(evidence.fold_records(), metric, REFERENCE) if evidence.export_names else []
    marks = {}
    for test in tests:
        sign = "▾" if test.reference_better() else "▴" if test.reference_worse() else ""
        marks[test.dataset, test.method] = sign
    return marks


@dataclass(frozen=True)
class Ranks:
    """Measured ranks of one metric, beside those of the published means on the same sets."""

    measured: RankTest
    published: RankTest
    firsts: int
    earlier: bool

    def of(self, method: str) -> float | None:
        """The average rank of a method, None where it has not all sets."""
        return self.measured.average_ranks.get(method)

    @property
    def n_methods(self) -> int:
        return len(self.measured.average_ranks)


def ranks_of(evidence: Evidence, metric: str) -> Ranks | None:
    """Ranks of SLDL and those of the eleven baselines that have a mean on every set where SLDL has one."""
    datasets = tuple(d for d in DATASETS if (d, REFERENCE, metric) in evidence.means)
    methods = tuple(m for m in PAPER_METHODS if all((d, m, metric) in evidence.means for d in datasets))
    if len(datasets) < 2 or len(methods) < 3:
        return None
    means = np.array([[evidence.means[d, m, metric].mean for m in methods] for d in datasets])
    theirs = np.array([[evidence.published_means[d, m, metric].mean for m in methods] for d in datasets])
    place = methods.index(REFERENCE)
    return Ranks(
        rank_test(Scores(metric, datasets, methods, means)),
        rank_test(Scores(metric, datasets, methods, theirs)),
        int((means[:, place] >= means.max(axis=1)).sum()),
        any(evidence.means[d, m, metric].earlier for d in datasets for m in methods),
    )


def all_ranks(evidence: Evidence) -> dict[str, Ranks]:
    found = {metric: ranks_of(evidence, metric) for metric in METRICS}
    return {metric: ranks for metric, ranks in found.items() if ranks is not None}


def _mean_rank(found: dict[str, Ranks], method: str) -> float:
    """Mean over the metrics on which a method is compared; last where it is on none."""
    known = [rank for rank in (r.of(method) for r in found.values()) if rank is not None]
    return fmean(known) if known else float("inf")


def mostly_first(found: dict[str, Ranks]) -> bool:
    """Whether SLDL is first on more than half of the sets, over the metrics."""
    return fmean(r.firsts / r.measured.n_datasets for r in found.values()) > 0.5


def ranks(evidence: Evidence) -> str:
    """Average ranks, measured and published, and the Friedman test."""
    found = all_ranks(evidence)
    if not found:
        return NOT_RECORDED
    printed = {row["metric"]: row for row in evidence.rows("published_ranks").rows}
    rows = [
        [
            method,
            *(
                "–" if r.of(method) is None else f"{r.of(method):.2f} ({r.published.average_ranks[method]:.2f})"
                for r in found.values()
            ),
        ]
        for method in sorted(PAPER_METHODS, key=lambda m: _mean_rank(found, m))
    ]
    rows += [
        ["methods compared", *(str(r.n_methods) for r in found.values())],
        ["SLDL first on, of sets", *(f"{r.firsts} of {r.measured.n_datasets}" for r in found.values())],
        ["SLDL in the paper, 15 sets", *(number(printed[metric]["average_rank"], 2) for metric in found)],
        [
            "Friedman F_F (critical value)",
            *(f"{r.measured.friedman:.2f} ({r.measured.critical_value:.2f})" for r in found.values()),
        ],
        ["critical difference, Nemenyi", *(number(r.measured.critical_difference, 2) for r in found.values())],
    ]
    note = ""
    if any(r.earlier for r in found.values()):
        note = (
            f"\n\n{EARLIER} Some of the means behind these ranks were measured before records were kept; "
            "the tables mark them."
        )
    missing = [metric for metric in METRICS if metric not in found]
    if missing:
        note += f"\n\nNot all methods have a record of {listed(missing)} on enough sets yet."
    return f"{table(['measured (from the published means of the same sets)', *found], rows)}{note}"


@dataclass(frozen=True)
class Distances:
    """How far means of the baselines lie from their published values, in published deviations."""

    count: int
    above: int
    below: list[str]
    average: float


def baseline_distances(evidence: Evidence) -> Distances:
    found = []
    for (dataset, method, metric), mean in evidence.means.items():
        there = evidence.published_means.get((dataset, method, metric))
        if method in BASELINES and there is not None and there.std:
            found.append(((mean.mean - there.mean) / there.std, f"{method}, {metric} of {dataset}"))
    below = sorted((d, name) for d, name in found if d < -FAR)
    return Distances(
        len(found),
        sum(d > FAR for d, _ in found),
        [f"{name}: {d:+.1f}" for d, name in below],
        fmean(d for d, _ in found) if found else 0.0,
    )


def distances(evidence: Evidence) -> str:
    """How many means of the baselines lie far above and far below the published ones, and which below."""
    found = baseline_distances(evidence)
    if not found.count:
        return NOT_RECORDED
    lines = [
        f"Of {found.count:,} means of the eleven baselines {found.above} lie more than two published deviations above "
        f"the published value and {len(found.below)} more than two below; on average they lie {found.average:+.1f} "
        "deviations from it."
    ]
    lines += [f"- {name}" for name in found.below]
    return "\n".join([lines[0], "", *lines[1:]]) if found.below else lines[0]


def ahead_of_sldl(evidence: Evidence, method: str, metric: str) -> tuple[int, int]:
    """On how many sets a method has a higher mean than SLDL, of how many."""
    pairs = [
        (evidence.means[d, method, metric].mean, evidence.means[d, REFERENCE, metric].mean)
        for d in DATASETS
        if (d, method, metric) in evidence.means and (d, REFERENCE, metric) in evidence.means
    ]
    return sum(other > ours for other, ours in pairs), len(pairs)


def reading(evidence: Evidence) -> str:
    """Which of the paper's conclusions hold with these implementations."""
    found = all_ranks(evidence)
    if not found:
        return NOT_RECORDED
    printed = {row["metric"]: row["average_rank"] for row in evidence.rows("published_ranks").rows}
    firsts = listed([f"{r.firsts} ({metric})" for metric, r in found.items()])
    n_sets = max(r.measured.n_datasets for r in found.values())
    measured = [r.measured.average_ranks[REFERENCE] for r in found.values()]
    ahead = [m for m in BASELINES if _mean_rank(found, m) < fmean(measured)]
    compared = sorted({r.n_methods for r in found.values()})
    among = f"{compared[0]} to {compared[-1]}" if len(compared) > 1 else str(compared[0])
    often = mostly_first(found)
    rejects = [metric for metric, r in found.items() if r.measured.rejects_equality]
    apart = {
        metric: [
            m
            for m, rank in r.measured.mid_ranks.items()
            if rank - r.measured.mid_ranks[REFERENCE] >= r.measured.critical_difference
        ]
        for metric, r in found.items()
    }
    points = [
        f"**Where SLDL ranks.** Of {n_sets} sets it is first on {firsts}; its average rank among {among} methods is "
        f"{min(measured):.1f} to {max(measured):.1f}, where the paper prints {min(printed.values()):.1f} to "
        f"{max(printed.values()):.1f} over its fifteen sets. The paper's conclusion that SLDL is first nearly "
        "everywhere "
        f"{'holds' if often else 'does not hold'} with these implementations of the baselines. "
        + (
            f"Better than SLDL in the mean of the average ranks: {listed(ahead)}."
            if ahead
            else "No baseline has a better mean of the average ranks: each is good on some sets and weak on others."
        ),
        f"**Do the methods differ?** The Friedman test rejects that all are alike on {len(rejects)} of {len(found)} "
        "metrics. By the Nemenyi test SLDL is significantly better than "
        + listed([f"{len(methods)} of {found[metric].n_methods - 1} ({metric})" for metric, methods in apart.items()])
        + " baselines.",
    ]
    told = []
    for control in (*CONTROLS, "random", "identity"):
        counts = {metric: ahead_of_sldl(evidence, control, metric) for metric in ("P@1", "P@5", "PSP@5")}
        if all(total for _, total in counts.values()):
            each = listed([f"{higher} of {total} ({metric})" for metric, (higher, total) in counts.items()])
            told.append(f"`{control}` on {each}")
    if told:
        points.append(f"**Simple controls ahead of SLDL**: {'; '.join(told)}. `ridge` regresses labels on features.")
    both = baseline_distances(evidence)
    points.append(
        f"**The baselines and their published rows**: {both.above} of {both.count:,} means lie more than two published "
        f"deviations above, {len(both.below)} below, {both.average:+.1f} on average. Why is not known: they were "
        "written and tuned by other people here, and the paper does not say how it tuned them."
    )
    return "\n".join(f"- {point}" for point in points)


def training_times(evidence: Evidence) -> str:
    """Seconds to fit one fold with the largest configuration of the grid."""
    seconds: dict[tuple[str, str], list[float]] = {}
    names = []
    for name in evidence.export_names:
        timed = evidence.export(name).timed
        names += [name] if timed else []
        for record in timed:
            seconds.setdefault((record.dataset, record.method), []).append(record.fit_seconds)
    if not seconds:
        return NOT_RECORDED
    methods = [m for m in (*BASELINES, *OURS, *CONTROLS) if any(method == m for _, method in seconds)]
    rows = []
    for method in methods:
        cells = (seconds.get((dataset, method)) for dataset in DATASETS)
        rows.append([method, *("–" if cell is None else number(fmean(cell), 2) for cell in cells)])
    return f"{table(['method', *DATASETS], rows)}\n\n{evidence.export_source(*names)}"


def baselines(evidence: Evidence) -> str:
    """Measured beside published means of the baselines and the controls on three metrics."""
    rows = []
    for dataset in DATASETS:
        for method in (*BASELINES, *CONTROLS):
            if (dataset, method, "P@1") in evidence.means:
                rows.append(_baseline_row(evidence, dataset, method))
    header = ["data set", "method", "folds", "P@1: measured / published", "P@5", "PSP@5", "fit s"]
    if not rows:
        return NOT_RECORDED
    return f"{table(header, rows, left=6)}\n\n{EARLIER} {evidence.earlier('baselines').source}"


def variants(evidence: Evidence) -> str:
    """The same for variants, methods with settings of their own."""
    names = list(
        dict.fromkeys(m for _, m, _ in evidence.means if ":" in m or (" (" in m and m.split(" (")[0] in BASELINES))
    )
    rows = [
        _baseline_row(evidence, dataset, method)
        for method in names
        for dataset in DATASETS
        if (dataset, method, "P@1") in evidence.means
    ]
    header = ["data set", "method", "folds", "P@1: measured / published", "P@5", "PSP@5", "fit s"]
    return (
        f"{table(header, rows, left=6)}\n\n{EARLIER} {evidence.earlier('baselines').source}" if rows else NOT_RECORDED
    )


def _baseline_row(evidence: Evidence, dataset: str, method: str) -> list[str]:
    plain = method.split(":")[0].split(" (")[0]
    cells = []
    for metric in ("P@1", "P@5", "PSP@5"):
        mean, there = (
            evidence.means.get((dataset, method, metric)),
            evidence.published_means.get((dataset, plain, metric)),
        )
        if mean is None:
            cells.append("–")
            continue
        beside = "" if there is None else f" / {there.mean:.2f} ({(mean.mean - there.mean) / (there.std or 1):+.1f})"
        cells.append(f"{mean.mean:.2f}{beside}")
    mean = evidence.means[dataset, method, "P@1"]
    seconds = evidence.fit_seconds.get((dataset, method))
    name = method + (" (reconstruction)" if plain == RECONSTRUCTED else "")
    fit = "" if seconds is None else number(seconds[0], 1)
    return [dataset, name, f"{mean.n_folds}{EARLIER if mean.earlier else ''}", *cells, fit]


def accurate(evidence: Evidence) -> str:
    """``accurate`` beside the paper's row for SLDL."""
    fresh = [m for (_, m, _), mean in evidence.means.items() if m == "accurate" and not mean.earlier]
    header = ["set", "mean of eight, measured", "published", "difference", "P@1: measured / published", "P@5", "PSP@5"]
    rows = []
    old = {row["dataset"]: row for row in evidence.earlier("accurate").rows}
    for dataset in DATASETS:
        theirs = [evidence.published_means[dataset, REFERENCE, metric].mean for metric in METRICS]
        ours = [evidence.means.get((dataset, "accurate", metric)) for metric in METRICS]
        if all(mean is not None for mean in ours):
            mean = fmean(m.mean for m in ours if m is not None)
        elif dataset in old and not fresh:
            mean = float(old[dataset]["mean_of_eight"])
        else:
            continue
        cells = []
        for metric in ("P@1", "P@5", "PSP@5"):
            measured = evidence.means[dataset, "accurate", metric].mean
            cells.append(f"{measured:.1f} / {evidence.published_means[dataset, REFERENCE, metric].mean:.1f}")
        rows.append(
            [dataset, number(mean, 2), number(fmean(theirs), 2), number(mean - fmean(theirs), 2, signed=True), *cells]
        )
    if not rows:
        return NOT_RECORDED
    above = sum(row[3].startswith("+") for row in rows)
    origin = evidence.export_source(*evidence.export_names) if fresh else evidence.earlier("accurate").source
    reading = f"Above the paper's row in the mean of the eight metrics on {above} of {len(rows)} sets."
    return f"{table(header, rows)}\n\n{reading}\n\n{origin}"


def accurate_counts(evidence: Evidence) -> tuple[int, int]:
    """On how many sets ``accurate`` is above the paper's row for SLDL in the mean of the eight metrics."""
    text = accurate(evidence)
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith(tuple(f"| {d} |" for d in DATASETS))]
    return sum(row[3].startswith("+") for row in rows), len(rows)


def on_cores(evidence: Evidence) -> str:
    """The baselines on processor cores, from before records were kept."""
    found = evidence.earlier("baselines_cores")
    if not found:
        return NOT_RECORDED
    sets = list(dict.fromkeys(row["dataset"] for row in found.rows))
    cells = {(row["method"], row["dataset"]): row for row in found.rows}
    rows = [
        [
            method,
            *(f"{c['P@1']} / {c['P@5']}, {c['fit_s']:g} s" for c in (cells[method, dataset] for dataset in sets)),
        ]
        for method in dict.fromkeys(row["method"] for row in found.rows)
    ]
    return f"{table(['P@1 / P@5, seconds to fit a fold', *sets], rows)}\n\n{found.source}"


@from_record("baseline_step")
def step_times(found: Rows) -> str:
    """Milliseconds of a training step of the three heaviest baselines."""
    if found.earlier:
        rows = [[r["method"], r["machine"], r["variant"] or "", number(r["ms"], 0)] for r in found.rows]
    else:
        rows = []
        for r in found.rows:
            rows.append([r["method"], r["processor"], "half" if r["half"] else "", number(1000 * r["seconds"], 0)])
    return table(["method", "machine", "variant", "ms for a step"], rows, left=3)


@from_record("baseline_memory")
def memory(found: Rows) -> str:
    """Peak memory of training the three heaviest baselines."""
    rows = [[r["method"], f"{r['n_labels']:,}", number(r["peak_mb"], 0)] for r in found.rows]
    return table(["method", "labels", "peak MiB"], rows)
