"""Blocks of the page on Dask: equality, memory, faults and overhead."""

from blocks.evidence import Rows, from_record
from blocks.text import number, table

__all__ = ["equality", "faults", "memory", "overhead"]


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
        ]
        for (data, n_rows, n_labels, preset), some in groups.items()
    ]
    header = ["data", "rows", "labels", "preset", "workers", "parts", "same model folder"]
    return table(header, rows, left=1)


@from_record("dask_overhead")
def overhead(found: Rows) -> str:
    """Processor time of two workers and the client against a local fit with two threads."""
    rows = [
        [
            str(row["data"]),
            f"{row['rows']:,}",
            f"`{row['preset']}`",
            *(number(row[key], 1) for key in ("local_cpu_s", "dask_cpu_s")),
            number(row["ratio"], 2),
        ]
        for row in found.rows
    ]
    header = ["data", "rows", "preset", "local fit, processor s", "two workers and client, processor s", "ratio"]
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
            number(row["longest_of_undisturbed"], 1),
        ]
        for row in found.rows
    ]
    header = ["data", "rows", "preset", "work", "same with a kill", "longest, of the undisturbed"]
    return table(header, rows, left=1)


@from_record("dask_memory")
def memory(found: Rows) -> str:
    """Peaks of processes that fit and predict generated parts."""
    keys = [f"{who}_{what}_mb" for what in ("own", "resident") for who in ("worker_0", "worker_1", "client")]
    rows = [
        [
            f"`{row['preset']}`",
            f"{row['rows']:,}",
            f"{row['labels']:,}",
            str(row["worker_memory"]),
            *(str(row[key]) for key in keys),
            *(str(row[key]) for key in ("fit_s", "predict_s")),
        ]
        for row in found.rows
    ]
    whose = ["worker 1", "worker 2", "client"]
    header = ["preset", "rows", "labels", "a worker has", *(f"{who}, own MiB" for who in whose)]
    header += [*(f"{who}, with files" for who in whose), "fit s", "predict s"]
    return table(header, rows, left=1)
