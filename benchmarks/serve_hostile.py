"""Does a service survive what nobody should send? Hostile requests, made from its own description and below HTTP.

While some clients send them and others hold idle connections, a healthy client asks one small question after another
on new connections, for its health and for the labels of a row in turn; its slowest answer is noted. No answer may be
5xx, none may hang.
"""

import argparse
import itertools
import json
import random
import socket
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np

from pysldl.persistence import read_manifest

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "serve"))
from hostile import described_requests, hostile_requests, raw_exchange

from records import add_record_option
from serve_load import memory_mb, record_measurement, service

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
ROW = b'{"input": {"sparse": [[0, 1.0]]}, "k": 5}'
PREDICT = (
    b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(ROW), ROW)
)
DESCRIPTION = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
SLOWEST = 15.0
PAUSE = 0.02
# Tenths until every worker has what it loads beside its first answers.
WARM = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="model folder that sldl fit wrote")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--idle", type=int, default=5000, help="connections that are held open and send nothing")
    parser.add_argument("--seed", type=int, default=0)
    add_record_option(parser, "serving.csv")
    options = parser.parse_args()
    n_features = read_manifest(options.model).n_features or 1
    source = random.Random(options.seed)
    half = options.requests // 2

    with (
        service(options.model, 2, HEALTH) as (port, process, _),
        ThreadPoolExecutor(options.clients) as clients,
        ExitStack() as held,
    ):
        document = json.loads(raw_exchange(port, DESCRIPTION)[1])
        requests = [
            *hostile_requests(source, options.requests - half, n_features),
            *described_requests(source, half, document),
        ]
        source.shuffle(requests)

        def send(request: bytes) -> tuple[int | None, float, bytes]:
            started = time.perf_counter()
            try:
                status, _ = raw_exchange(port, request, SLOWEST)
            except TimeoutError:
                status = -1
            return status, time.perf_counter() - started, request

        for _ in range(options.idle):
            with suppress(OSError):
                held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
        over, waited, failed = threading.Event(), [], []
        healthy = threading.Thread(target=ask_healthily, args=(port, over, waited, failed))
        quiet = quiet_seconds(port)
        healthy.start()
        answers, memory = [], []
        for part in range(10):
            answers += clients.map(send, requests[part * len(requests) // 10 : (part + 1) * len(requests) // 10])
            memory.append(memory_mb(process))
        over.set()
        healthy.join()
    statuses = Counter(status for status, _, _ in answers)
    bad = [(status, request[:200]) for status, _, request in answers if status is not None and status >= 500]
    hangs = statuses[-1]
    figures = {
        "requests": len(answers),
        "idle_connections": options.idle,
        "server_errors": len(bad),
        "hangs": hangs,
        "slowest_s": max(seconds for _, seconds, _ in answers),
        "healthy_requests": len(waited),
        "healthy_failures": len(failed),
        "healthy_p50_ms": 1000 * float(np.median(waited)),
        "healthy_p99_ms": 1000 * float(np.quantile(waited, 0.99)),
        "healthy_slowest_ms": 1000 * max(waited),
        "quiet_slowest_ms": 1000 * quiet,
        "memory_first_mb": memory[0],
        "memory_last_mb": memory[-1],
    }
    print(f"{len(answers)} requests: " + ", ".join(f"{n} x {status}" for status, n in statuses.most_common()))
    for name, value in figures.items():
        print(f"{name}: {value:.6g}")
    if options.record:
        record_measurement(options.record, "hostile", options.model.name, figures)
    for status, request in bad[:10]:
        print(status, request)
    return 0 if not failed and not bad and not hangs and memory[-1] < memory[WARM - 1] + 50 else 1


def quiet_seconds(port: int) -> float:
    """The slowest of a hundred answers when nothing hostile is sent: what this machine takes as it is."""
    over, waited = threading.Event(), []
    asking = threading.Thread(target=ask_healthily, args=(port, over, waited, []))
    asking.start()
    while len(waited) < 100:
        time.sleep(PAUSE)
    over.set()
    asking.join()
    return max(waited)


def ask_healthily(port: int, over: threading.Event, waited: list[float], failed: list[object]) -> None:
    questions = itertools.cycle((HEALTH, PREDICT))
    while not over.is_set():
        started = time.perf_counter()
        try:
            status, _ = raw_exchange(port, next(questions))
        except OSError as error:
            status = error
        waited.append(time.perf_counter() - started)
        if status != 200:
            failed.append(status)
        time.sleep(PAUSE)


if __name__ == "__main__":
    sys.exit(main())
