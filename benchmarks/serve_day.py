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
BURST = 50
AFTER_KILL = 5.0
QUARTERS = 4


class Day:
    """What happens to the service, and what came of it."""

    def __init__(self, port: int, process: int, requests: list[bytes], options: argparse.Namespace) -> None:
        self.port, self.process, self.requests, self.options = port, process, requests, options
        self.started = time.perf_counter()
        self.end = self.started + options.seconds
        self.waited: list[float] = []
        self.failures: Counter[str] = Counter()
        self.n_lost = self.n_again = self.n_saves = self.n_hostile = self.n_idle = 0
        self.killed_at: list[float] = []
        self.memory: list[float] = []
        self.versions: set[str] = set()

    @property
    def is_over(self) -> bool:
        return time.perf_counter() > self.end

    async def client(self, number: int) -> None:
        """Ask one row after the other; what a killed worker had in hand is asked again on a new connection."""
        at, wire = number, None
        is_again = False
        while not self.is_over or is_again:
            if wire is None or wire[0].at_eof():  # a service may close a connection that nobody uses
                wire = await asyncio.open_connection("127.0.0.1", self.port)
            sent = time.perf_counter()
            try:
                wire[1].write(self.requests[at % len(self.requests)])
                status, body = await read_answer(wire[0])
            except (OSError, asyncio.IncompleteReadError):
                self._note_loss(time.perf_counter())
                wire, is_again = None, True
                continue
            at += 1
            self.waited.append(time.perf_counter() - sent)
            if status != 200:
                self.failures[str(status)] += 1
            else:
                self.versions.add(body[12:24].decode())
                self.n_again += is_again
            is_again = False
            await asyncio.sleep(self.options.pause)

    def _note_loss(self, now: float) -> None:
        """Count a request that was lost: in the hands of a killed worker, or, where none was killed, a failure."""
        if any(0 <= now - killed <= AFTER_KILL for killed in self.killed_at):
            self.n_lost += 1
        else:
            self.failures["lost without a kill"] += 1

    async def kill(self) -> None:
        while not self.is_over:
            await self._sleep(self.options.kill_every)
            children = Path(f"/proc/{self.process}/task/{self.process}/children").read_text().split()
            if len(children) == self.options.workers and not self.is_over:
                self.killed_at.append(time.perf_counter())
                os.kill(int(random.choice(children)), signal.SIGKILL)

    async def save(self, model: Path) -> None:
        loaded, extra = load_model(model), read_manifest(model).extra
        while not self.is_over:
            await self._sleep(self.options.save_every)
            self.n_saves += 1
            about = extra | {"round": self.n_saves}
            await asyncio.to_thread(save_model, loaded, model, extra=about, overwrite=True)

    async def idle(self) -> None:
        """Open very many connections, say nothing on them, and let them go."""
        while not self.is_over:
            held = []
            next_wave = time.perf_counter() + self.options.idle_every
            for number in range(self.options.idle):
                try:
                    held.append(await asyncio.open_connection("127.0.0.1", self.port))
                except OSError:
                    break
                if number % BURST == 0:
                    await asyncio.sleep(0.02)
                if self.is_over:
                    break
            self.n_idle += len(held)
            await self._sleep(HOLD)
            for _, writer in held:
                writer.close()
            await self._sleep(next_wave - time.perf_counter())

    async def drip(self) -> None:
        """Send a head byte by byte, until the service has had enough."""
        while not self.is_over:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                for byte in b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1000:
                    writer.write(bytes([byte]))
                    with suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(1), 0.2)
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
                await asyncio.sleep(self.options.hostile_pause)

    async def weigh(self) -> None:
        while not self.is_over:
            await self._sleep(max(1.0, self.options.seconds / 240))
            try:
                self.memory.append(memory_mb(self.process))
            except OSError:
                continue  # a worker ended meanwhile

    async def tell(self) -> None:
        while not self.is_over:
            await self._sleep(60.0)
            print(
                f"{time.perf_counter() - self.started:.0f} s: {len(self.waited)} answers, {len(self.killed_at)} kills, "
                f"{self.n_lost} lost with them, {self.n_saves} saves, {self.n_hostile} hostile, "
                f"{self.memory[-1] if self.memory else 0:.0f} MB, failures {dict(self.failures)}",
                flush=True,
            )

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, min(seconds, self.end - time.perf_counter() + 0.01)))

    async def run(self, model: Path, n_features: int) -> None:
        clients = [self.client(1000 * number) for number in range(self.options.clients)]
        others = [self.kill(), self.save(model), self.idle(), self.attack(n_features), self.weigh(), self.tell()]
        await asyncio.gather(*clients, *others, *(self.drip() for _ in range(self.options.slow)))

    def figures(self) -> dict[str, float]:
        """What is recorded."""
        quarter = max(1, len(self.memory) // QUARTERS)
        return {
            "seconds": self.options.seconds,
            "clients": self.options.clients,
            "slow_clients": self.options.slow,
            "idle_connections": self.options.idle,
            "idle_opened": self.n_idle,
            "answers": len(self.waited),
            "failures": sum(self.failures.values()),
            "kills": len(self.killed_at),
            "lost_with_killed_workers": self.n_lost,
            "answered_when_asked_again": self.n_again,
            "saves": self.n_saves,
            "versions": len(self.versions),
            "hostile": self.n_hostile,
            "p50_ms": 1000 * float(np.median(self.waited)),
            "p99_ms": 1000 * float(np.quantile(self.waited, 0.99)),
            "slowest_ms": 1000 * max(self.waited),
            "memory_first_mb": float(np.median(self.memory[:quarter])),
            "memory_last_mb": float(np.median(self.memory[-quarter:])),
            "memory_most_mb": max(self.memory),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="model folder that sldl fit wrote")
    parser.add_argument("dataset", help="data set whose rows are asked, such as stackex-chess")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--pause", type=float, default=0.01, help="seconds between two questions of a client")
    parser.add_argument("--idle", type=int, default=5000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--idle-every", type=float, default=20.0, help="seconds from one wave of idle ones to the next")
    parser.add_argument("--slow", type=int, default=20, help="clients that send a head byte by byte")
    parser.add_argument("--hostile-pause", type=float, default=0.02, help="seconds between two hostile requests")
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
    figures = day.figures()
    for name, value in figures.items():
        print(f"{name}: {value:.6g}")
    for kind, n in day.failures.items():
        print(f"failed: {n} x {kind}")
    if options.record:
        record_measurement(options.record, "day", options.dataset, figures)
    return 0 if not day.failures and day.n_lost == day.n_again else 1


if __name__ == "__main__":
    sys.exit(main())
