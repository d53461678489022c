"""Blocks about time and memory: the authors' way, peers, scaling, a GPU, updates and the service."""

from collections.abc import Iterable, Mapping
from math import log
from statistics import linear_regression, mean, median, stdev
from typing import Any

from blocks.evidence import Evidence, Rows, from_record
from blocks.text import NOT_RECORDED, listed, number, span, table

AUTHORS = "authors' way"
LIKE_FOR_LIKE = 'make_sldl("official")'
PEERS = ("omikuji", "napkinxc", "pecos")
PEER_METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@5")
WORKED = {"train_cpu_s": "train s", "predict_cpu_s": "predict s", "peak_mb": "peak MiB", "model_mb": "model MiB"}
COSTS = {"train_s": "train s", "predict_s": "predict s", "peak_mb": "peak MiB", "model_mb": "model MiB"}
PRESETS = ("fast", "accurate", "latent")
Medians = dict[tuple[str, str], dict[str, float]]  # of figures by name, by data set and system

NOTHING_RAN = 2e-4  # seconds: to ask a stage that is not used is no work


@from_record("authors_way")
def authors_way(found: Rows) -> str:
    """Seconds of both sides, and how many times the authors' way takes."""
    (authors,) = found.where(side=AUTHORS)
    rows = []
    for row in (authors, *(r for r in found.rows if r["side"] != AUTHORS)):
        name = {AUTHORS: "the authors' way", LIKE_FOR_LIKE: f"`{LIKE_FOR_LIKE}`: the same computation"}.get(
            row["side"], f"`{row['side']}`: another problem"
        )
        times = authors["seconds"] / row["seconds"]
        rows.append(
            [
                name,
                *(number(row[key]) for key in ("seconds", "embedding_s", "mapping_s", "decoder_s")),
                number(row["peak_mb"], 0),
                number(row["P@1"]),
                number(times, 0),
            ]
        )
    header = [
        "side",
        "seconds",
        "embedding",
        "mapping",
        "neighbors and votes",
        "peak MiB",
        "P@1",
        "authors' time over it",
    ]
    steps = authors.get("extrapolated_from_steps")
    how = (
        f"The authors' embedding ran for {steps} of its 50 steps; its time is **extrapolated** to 50, and its P@1 is "
        "that of the shorter training."
        if steps
        else "All 50 steps of the authors' embedding were run."
    )
    return f"{table(header, rows)}\n\n{how}"


def authors_sentence(evidence: Evidence) -> str:
    found = evidence.rows("authors_way")
    ours, authors = found.where(side=LIKE_FOR_LIKE), found.where(side=AUTHORS)
    if not ours or not authors:
        return ""
    steps = authors[0].get("extrapolated_from_steps")
    how = f"their time extrapolated from {steps} of 50 steps" if steps else "all 50 of their steps run"
    memory = ours[0]["peak_mb"] / authors[0]["peak_mb"]
    return (
        f"What the authors' code computes, computed by `official`: {authors[0]['seconds'] / ours[0]['seconds']:.0f} "
        f"times faster than written their way, in {memory:.2f} of the "
        f"memory (delicious, one fold, {how})"
    )


def _peer_medians(record: Rows, costs: Iterable[str] = COSTS) -> tuple[Medians, int]:
    """Medians over the runs by data set and system, and the largest number of runs."""
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in record.rows:
        if not row.get("error"):
            grouped.setdefault((row["dataset"], row["system"]), []).append(row)
    medians = {
        key: {name: median(run[name] for run in runs) for name in (*PEER_METRICS, *costs)}
        for key, runs in grouped.items()
    }
    return medians, max((len(runs) for runs in grouped.values()), default=0)


def peers(evidence: Evidence) -> str:
    """Accuracy and costs of all systems on the standard splits."""
    found, runs = _peer_medians(evidence.rows("peers"))
    if not found:
        return NOT_RECORDED
    how = f"Medians of up to {runs} runs in turns. " if runs > 1 else ""
    return (
        f"{_system_table(found, COSTS)}\n\n{how}`accurate` and `fast` contain **no trained label embedding**: "
        "candidates are the labels of rows that are near by features, with few features also those of a linear "
        "read-out, with few rows times labels all. What the embedding does is shown by the rows "
        f'"random codes" and "trained Gaussians".\n\n{evidence.rows("peers").source}'
    )


def _system_table(found: Medians, costs: Mapping[str, str]) -> str:
    rows = [
        [
            dataset,
            f"`{system}`" if system in ("accurate", "fast") else system,
            *(number(values[metric], 2) for metric in PEER_METRICS),
            *(number(values[cost], 0 if cost == "peak_mb" else 1) for cost in costs),
        ]
        for (dataset, system), values in found.items()
    ]
    return table(["set", "system", *PEER_METRICS, *costs.values()], rows, left=2)


def further_sets(evidence: Evidence) -> str:
    """What :func:`peers` shows, on sets that nothing was chosen on before a first look; and that look."""
    record, first = evidence.rows("further_sets"), evidence.rows("further_sets_first")
    if not record or not first:
        return NOT_RECORDED
    found, before = (_peer_medians(rows, WORKED)[0] for rows in (record, first))
    leads, first_leads = _leads(found), _leads(before)
    rows = [
        [
            dataset,
            *(
                text
                for gains in (first_leads[dataset], leads[dataset])
                for text in (_ahead(gains), *(number(gains[metric], 1, signed=True) for metric in PEER_METRICS))
            ),
        ]
        for dataset in leads
    ]
    header = ["set", "ahead at first", *PEER_METRICS, "ahead now", *PEER_METRICS]
    return (
        f"Lead of `accurate` over the best peer on each metric, at the first look and now:\n\n{table(header, rows)}\n\n"
        f"{_system_table(found, WORKED)}\n\nTimes are processor seconds of two threads, since others used the machine "
        f"as well.\n\n{record.source}"
    )


@from_record("further_sets_made")
def further_sets_made(found: Rows) -> str:
    """Sizes of the further sets, and the packages they are made from."""
    rows = [
        [
            r["dataset"],
            f"{r['rows']:,}",
            f"{r['labels']:,}",
            number(r["labels_per_row"], 1),
            r["what"],
            r["package"],
        ]
        for r in found.rows
    ]
    return table(["set", "rows", "labels", "labels a row", "what it is", "package"], rows)


def _leads(found: Medians) -> dict[str, dict[str, float]]:
    """By how much ``accurate`` is ahead of the best peer on each metric, by data set."""
    leads = {}
    for dataset in dict.fromkeys(dataset for dataset, _ in found):
        theirs = [found[dataset, peer] for peer in PEERS if (dataset, peer) in found]
        if (dataset, "accurate") in found and theirs:
            ours = found[dataset, "accurate"]
            leads[dataset] = {metric: ours[metric] - max(one[metric] for one in theirs) for metric in PEER_METRICS}
    return leads


def _ahead(gains: dict[str, float]) -> str:
    return f"{sum(gain > 0 for gain in gains.values())} of {len(gains)}"


def peer_ratios(evidence: Evidence) -> str:
    """``accurate`` beside the best of the three peers, a row for each data set."""
    found, _ = _peer_medians(evidence.rows("peers"))
    rows = []
    for dataset, gains in _leads(found).items():
        theirs = [found[dataset, peer] for peer in PEERS if (dataset, peer) in found]
        ours = found[dataset, "accurate"]
        least = min(gains, key=gains.__getitem__)
        rows.append(
            [
                dataset,
                _ahead(gains),
                f"{number(ours['P@1'], 1)} ({number(gains['P@1'], 1, signed=True)})",
                f"{number(ours['PSP@5'], 1)} ({number(gains['PSP@5'], 1, signed=True)})",
                f"{number(gains[least], 1, signed=True)} ({least})",
                *(number(ours[cost] / min(one[cost] for one in theirs), 2) for cost in COSTS),
            ]
        )
    header = ["set", "ahead on", "P@1 (lead)", "PSP@5 (lead)", "smallest lead"]
    costs = ("training time", "prediction time", "peak memory", "model size")
    return table([*header, *costs], rows) if rows else NOT_RECORDED


def peer_folds(evidence: Evidence) -> str:
    """Mean lead of ``accurate`` over the peer that is best in the mean, with its standard error over the folds."""
    found = evidence.rows("peer_folds")
    rows = []
    for dataset in dict.fromkeys(row["dataset"] for row in found.rows):
        of = {s: {r["fold"]: r for r in found.where(dataset=dataset, system=s)} for s in (*PEERS, "accurate")}
        folds = [fold for fold, row in of["accurate"].items() if not row.get("error")]
        cells = []
        for metric in PEER_METRICS:
            theirs = [
                [of[peer][fold][metric] for fold in folds]
                for peer in PEERS
                if all(fold in of[peer] and not of[peer][fold].get("error") for fold in folds)
            ]
            best = max(theirs, key=mean)
            gains = [of["accurate"][fold][metric] - value for fold, value in zip(folds, best, strict=True)]
            error = stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else 0.0
            cells.append((mean(gains), f"{number(mean(gains), 1, signed=True)} ± {number(error, 1)}"))
        ahead = f"{sum(gain > 0 for gain, _ in cells)} of {len(cells)}"
        rows.append([dataset, str(len(folds)), ahead, *(text for _, text in cells)])
    if not rows:
        return NOT_RECORDED
    return f"{table(['set', 'folds', 'ahead on', *PEER_METRICS], rows)}\n\n{found.source}"


@from_record("rows")
def cost_of_rows(found: Rows) -> str:
    """Processor seconds of training with the fewest and the most rows, and the exponent."""
    rows = []
    for dataset, system in dict.fromkeys((row["dataset"], row["system"]) for row in found.rows):
        runs = sorted(found.where(dataset=dataset, system=system), key=lambda row: row["rows"])
        seconds = [run["train_processor_s"] for run in runs]
        slope = linear_regression([log(run["rows"]) for run in runs], [log(spent) for spent in seconds]).slope
        rows.append(
            [
                dataset,
                f"`{system}`" if system == "accurate" else system,
                *(f"{run['rows']:,}" for run in (runs[0], runs[-1])),
                *(number(spent, 1) for spent in (seconds[0], seconds[-1])),
                number(slope, 2),
            ]
        )
    header = ["set", "system", "rows, fewest", "most", "processor s, fewest", "most", "exponent"]
    return table(header, rows, left=2)


@from_record("scaling")
def scaling(found: Rows) -> str:
    """Time and memory over the number of labels, and how they grow from ten thousand to a million."""
    keys = ("fit_embedding_s", "fit_mapping_s", "fit_decoder_s", "fit_ranker_s", "predict_s")
    rows = [
        [
            f"`{r['preset']}`",
            f"{r['n_labels']:,}",
            f"{r['n_labels_seen']:,}",
            *(number(_worked(r, key)) or "–" for key in keys),
            number(r["peak_mb"], 0),
            number(r["P@1"], 2),
        ]
        for r in found.rows
    ]
    header = [
        "preset",
        "labels",
        "labels seen",
        "embedding s",
        "mapping s",
        "neighbors s",
        "ranker s",
        "predict s",
        "peak MiB",
        "P@1",
    ]
    growth = []
    for preset in dict.fromkeys(row["preset"] for row in found.rows):
        by_labels = {row["n_labels"]: row for row in found.where(preset=preset)}
        if {10_000, 1_000_000} <= by_labels.keys():
            few, many = by_labels[10_000], by_labels[1_000_000]
            before, now = (_worked(row, "fit_mapping_s") for row in (few, many))
            mapping = f"{now / before:.2f} times" if before and now else "none"
            growth.append(
                [
                    f"`{preset}`",
                    mapping,
                    f"{_decoding(many) / _decoding(few):.2f} times",
                    f"{many['peak_mb'] * 2**20 / 1e9:.2f} GB",
                ]
            )
    titles = ["from 10,000 to 1,000,000 labels", "mapping", "decoding, in fit and prediction", "peak at a million"]
    return f"{table(header, rows)}\n\n{table(titles, growth)}"


def _worked(row: dict[str, Any], key: str) -> float | None:
    """Seconds of a stage, or None where it did nothing."""
    seconds = row.get(key)
    return float(seconds) if seconds is not None and seconds > NOTHING_RAN else None


def _decoding(row: dict[str, Any]) -> float:
    """Seconds of neighbors, votes and ranker in fit and prediction; earlier rows have only their parts."""
    if row.get("decoding_s") is not None:
        return float(row["decoding_s"])
    return sum(float(row.get(key) or 0.0) for key in ("fit_decoder_s", "fit_ranker_s", "predict_s"))


def scaling_sentence(evidence: Evidence) -> str:
    found = evidence.rows("scaling")
    most = [row for row in found.rows if row["n_labels"] == 1_000_000]
    if not most:
        return ""
    grown = []
    for row in most:
        few = found.where(preset=row["preset"], n_labels=10_000)
        grown += [_decoding(row) / _decoding(few[0])] if few else []
    memory = span((row["peak_mb"] * 2**20 / 1e9 for row in most), 1)
    return (
        f"A million labels on 200,000 rows: {memory} GB, and decoding takes {span(grown, 2)} times as long as with "
        "ten thousand"
    )


def gpu(evidence: Evidence) -> str:
    """Accuracy and seconds of whole pipelines on a GPU."""
    found = evidence.rows("gpu")
    if not found:
        return NOT_RECORDED
    rows = [
        [
            row["data"],
            row["pipeline"],
            *(number(row[metric], 2) for metric in PEER_METRICS),
            number(row["train_s"], 2),
            number(row["predict_s"], 2),
        ]
        for row in found.rows
    ]
    names = dict.fromkeys(row["device_name"] for row in found.rows if row.get("device_name"))
    devices = listed(list(names)) or "one NVIDIA H200"
    header = ["set", "pipeline", *PEER_METRICS, "train s", "predict s"]
    return f"{table(header, rows, left=2)}\n\nOn {devices}. {found.source}"


@from_record("online")
def online(found: Rows) -> str:
    """What an update costs as a share of a fit."""
    rows = [
        [
            r["data"],
            f"`{r['preset']}`",
            f"{r['rows']:,}",
            str(r["labels"]),
            number(r["fit_s"]),
            number(r["update_s"], 2),
            f"{100 * r['update_s'] / r['fit_s']:.1f} %",
        ]
        for r in found.rows
    ]
    header = ["data", "preset", "new rows", "new labels", "fit s", "update s", "update / fit"]
    return table(header, rows, left=2)


def serving(evidence: Evidence) -> str:
    """What a service holds: load, single rows, start, hostile requests, new versions under load."""
    fresh, earlier = evidence.rows("serving"), evidence.earlier("serving")
    points, old = [], []
    for benchmark, tell in SERVED.items():
        for found in dict.fromkeys((fresh.name, earlier.name)):
            rows = (fresh if found == fresh.name else earlier).where(benchmark=benchmark)
            values = {row["name"]: row["value"] for row in rows}
            if values:
                is_old = found == earlier.name
                old += [benchmark] if is_old else []
                points.append(f"- {tell(values)} ({rows[0]['dataset']}){'†' if is_old else ''}")
                break
    if not points:
        return NOT_RECORDED
    notes = [fresh.source] if not fresh.earlier else []
    notes += [f"† {earlier.source}"] if old else []
    return "\n".join(points) + "\n\n" + "\n\n".join(notes)


def _load(v: dict[str, float]) -> str:
    told = (
        f"{v['seconds']:.0f} s at {v['connections']} connections, the number that held the highest rate: "
        f"{v['answers']:,} answers, {v['failures']} failed, "
        f"{v['per_second']:.0f} a second, p50 {v['p50_ms']:.0f} ms, p99 {v['p99_ms']:.0f} ms; memory of all workers "
        f"{v['memory_first_mb']:.0f} MB early "
        f"and {v['memory_last_mb']:.0f} MB at the end"
    )
    if "client_processor_ms" not in v:
        return told
    return (
        f"{told}; processor time of a request {v['service_processor_ms']:.2f} ms in the service and "
        f"{v['client_processor_ms']:.2f} ms in the client"
    )


def _half_rate(v: dict[str, float]) -> str:
    return (
        f"{v['seconds']:.0f} s at {v['rate']:.0f} requests a second, evenly spaced: {v['answers']:,} answers, "
        f"{v['failures']} failed, p50 {v['p50_ms']:.1f} ms, p99 {v['p99_ms']:.1f} ms"
    )


def _one_connection(v: dict[str, float]) -> str:
    return f"One connection alone: {v['per_second']:.0f} a second, p50 {v['p50_ms']:.1f} ms, p99 {v['p99_ms']:.1f} ms"


def _one_row(v: dict[str, float]) -> str:
    told = listed([f"{name.removesuffix('_p50_ms')} {value:.2f} ms" for name, value in v.items()])
    return f"One row inside the process, without a service (p50): {told}"


def _cold(v: dict[str, float]) -> str:
    return (
        f"From the command to the first answer {v['median_s']:.2f} s ({v['starts']} starts: {v['min_s']:.2f} to "
        f"{v['max_s']:.2f}), "
        f"{v['median_s'] / v['scipy_s']:.1f} times what an interpreter takes that loads NumPy and `scipy.sparse` "
        f"({v['scipy_s']:.2f} s) and "
        f"{v['median_s'] / v['sklearn_s']:.1f} times what it takes for the base classes of scikit-learn "
        f"({v['sklearn_s']:.2f} s)"
    )


def _hostile(v: dict[str, float]) -> str:
    told = (
        f"{v['requests']:,} hostile requests: {v['server_errors']} answers with 5xx, the slowest after "
        f"{v['slowest_s']:.2f} s, memory "
        f"{v['memory_first_mb']:.0f} MB after the first tenth and {v['memory_last_mb']:.0f} MB after the last"
    )
    if "healthy_slowest_ms" not in v:
        return told
    return (
        f"{told}; {v['hangs']} hangs. A healthy client beside them and beside {v['idle_connections']:,} idle "
        f"connections: {v['healthy_requests']:,} answers, {v['healthy_failures']} failed, "
        f"p50 {v['healthy_p50_ms']:.0f} ms, p99 {v['healthy_p99_ms']:.0f} ms, the slowest "
        f"{v['healthy_slowest_ms']:.0f} ms; without the hostile requests the "
        f"slowest of a hundred took {v['quiet_slowest_ms']:.0f} ms"
    )


def _damaged(v: dict[str, float]) -> str:
    return (
        f"{v['reloads']:,} new versions, {v['damaged']} of them damaged: good ones served after {v['median_s']:.2f} s "
        f"(median), the slowest after {v['slowest_s']:.2f} s; `/health` wrong {v['wrong_health']} times, "
        f"{v['answers']:,} answers meanwhile, {v['failures']} failed, "
        f"{v['returns_to_an_earlier_version']} by an earlier version than the one before"
    )


def _day(v: dict[str, float]) -> str:
    return (
        f"{v['seconds']:.0f} s of {v['clients']} clients beside {v['idle_connections']:,} idle connections, slow "
        f"senders and {v['hostile']:,} hostile requests: {v['answers']:,} answers of {v['versions']} versions, "
        f"{v['failures']} failed; "
        f"{v['kills']} workers were killed and {v['lost_with_killed_workers']} requests lost with them, of which "
        f"{v['answered_when_asked_again']} were answered when asked again; p50 {v['p50_ms']:.0f} ms, p99 "
        f"{v['p99_ms']:.0f} ms on a machine that was busy with other things; memory {v['memory_first_mb']:.0f} MB in "
        f"the first quarter and {v['memory_last_mb']:.0f} MB in the last (medians)"
    )


def _reload(v: dict[str, float]) -> str:
    return (
        f"{v['updates']} times `sldl update` with {v['rows_each']} rows under the load of {v['clients']} clients: "
        f"{v['answers']:,} answers of {v['versions']} "
        f"versions, {v['failures']} failed, {v['mixed_versions']} versions with two different answers"
    )


SERVED = {
    "load": _load,
    "half rate": _half_rate,
    "one connection": _one_connection,
    "one row": _one_row,
    "cold start": _cold,
    "hostile": _hostile,
    "reload": _reload,
    "damaged reloads": _damaged,
    "day": _day,
}


@from_record("reranker")
def reranker(found: Rows) -> str:
    """Metrics and processor seconds of `accurate` with and without a second ranking stage."""
    names = {
        "one stage": "`accurate`, `reranker=None`",
        "two stages": "`accurate`",
        "no pairs": "trees without label pairs",
        "directed": "trees, P(label given other)",
        "symmetric": "trees, cosine of both labels' rows",
    }
    rows = [
        [
            str(row["data"]),
            str(row["rows"]),
            names[row["variant"]],
            *(number(row[metric], 2) for metric in PEER_METRICS),
            *("–" if row[key] is None else number(row[key]) for key in ("fit_cpu_s", "predict_cpu_s")),
            "–" if row["held_out_gain"] is None else number(row["held_out_gain"], 2),
        ]
        for row in found.rows
    ]
    header = ["data", "judged on", "ranking", *PEER_METRICS, "fit CPU s", "predict CPU s", "held-out gain"]
    return table(header, rows, left=3)


@from_record("few_labels")
def few_labels(found: Rows) -> str:
    """Metrics and processor seconds of `accurate` where labels are few, beside what it did before."""
    metrics = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5", "mean")
    rows = [
        [
            str(row["data"]),
            f"`{row['variant']}`" if row["variant"] == "accurate" else str(row["variant"]),
            *(number(row[metric], 2) for metric in metrics),
            *(number(row[key]) for key in ("fit_cpu_s", "predict_cpu_s")),
        ]
        for row in found.rows
        if not int(row["fold"])
    ]
    header = ["data", "variant", *metrics[:-1], "mean of eight", "fit CPU s", "predict CPU s"]
    return table(header, rows, left=2)
