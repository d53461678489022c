"""The list of results in README.md, one sentence each, with the command that measures it."""

from statistics import fmean

from blocks import comparison, embedding, reproduction, speed
from blocks.evidence import EARLIER, REFERENCE, Evidence
from blocks.text import listed, plural

METRICS = ("P@1", "P@5", "PSP@5")
REPRODUCE = "sldl reproduce --published results/published.csv"


def results(evidence: Evidence) -> str:
    """Every sentence whose figures have a record; those of earlier figures are marked."""
    old = {name: evidence.rows(name).earlier for name in ("planted", "scaling", "authors_way", "steps")}
    old["paper"] = evidence.export("paper") is None
    ranks = comparison.all_ranks(evidence)
    old["ranks"] = any(ranks[metric].earlier for metric in METRICS if metric in ranks)
    old["accurate"] = any(mean.earlier for (_, method, _), mean in evidence.means.items() if method == "accurate")
    told = (
        (_row(evidence), f"`{REPRODUCE} --check`", old["paper"]),
        (_ranking(evidence), "the command of [docs/comparison.md](docs/comparison.md)", old["ranks"]),
        (_controls(evidence), "the first command; see [docs/reproduction.md](docs/reproduction.md)", old["paper"]),
        (_steps(evidence), "`python benchmarks/steps.py`", old["steps"]),
        (embedding.planted_sentence(evidence), "`python benchmarks/planted.py`", old["planted"]),
        (speed.scaling_sentence(evidence), "`python benchmarks/scaling.py`", old["scaling"]),
        (_accurate(evidence), f"`{REPRODUCE} --methods accurate`", old["accurate"]),
        (speed.authors_sentence(evidence), "`python benchmarks/authors_way.py`", old["authors_way"]),
    )
    kept = [(sentence, command, earlier) for sentence, command, earlier in told if sentence]
    lines = [f"- {sentence} ({command}).{f' {EARLIER}' if earlier else ''}" for sentence, command, earlier in kept]
    note = f"\n\n{EARLIER} With figures measured before records were kept (`results/earlier`)."
    return "\n".join(lines) + (note if any(earlier for *_, earlier in kept) else "")


def _row(evidence: Evidence) -> str:
    found = reproduction.distances(evidence)
    if not found:
        return ""
    lowest, dataset, metric = min(found)
    average = fmean(distance for distance, *_ in found)
    sets = len({dataset for _, dataset, _ in found})
    chosen = "Width, number of steps and neighbors" if _chose_steps(evidence) else "Width and neighbors"
    return (
        f"The paper's row for SLDL is {reproduction.reproduced(found)}: over {sets} data sets and eight metrics the "
        "means "
        f"lie {average:+.2f} published standard deviations from the paper's on average, the lowest {lowest:+.2f} "
        f"({metric} "
        f"of {dataset}). {chosen} were chosen on training rows. The start, the learning rate and an earlier stopping "
        "rule "
        "were settled while looking at test folds of four sets, and the number of validation rows after one set had "
        "fallen "
        "short"
    )


def _chose_steps(evidence: Evidence) -> bool:
    protocol = evidence.protocol("paper")
    return protocol is not None and len(protocol.n_steps) > 1


def _ranking(evidence: Evidence) -> str:
    found = {metric: r for metric, r in comparison.all_ranks(evidence).items() if metric in METRICS}
    if not found:
        return ""
    printed = {row["metric"]: row["average_rank"] for row in evidence.rows("published_ranks").rows}
    sets = max(r.measured.n_datasets for r in found.values())
    firsts = listed([str(r.firsts) for r in found.values()])
    ranks = listed([f"{r.measured.average_ranks[REFERENCE]:.1f}" for r in found.values()])
    theirs = listed([f"{printed[metric]:.1f}" for metric in found])
    ridge = [comparison.ahead_of_sldl(evidence, "ridge", metric) for metric in found]
    ahead = f"{listed([str(higher) for higher, _ in ridge])} of {max(total for _, total in ridge)}"
    far = comparison.baseline_distances(evidence)
    compared = sorted({r.n_methods for r in found.values()})
    among = f"{compared[0]} to {compared[-1]}" if len(compared) > 1 else str(compared[0])
    return (
        f"The paper's ranking {'holds' if comparison.mostly_first(found) else 'does not hold'}: with the baselines "
        "written "
        f"anew, SLDL is first on {firsts} of {sets} sets ({listed(list(found))}), its average rank among {among} "
        "methods is "
        f"{ranks} (paper: {theirs}), and plain ridge regression is ahead of it on {ahead} sets. Of "
        f"{plural(far.count, 'mean')} of the baselines {far.above} lie more than two published deviations above their "
        f"published values and {len(far.below)} below"
    )


def _controls(evidence: Evidence) -> str:
    found = reproduction.differences(evidence, "paper")
    if not found:
        return ""
    told = []
    for variant, name in (("random", "random codes of the same width"), ("identity", "no embedding (the identity)")):
        means = []
        for kind in ("stackex", "other"):
            gains = [
                gain
                for (dataset, metric, of), (_, gain, _) in found.items()
                if (metric, of) == ("PSP@5", variant) and dataset.startswith("stackex") == (kind == "stackex")
            ]
            means += [f"{fmean(gains):+.1f} on the {kind} sets"] if gains else []
        ahead, behind, sets, _ = reproduction.tally(found, "PSP@5", variant)
        told.append(f"{listed(means)} against {name} (significantly ahead on {ahead} of {sets}, behind on {behind})")
    behind = [d for (d, m, v), (_, diff, star) in found.items() if (m, v) == ("P@5", "identity") and star and diff < 0]
    note = f"; on P@5 the identity is significantly ahead on {listed(behind)}" if behind else ""
    return f"What its trained Gaussians gain in points of PSP@5: {'; '.join(told)}{note}"


def _steps(evidence: Evidence) -> str:
    sentence = embedding.steps_sentence(evidence)
    return f"The number of steps of the embedding is a regularizer: {sentence}" if sentence else ""


def _accurate(evidence: Evidence) -> str:
    above, sets = comparison.accurate_counts(evidence)
    if not sets:
        return ""
    return (
        f"`accurate` is above the paper's row for SLDL in the mean of the eight metrics on {above} of {sets} small "
        "sets, "
        "without a trained embedding"
    )
