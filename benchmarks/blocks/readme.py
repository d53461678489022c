"""The list of results in README.md, one sentence each, with the command that measures it."""

from statistics import fmean

from blocks import comparison, embedding, reproduction, speed
from blocks.evidence import REFERENCE, Evidence
from blocks.text import listed, plural

METRICS = ("P@1", "P@5", "PSP@5")


def results(evidence: Evidence) -> str:
    """Every sentence whose figures have a record."""
    told = (
        (_row(evidence), "sldl reproduce --published results/published.csv --check"),
        (_ranking(evidence), "the same with `--methods` of [docs/comparison.md](docs/comparison.md)"),
        (_controls(evidence), "the same command, and the ablation in [docs/reproduction.md](docs/reproduction.md)"),
        (_steps(evidence), "python benchmarks/steps.py"),
        (embedding.planted_sentence(evidence), "python benchmarks/planted.py"),
        (speed.peers_sentence(evidence), "python benchmarks/peers/compare.py"),
        (speed.scaling_sentence(evidence), "python benchmarks/scaling.py"),
        (_accurate(evidence), "sldl reproduce --methods accurate"),
        (speed.authors_sentence(evidence), "python benchmarks/authors_way.py"),
    )
    return "\n".join(
        f"- {sentence} ({command if '[' in command else f'`{command}`'})." for sentence, command in told if sentence
    )


def _row(evidence: Evidence) -> str:
    found = reproduction.distances(evidence)
    if not found:
        return ""
    lowest, dataset, metric = min(found)
    sets = len({dataset for _, dataset, _ in found})
    return (
        f"The paper's row for SLDL is reproduced: over {sets} data sets and eight metrics the means lie "
        f"{fmean(d for d, *_ in found):+.2f} published standard "
        f"deviations from the paper's on average, the lowest {lowest:+.2f} ({metric} of {dataset}). Width and neighbors"
        f"{', and the number of steps,' if _chose_steps(evidence) else ''} were chosen on training rows; the start, "
        "the learning rate and the stopping rule were "
        "settled while looking at test folds of four sets, and the number of validation rows after one set had "
        "fallen short"
    )


def _chose_steps(evidence: Evidence) -> bool:
    protocol = evidence.protocol("paper")
    return protocol is not None and len(getattr(protocol, "n_steps", ())) > 1


def _ranking(evidence: Evidence) -> str:
    found = {metric: r for metric, r in comparison.all_ranks(evidence).items() if metric in METRICS}
    if not found:
        return ""
    printed = {row["metric"]: row["average_rank"] for row in evidence.rows("published_ranks").rows}
    sets = max(r.measured.n_datasets for r in found.values())
    firsts = listed([str(r.firsts) for r in found.values()])
    ranks = listed([f"{r.measured.average_ranks[REFERENCE]:.1f}" for r in found.values()])
    theirs = listed([f"{printed[metric]:.1f}" for metric in found])
    ridge = listed(["{} of {}".format(*comparison.ahead_of_sldl(evidence, "ridge", metric)) for metric in found])
    far = comparison.baseline_distances(evidence)
    return (
        f"The paper's ranking is not: with the baselines written anew, SLDL is first on {firsts} of {sets} sets "
        f"({listed(list(found))}), its average rank among "
        f"twelve methods is {ranks} (paper: {theirs}), and plain ridge regression is ahead of it on {ridge} sets. "
        "The baselines are stronger here than published: "
        f"of {plural(far.count, 'mean')} {far.above} lie more than two published deviations above and "
        f"{len(far.below)} below"
    )


def _controls(evidence: Evidence) -> str:
    found = reproduction.differences(evidence, "paper")
    if not found:
        return ""
    told = []
    for variant, name in (("random", "random codes of the same width"), ("identity", "no embedding (the identity)")):
        text, mean = [], []
        for metric in ("text", "rest"):
            of_kind = [
                difference
                for (dataset, m, v), (_, difference, _) in found.items()
                if m == "PSP@5" and v == variant and dataset.startswith("stackex") == (metric == "text")
            ]
            mean.append(
                f"{fmean(of_kind):+.1f} points of PSP@5 on the {'stackex' if metric == 'text' else 'other'} sets"
            )
        ahead, behind, sets, _ = reproduction.tally(found, "PSP@5", variant)
        text.append(f"against {name} {listed(mean)} (significantly ahead on {ahead} of {sets}, behind on {behind})")
        told += text
    behind = [d for (d, m, v), (_, diff, star) in found.items() if (m, v) == ("P@5", "identity") and star and diff < 0]
    note = f"; the identity is significantly ahead on P@5 of {listed(behind)}" if behind else ""
    return f"What its trained Gaussians gain: {'; '.join(told)}{note}"


def _steps(evidence: Evidence) -> str:
    sentence = embedding.steps_sentence(evidence)
    return f"The number of steps of the embedding is a regularizer: {sentence}" if sentence else ""


def _accurate(evidence: Evidence) -> str:
    above, sets = comparison.accurate_counts(evidence)
    return (
        f"`accurate` is above the paper's row for SLDL in the mean of the eight metrics on {above} of {sets} small sets"
        if sets
        else ""
    )
