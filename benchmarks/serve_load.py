"""What does a served model hold? Rows a second, waiting times, memory, and what peers take for the same rows.

A service and, beside it on the same machine, a second process that asks it: one row a request, over connections that
are kept open, each asking again as soon as it is answered. The number of connections with the highest rate is found
first, then held; then half of the rate that a service must hold is asked, evenly spaced. The peers get the same rows
one by one inside their own process, without HTTP and without JSON.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import select
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

from data import add_data_options, open_dataset
from measuring import WorkerError, measured_apart
from pysldl.cli._model import open_model
from pysldl.persistence import current_version
from pysldl.serve.schemas import SparseRow
from pysldl.serve.served_model import open_version
from records import add_record_option, write_rows

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
from environments import PEERS
from single_rows import WORKER, one_by_one, spread

HEAD = "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
TRIALS = (1, 2, 4, 8, 16)
SAMPLES = 60
GROWTH_MB = 50
COMPARED = ("omikuji", "pecos")
LOAD_FIGURES = ("connections", "seconds", "answers", "per_second", "p50_ms", "p99_ms")
ASKED_RATE = 1000.0  # answers a second that a service must hold; the waiting times count at half of it


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
def service(model: Path, workers: int, first: bytes, *words: str) -> Iterator[tuple[int, int, float]]:
    """A running service: its port, its process, and the seconds from the command to the first answer."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "pysldl.cli", "serve", str(model), "--port", "0", "--json"]
    process = subprocess.Popen([*command, "--workers", str(workers), *words], stdout=subprocess.PIPE, text=True)
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


class Client:
    """A connection that is kept open, and the request that waits for its answer there.

    It shares the processors with the service, so it does no more than it must: requests are bytes made before, and of
    an answer only the status, the length and the version are read.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.connect()

    def connect(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self._port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answer = b""

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, request: bytes, since: float) -> None:
        """Ask; the time that the answer takes is counted from ``since``."""
        self.since = since
        self.socket.sendall(request)

    def receive(self) -> bytes | None:
        """The whole answer; None while there is only a part of it."""
        part = self.socket.recv(65536)
        if not part:
            raise ConnectionResetError
        self._answer += part
        end = self._answer.find(b"\r\n\r\n")
        if end < 0:
            return None
        start = self._answer.lower().index(b"content-length: ") + 16
        if len(self._answer) < end + 4 + int(self._answer[start : self._answer.index(b"\r", start)]):
            return None
        answer, self._answer = self._answer, b""
        return answer


def ask(
    port: int, requests: list[bytes], connections: int, seconds: float, rate: float = 0.0
) -> tuple[list[float], Counter[str], set[str]]:
    """Waiting times of all answers, what failed and how often, and the versions that answered.

    Each connection asks again as soon as it is answered. With a ``rate``, so many requests a second are due instead,
    evenly spaced; the time of one counts from when it was due, also where all connections are waiting for answers.
    """
    waited: list[float] = []
    versions: set[str] = set()
    failures: Counter[str] = Counter()
    queue = cycle(requests)
    idle, busy = [Client(port) for _ in range(connections)], []
    now = started = time.perf_counter()
    n_sent = 0
    while now < started + seconds or busy:
        while idle and now < started + seconds and (not rate or now >= started + n_sent / rate):
            client = idle.pop(0)  # in turn: the service closes a connection that says nothing for seconds
            client.send(next(queue), started + n_sent / rate if rate else time.perf_counter())
            n_sent += 1
            busy.append(client)
        due = max(0.0, started + n_sent / rate - now) if rate and idle and now < started + seconds else None
        for client in select.select(busy, [], [], due)[0]:
            try:
                answer = client.receive()
            except OSError as error:
                failures[type(error).__name__] += 1
                client.connect()
            else:
                if answer is None:
                    continue
                waited.append(time.perf_counter() - client.since)
                if answer[9:12] == b"200":
                    place = answer.index(b'"version":"') + 11
                    versions.add(answer[place : place + 12].decode())
                else:
                    failures[answer[9:12].decode()] += 1
            busy.remove(client)
            idle.append(client)
        now = time.perf_counter()
    for client in idle:
        client.socket.close()
    return waited, failures, versions


def load(
    port: int, process: int, requests: list[bytes], connections: int, seconds: float, rate: float = 0.0
) -> dict[str, Any]:
    """Ask for some time from a process of its own, and look at the memory and the processor time meanwhile."""
    memory = [memory_mb(process)]
    before = processor_seconds(process)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        asking = pool.apply_async(_ask, (port, requests, connections, seconds, rate))
        while not asking.ready():
            asking.wait(max(1.0, seconds / SAMPLES))
            memory.append(memory_mb(process))
        (waited, failures, versions), asked_s = asking.get()
    return {
        "connections": connections,
        "rate": rate,
        "seconds": seconds,
        "answers": len(waited),
        "failures": dict(failures),
        "versions": len(versions),
        "per_second": len(waited) / seconds,
        **spread(waited),
        "service_processor_ms": 1000 * (processor_seconds(process) - before) / max(1, len(waited)),
        "client_processor_ms": 1000 * asked_s / max(1, len(waited)),
        "memory_mb": [round(at, 1) for at in memory],
    }


def _ask(*arguments: Any) -> tuple[tuple[list[float], Counter[str], set[str]], float]:
    """What :func:`ask` returns, and the processor seconds that it took."""
    before = time.process_time()
    return ask(*arguments), time.process_time() - before


def family(process: int) -> list[str]:
    """A process and its children."""
    return [str(process), *Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def processor_seconds(process: int) -> float:
    """What a process and its children have computed so far."""
    ticks = 0
    for one in family(process):
        ticks += sum(map(int, Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_mb(process: int) -> float:
    """Memory of a process and its children, shared pages counted once (proportional set size)."""
    total = 0
    for one in family(process):
        for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def library(model: Path, data: Any, n: int, k: int) -> dict[str, float]:
    """One row asked of the library itself, as a worker of the service does it."""
    opened, served = open_model(model), open_version(current_version(model), model.name)
    X = opened.rows_of(data)[:n]
    parts = [X[[row]] for row in range(X.shape[0])]
    rows = [SparseRow(list(zip(part.indices.tolist(), part.data.tolist(), strict=True))) for part in parts]
    served.compile_loops()
    return one_by_one(lambda row: served.predict([row], k), rows)


def peers(names: list[str], dataset: str, data_dir: str | None, folder: Path, n: int, k: int) -> dict[str, Any]:
    """The same rows asked of the peers, which learned on the same training rows."""
    from compare import ADAPTERS, Comparison

    task = Comparison(dataset, data_dir, folder, None)
    found: dict[str, Any] = {}
    for name in names:
        options = {
            "adapter": ADAPTERS[name],
            "specification": name,
            "task": str(task.folder / "matrices"),
            "model": str(task.folder / f"{name}-model"),
            "rows": n,
            "k": k,
        }
        try:
            found[name] = measured_apart(WORKER, options, python=PEERS[name].python(name), threads=1)
        except (WorkerError, OSError) as error:
            found[name] = {"error": str(error)}
    return found


def ratios(result: dict[str, Any]) -> dict[str, dict[str, float]]:
    """What we take for a row, over what each peer takes: in the library, and through the service when nobody waits."""
    ours, alone = result["library"], result["trials"][0]
    return {
        name: {
            "library": ours["p50_ms"] / peer["p50_ms"],
            "library_processor": ours["processor_ms"] / peer["processor_ms"],
            "service": alone["p50_ms"] / peer["p50_ms"],
        }
        for name, peer in result["peers"].items()
        if "error" not in peer
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="model folder that sldl fit wrote")
    parser.add_argument("dataset", help="data set whose test rows are asked, such as eurlex57k")
    parser.add_argument("--rows", type=int, default=1000, help="different rows that are asked")
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=600, help="how long the highest rate is held")
    parser.add_argument("--trial", type=float, default=5, help="seconds of each trial for the number of connections")
    parser.add_argument("--peers", nargs="*", default=list(COMPARED), choices=list(PEERS), help="asked beside it")
    parser.add_argument(
        "--peer-models", type=Path, default=Path("build/benchmarks/peers"), help="where their models are kept"
    )
    parser.add_argument("--json", action="store_true")
    add_record_option(parser, "serving.csv")
    add_data_options(parser)
    options = parser.parse_args()
    data = open_dataset(options.dataset, options.data_dir)
    data = data.split("test") if "test" in data.splits else data
    requests = requests_of(options.model, data, options.rows, options.k)

    result: dict[str, Any] = {"model": str(options.model), "workers": options.workers}
    result["peers"] = peers(
        options.peers, options.dataset, options.data_dir, options.peer_models, options.rows, options.k
    )
    result["library"] = library(options.model, data, options.rows, options.k)
    with service(options.model, options.workers, requests[0]) as (port, process, cold):
        result["cold_start_seconds"] = cold
        load(port, process, requests, 2 * options.workers, options.trial)  # until every worker has compiled its loops
        result["trials"] = [load(port, process, requests, n, options.trial) for n in TRIALS]
        best = max(result["trials"], key=lambda trial: trial["per_second"])["connections"]
        result["held"] = load(port, process, requests, best, options.seconds)
        result["half"] = load(port, process, requests, max(TRIALS), options.seconds, ASKED_RATE / 2)
    result["ratios"] = ratios(result)
    if options.record:
        for benchmark, figures in as_records(result).items():
            record_measurement(options.record, benchmark, options.dataset, figures)
    print(json.dumps(result, indent=2) if options.json else told(result))
    memory = result["held"]["memory_mb"]
    return 0 if not result["held"]["failures"] and memory[-1] < memory[len(memory) // 10] + GROWTH_MB else 1


def record_measurement(path: Path, benchmark: str, dataset: str, figures: dict[str, float]) -> None:
    """Write the figures of one benchmark of the service, one row each."""
    rows = [{"benchmark": benchmark, "dataset": dataset, "name": name, "value": v} for name, v in figures.items()]
    write_rows(path, rows, ("benchmark", "dataset", "name"))


def as_records(result: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Figures of the load that was held, of one connection alone, and of one row inside each process."""
    held, alone = result["held"], result["trials"][0]
    memory = held["memory_mb"]
    inside = {"pysldl": result["library"], **result["peers"]}
    return {
        "load": {
            **{key: held[key] for key in (*LOAD_FIGURES, "service_processor_ms", "client_processor_ms")},
            "failures": sum(held["failures"].values()),
            "memory_first_mb": memory[len(memory) // 10],
            "memory_last_mb": memory[-1],
        },
        "half rate": {
            **{key: result["half"][key] for key in ("rate", *LOAD_FIGURES)},
            "failures": sum(result["half"]["failures"].values()),
        },
        "one connection": {key: alone[key] for key in ("per_second", "p50_ms", "p99_ms")},
        "one row": {f"{name}_p50_ms": found["p50_ms"] for name, found in inside.items() if "error" not in found},
    }


def told(result: dict[str, Any]) -> str:
    """The result for people."""
    lines = [f"from the command to the first answer {result['cold_start_seconds']:.2f} s"]
    for name, found in {"this library": result["library"], **result["peers"]}.items():
        said = found.get("error") or (
            f"p50 {found['p50_ms']:.3f} ms, p99 {found['p99_ms']:.3f} ms, processor {found['processor_ms']:.3f} ms"
        )
        lines.append(f"one row inside the process of {name}: {said}")
    for trial in (*result["trials"], result["held"], result["half"]):
        lines.append(
            f"{trial['connections']:3} connections, {trial['seconds']:5.0f} s: {trial['per_second']:7.0f} rows/s, "
            f"p50 {trial['p50_ms']:.2f} ms, p99 {trial['p99_ms']:.2f} ms, {sum(trial['failures'].values())} failures, "
            f"processor {trial['service_processor_ms']:.2f} ms, of the client {trial['client_processor_ms']:.2f} ms"
        )
    memory = result["held"]["memory_mb"]
    tenths = [memory[(len(memory) - 1) * tenth // 10] for tenth in range(11)]
    lines.append(f"memory of all processes in ten parts of that time: {', '.join(f'{at:.0f}' for at in tenths)} MB")
    for name, by_place in result["ratios"].items():
        lines.append(
            f"against {name}, p50 of a row: library {by_place['library']:.2f} x "
            f"({by_place['library_processor']:.2f} x in processor time), "
            f"service with one connection {by_place['service']:.2f} x"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
