"""Blocks of the page on Dask: equality, memory, faults, overhead and scaling."""

from blocks.evidence import Rows, from_record
from blocks.text import number, table

__all__ = ["equality", "faults", "memory", "overhead", "scaling"]

PROCESSES = {"worker_0": "worker 1", "worker_1": "worker 2", "client": "client"}


@from_record("dask_equality")
def equality(found: Rows) -> str:
    """How many fits on clusters gave the model folder of the local fit."""
    groups: dict[tuple[str, int, int, str], list[dict[str, object]]] = {}
    for row in found.rows:
        groups.setdefault((str(row["data"]), row["rows"], row["labels"], str(row["preset"])), []).append(row)
    rows = [
        [
            data.rsplit("/", 1)[-1].split(".")[0],
            f"{n_rows:,}",
            f"{n_labels:,}",
            f"`{preset}`",
            ", ".join(str(value) for value in sorted({row["workers"] for row in some})),  # type: ignore[type-var]
            ", ".join(str(value) for value in sorted({row["parts"] for row in some})),  # type: ignore[type-var]
            f"{sum(row['same'] in (True, 'True') for row in some)} of {len(some)}",
            number(min((100 * row["same_top5"] for row in some if row.get("same_top5") is not None), default=None), 1),
        ]
        for (data, n_rows, n_labels, preset), some in groups.items()
    ]
    header = [
        "data",
        "rows",
        "labels",
        "preset",
        "workers",
        "parts",
        "same model folder",
        "rows with the same five best labels, %",
    ]
    return table(header, rows, left=1)


@from_record("dask_overhead")
def overhead(found: Rows) -> str:
    """Processor time of two workers and the client against a local fit with two threads."""
    rows = [
        [
            str(row["data"]),
            f"{row['rows']:,}",
            f"`{row['preset']}`",
            *(number(row[key], 1) for key in ("local_cpu_s", "client_cpu_s", "workers_cpu_s")),
            *(number(row[key], 2) for key in ("ratio", "least", "most")),
        ]
        for row in found.rows
    ]
    header = ["data", "rows", "preset", "local fit, processor s", "client", "two workers", "ratio", "least", "most"]
    return table(header, rows, left=1)


@from_record("dask_faults")
def faults(found: Rows) -> str:
    """Fits and predictions in which a worker was killed."""
    rows = [
        [
            str(row["data"]),
            f"{row['rows']:,}",
            f"`{row['preset']}`",
            str(row["work"]),
            f"{row['same']} of {row['kills']}",
            *(number(row[key], 1) for key in ("undisturbed_s", "longest_s")),
        ]
        for row in found.rows
    ]
    header = ["data", "rows", "preset", "work", "same with a kill", "undisturbed s", "longest s"]
    return table(header, rows, left=1)


@from_record("dask_memory")
def memory(found: Rows) -> str:
    """Peaks of processes that fit and predict generated parts."""
    rows = [
        [
            f"`{row['preset']}`",
            f"{row['rows']:,}",
            f"{row['labels']:,}",
            work,
            *(f"{row[f'{work}_{key}']:,}" for key in ("s", "cpu_s")),
            *(f"{row[f'{work}_{what}_{who}_mb']:,}" for what in ("own", "resident") for who in PROCESSES),
        ]
        for row in found.rows
        for work in ("fit", "predict")
        if row.get(f"{work}_s") is not None
    ]
    header = ["preset", "rows", "labels", "work", "s", "processor s"]
    header += [f"{who}, {what}" for what in ("own MiB", "with files") for who in PROCESSES.values()]
    return table(header, rows, left=1)


@from_record("dask_scaling")
def scaling(found: Rows) -> str:
    """Seconds by the number of workers."""
    alone = {(row["preset"], row["rows"]): row["fit_s"] for row in found.rows if row["workers"] == 1}
    rows = [
        [
            f"`{row['preset']}`",
            f"{row['rows']:,}",
            f"{row['labels']:,}",
            str(row["workers"]),
            number(row["fit_s"], 1),
            number(alone[row["preset"], row["rows"]] / row["fit_s"], 1),
            *(number(row[key], 1) for key in ("fit_client_cpu_s", "fit_workers_cpu_s")),
            f"{row.get('predicted') or row['rows']:,}",
            number(row["predict_s"], 1),
        ]
        for row in found.rows
        if (row["preset"], row["rows"]) in alone
    ]
    header = ["preset", "rows", "labels", "workers", "fit s", "times faster", "client, processor s"]
    return table([*header, "workers, processor s", "rows predicted", "s"], rows, left=1)
