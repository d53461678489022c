"""What does a served model hold? Rows a second, waiting times, memory, and how long until the first answer.

A service and, beside it on the same machine, a second process that asks it: one row a request, over connections that
are kept open, each asking again as soon as it is answered. The number of connections with the highest rate is found
first, then held.
"""

import argparse
import asyncio
import json
import multiprocessing
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from data import add_data_options, open_dataset
from pysldl.cli._model import open_model

HEAD = "POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
TRIALS = (1, 2, 4, 8, 16)


def requests_of(model: Path, data: Any, n: int, k: int) -> list[bytes]:
    """Whole requests with one row each, ready to be sent."""
    X = open_model(model).rows_of(data)[:n]
    found = []
    for row in range(X.shape[0]):
        part = X[[row]]
        pairs = [[int(i), round(float(v), 6)] for i, v in zip(part.indices, part.data, strict=True)]
        body = json.dumps({"input": {"sparse": pairs}, "k": k}).encode()
        found.append(HEAD.format(len(body)).encode() + body)
    return found


@contextmanager
def service(model: Path, workers: int, first: bytes) -> Iterator[tuple[int, int, float]]:
    """A running service: its port, its process, and the seconds from the command to the first answer."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "pysldl.cli", "serve", str(model), "--port", "0", "--json"]
    process = subprocess.Popen([*command, "--workers", str(workers)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("}"):
                break
        port = int(json.loads("".join(lines))["address"].rpartition(":")[2])
        status, _ = asyncio.run(once(port, first))
        seconds = time.perf_counter() - started
        if status != 200:
            sys.exit(f"the first request was answered with {status}")
        yield port, process.pid, seconds
    finally:
        process.terminate()
        process.wait()


async def once(port: int, request: bytes) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await read_answer(reader)
    writer.close()
    return answer


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    start = head.lower().index(b"content-length:") + len(b"content-length:")
    body = await reader.readexactly(int(head[start : head.index(b"\r\n", start)]))
    return int(head[9:12]), body


async def ask(port: int, requests: list[bytes], connections: int, seconds: float) -> tuple[list[float], int, set[str]]:
    """Waiting times of all answers, the number of failures, and the versions that answered."""
    waited: list[float] = []
    versions: set[str] = set()
    failures = 0
    end = time.perf_counter() + seconds

    async def client(number: int) -> None:
        nonlocal failures
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        at = number
        while time.perf_counter() < end:
            sent = time.perf_counter()
            writer.write(requests[at % len(requests)])
            at += connections
            status, body = await read_answer(reader)
            waited.append(time.perf_counter() - sent)
            if status == 200:
                versions.add(body[12:24].decode())
            else:
                failures += 1
        writer.close()

    await asyncio.gather(*(client(number) for number in range(connections)))
    return waited, failures, versions


def load(port: int, requests: list[bytes], connections: int, seconds: float) -> dict[str, Any]:
    """Ask for some time from a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        waited, failures, versions = pool.apply(_ask, (port, requests, connections, seconds))
    return {
        "connections": connections,
        "seconds": seconds,
        "answers": len(waited),
        "failures": failures,
        "versions": len(versions),
        "per_second": len(waited) / seconds,
        "p50_ms": 1000 * float(np.percentile(waited, 50)),
        "p99_ms": 1000 * float(np.percentile(waited, 99)),
    }


def _ask(port: int, requests: list[bytes], connections: int, seconds: float) -> tuple[list[float], int, set[str]]:
    return asyncio.run(ask(port, requests, connections, seconds))


def memory_mb(process: int) -> float:
    """Memory of a process and its children, shared pages counted once (proportional set size)."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    total = 0
    for one in (str(process), *children):
        for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def direct_ms(model: Path, data: Any, n: int, k: int) -> float:
    """Milliseconds of one row asked of the library itself, without a service."""
    opened = open_model(model)
    X = opened.rows_of(data)[:n]
    opened.classifier.predict_topk(X[:1], k)
    started = time.perf_counter()
    for row in range(X.shape[0]):
        opened.classifier.predict_topk(X[[row]], k)
    return 1000 * (time.perf_counter() - started) / X.shape[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="model folder that sldl fit wrote")
    parser.add_argument("dataset", help="data set whose rows are asked, such as eurlex57k")
    parser.add_argument("--split", default="test")
    parser.add_argument("--rows", type=int, default=1000, help="different rows that are asked")
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=600, help="how long the highest rate is held")
    parser.add_argument("--trial", type=float, default=5, help="seconds of each trial for the number of connections")
    parser.add_argument("--json", action="store_true")
    add_data_options(parser)
    options = parser.parse_args()
    data = open_dataset(options.dataset, options.data_dir)
    data = data.split(options.split) if options.split in data.splits else data
    requests = requests_of(options.model, data, options.rows, options.k)

    with service(options.model, options.workers, requests[0]) as (port, process, cold):
        trials = [load(port, requests, connections, options.trial) for connections in TRIALS]
        best = max(trials, key=lambda trial: trial["per_second"])["connections"]
        before = memory_mb(process)
        held = load(port, requests, best, options.seconds)
        after = memory_mb(process)
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health").close()
    result = {
        "model": str(options.model),
        "workers": options.workers,
        "cold_start_seconds": cold,
        "direct_ms": direct_ms(options.model, data, min(options.rows, 200), options.k),
        "trials": trials,
        "held": held,
        "memory_mb": {"before": before, "after": after},
    }
    if options.json:
        print(json.dumps(result, indent=2))
        return 0 if held["failures"] == 0 else 1
    print(
        f"from the command to the first answer {cold:.2f} s; one row in the library itself {result['direct_ms']:.2f} ms"
    )
    for trial in (*trials, held):
        print(
            f"{trial['connections']:3} connections, {trial['seconds']:5.0f} s: {trial['per_second']:7.0f} rows/s, "
            f"p50 {trial['p50_ms']:.2f} ms, p99 {trial['p99_ms']:.2f} ms, {trial['failures']} failures"
        )
    print(f"memory {before:.0f} MB before the last line, {after:.0f} MB after it")
    return 0 if held["failures"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
