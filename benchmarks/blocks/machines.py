"""Blocks of docs/reproducibility.md: how far processors, thread counts and a GPU agree."""

from typing import Any

from blocks.evidence import Evidence, Rows, from_record
from blocks.text import NOT_RECORDED, listed, plural, table


@from_record("agreement")
def agreement(found: Rows) -> str:
    """For every preset and set the least agreement over all pairs of settings."""
    presets = list(dict.fromkeys(row["preset"] for row in found.rows))
    datasets = list(dict.fromkeys(row["dataset"] for row in found.rows))
    rows = [
        [preset, *(_cell(found.where(preset=preset, dataset=dataset)) for dataset in datasets)] for preset in presets
    ]
    pairs = {(row["setting"], row["other_setting"]) for row in found.rows}
    settings = sorted({name for pair in pairs for name in pair})
    lowest = min(row["same_five"] for row in found.rows)
    other = [row for row in found.rows if row["same_relations"] is False]
    metrics = [row for row in found.rows if not row["same_printed_metrics"]]
    reading = (
        f"{plural(len(settings), 'setting')} ({listed([f'`{name}`' for name in settings])}), "
        f"{plural(len(pairs), 'pair')}. The lowest share of test rows "
        f"with the same five best labels is {100 * lowest:.2f} %. Label relations differ in {len(other)} and printed "
        f"metrics in {len(metrics)} of "
        f"{len(found.rows)} comparisons."
    )
    return f"{table(['preset', *datasets], rows)}\n\n{reading}"


def _cell(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "–"
    same = sum(bool(row["same_bits"]) for row in rows)
    return f"{100 * min(row['same_five'] for row in rows):.2f} % ({same} of {len(rows)} pairs bit for bit)"


def gpu_agreement(evidence: Evidence) -> str:
    """The same preset fitted on the CPU and on a GPU."""
    found = evidence.rows("gpu_agreement")
    if not found:
        return NOT_RECORDED
    rows = [
        [
            row["preset"],
            row["dataset"],
            f"{row['n_rows']:,}",
            f"{100 * row['same_five']:.1f} %",
            f"{100 * row['same_first']:.1f} %",
            f"{row['largest_metric_difference']:.2f}",
        ]
        for row in found.rows
    ]
    header = [
        "preset",
        "data set",
        "test rows",
        "same five labels",
        "same best label",
        "largest difference of a metric, points",
    ]
    devices = listed(list(dict.fromkeys(row["device_name"] for row in found.rows)))
    return f"{table(header, rows, left=2)}\n\nOn {devices}. {found.source}"


def embedding_digests(evidence: Evidence) -> str:
    """Digests of the trained Gaussians on several machines."""
    found = evidence.rows("embedding_digests")
    if not found:
        return NOT_RECORDED
    rows = [
        [row["dataset"], row["place"], row["numpy"], f"`{row['means']}`", f"`{row['log_variances']}`"]
        for row in found.rows
    ]
    datasets = {row["dataset"] for row in found.rows}
    digests = {(row["dataset"], row["means"], row["log_variances"]) for row in found.rows}
    same = "All agree bit for bit." if len(digests) == len(datasets) else "They do not all agree."
    header = ["data set", "computed on", "NumPy", "digest of the means", "of the log-variances"]
    return f"{table(header, rows, left=5)}\n\n{same} {found.source}"
