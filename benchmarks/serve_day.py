"""A day of a service in little: load with new versions, killed workers, slow and idle clients and hostile requests.

Clients ask for predictions on connections that are kept open, and ask again on a new one where a connection was lost.
A request that a killed worker had in hand is lost with it; all others must be answered.
"""

import argparse
import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np

from data import add_data_options, open_dataset
from pysldl.persistence import load_model, read_manifest, save_model
from records import add_record_option
from serve_load import memory_mb, read_answer, record_measurement, requests_of, service

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "serve"))
from hostile import hostile_requests

HOLD = 20.0


class Day:
    """What happens to the service, and what came of it."""

    def __init__(self, port: int, process: int, requests: list[bytes], options: argparse.Namespace) -> None:
        self.port, self.process, self.requests, self.options = port, process, requests, options
        self.end = time.perf_counter() + options.seconds
        self.waited: list[float] = []
        self.failures: Counter[str] = Counter()
        self.n_lost = self.n_kills = self.n_saves = self.n_hostile = 0
        self.memory: list[float] = []
        self.versions: set[str] = set()

    @property
    def is_over(self) -> bool:
        return time.perf_counter() > self.end

    async def client(self, number: int) -> None:
        at, wire = number, None
        while not self.is_over:
            wire = wire or await asyncio.open_connection("127.0.0.1", self.port)
            sent = time.perf_counter()
            at += 1
            try:
                wire[1].write(self.requests[at % len(self.requests)])
                status, body = await read_answer(wire[0])
            except (OSError, asyncio.IncompleteReadError):
                self.n_lost += 1  # the worker of this connection was killed
                wire = None
                continue
            self.waited.append(time.perf_counter() - sent)
            if status != 200:
                self.failures[str(status)] += 1
            else:
                self.versions.add(body[12:24].decode())
            await asyncio.sleep(self.options.pause)

    async def kill(self) -> None:
        while not self.is_over:
            await asyncio.sleep(self.options.kill_every)
            children = Path(f"/proc/{self.process}/task/{self.process}/children").read_text().split()
            if len(children) == self.options.workers and not self.is_over:
                os.kill(int(random.choice(children)), signal.SIGKILL)
                self.n_kills += 1

    async def save(self, model: Path) -> None:
        loaded, extra = load_model(model), read_manifest(model).extra
        while not self.is_over:
            await asyncio.sleep(self.options.save_every)
            self.n_saves += 1
            about = extra | {"round": self.n_saves}
            await asyncio.to_thread(save_model, loaded, model, extra=about, overwrite=True)

    async def idle(self) -> None:
        while not self.is_over:
            held = []
            for _ in range(self.options.idle):
                try:
                    held.append(await asyncio.open_connection("127.0.0.1", self.port))
                except OSError:
                    break
                if self.is_over:
                    break
            await asyncio.sleep(min(HOLD, max(0.0, self.end - time.perf_counter())))
            for _, writer in held:
                writer.close()

    async def drip(self) -> None:
        """Send a head byte by byte, until the service has had enough."""
        while not self.is_over:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                for byte in b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1000:
                    writer.write(bytes([byte]))
                    with suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(1), 0.1)
                        break  # it has answered, or closed
                    if self.is_over:
                        break
                writer.close()
            except OSError:
                continue

    async def attack(self, n_features: int) -> None:
        source = random.Random(0)
        while not self.is_over:
            for request in hostile_requests(source, 100, n_features):
                if self.is_over:
                    return
                self.n_hostile += 1
                try:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                    writer.write(request)
                    head = await asyncio.wait_for(reader.read(12), 20)
                    writer.close()
                except OSError:
                    continue
                except TimeoutError:
                    self.failures["hang"] += 1
                    continue
                if head[9:10] == b"5":
                    self.failures[f"hostile {head[9:12].decode()}"] += 1
                await asyncio.sleep(0.02)

    async def weigh(self) -> None:
        while not self.is_over:
            await asyncio.sleep(max(1.0, self.options.seconds / 60))
            try:
                self.memory.append(memory_mb(self.process))
            except OSError:
                continue  # a worker ended meanwhile

    async def run(self, model: Path, n_features: int) -> None:
        clients = [self.client(1000 * number) for number in range(self.options.clients)]
        others = [self.kill(), self.save(model), self.idle(), self.attack(n_features), self.weigh()]
        await asyncio.gather(*clients, *others, *(self.drip() for _ in range(20)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="model folder that sldl fit wrote")
    parser.add_argument("dataset", help="data set whose rows are asked, such as stackex-chess")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--pause", type=float, default=0.01, help="seconds between two questions of a client")
    parser.add_argument("--idle", type=int, default=5000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill-every", type=float, default=20.0)
    parser.add_argument("--save-every", type=float, default=10.0)
    add_record_option(parser, "serving.csv")
    add_data_options(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(shutil.copytree(options.model, Path(scratch, options.model.name)))
        requests = requests_of(model, open_dataset(options.dataset, options.data_dir), 500, 5)
        with service(model, options.workers, requests[0]) as (port, process, _):
            day = Day(port, process, requests, options)
            asyncio.run(day.run(model, read_manifest(model).n_features or 1))
    figures = {
        "seconds": options.seconds,
        "clients": options.clients,
        "idle_connections": options.idle,
        "answers": len(day.waited),
        "failures": sum(day.failures.values()),
        "kills": day.n_kills,
        "lost_with_killed_workers": day.n_lost,
        "saves": day.n_saves,
        "versions": len(day.versions),
        "hostile": day.n_hostile,
        "p50_ms": 1000 * float(np.median(day.waited)),
        "p99_ms": 1000 * float(np.quantile(day.waited, 0.99)),
        "slowest_ms": 1000 * max(day.waited),
        "memory_first_mb": day.memory[len(day.memory) // 4],
        "memory_last_mb": day.memory[-1],
    }
    for name, value in figures.items():
        print(f"{name}: {value:.6g}")
    for kind, n in day.failures.items():
        print(f"failed: {n} x {kind}")
    if options.record:
        record_measurement(options.record, "day", options.dataset, figures)
    return 0 if not day.failures and day.n_lost <= options.clients * day.n_kills else 1


if __name__ == "__main__":
    sys.exit(main())
