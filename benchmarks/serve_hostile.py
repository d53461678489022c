"""Does a service survive what nobody should send? Ten thousand hostile requests, no 5xx, no hang, no growth."""

import argparse
import random
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pysldl.persistence import read_manifest

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "serve"))
from hostile import hostile_requests, raw_exchange

from records import add_record_option
from serve_load import memory_mb, record_measurement, service

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
SLOWEST = 15.0
# Tenths until every worker has what it loads beside its first answers.
WARM = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="model folder that sldl fit wrote")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    add_record_option(parser, "serving.csv")
    options = parser.parse_args()
    n_features = read_manifest(options.model).n_features or 1
    requests = list(hostile_requests(random.Random(options.seed), options.requests, n_features))

    def send(request: bytes) -> tuple[int | None, float, bytes]:
        started = time.perf_counter()
        status, _ = raw_exchange(port, request)
        return status, time.perf_counter() - started, request

    with service(options.model, 2, HEALTH) as (port, process, _), ThreadPoolExecutor(options.clients) as clients:
        answers, memory = [], []
        for part in range(10):
            answers += clients.map(send, requests[part * len(requests) // 10 : (part + 1) * len(requests) // 10])
            memory.append(memory_mb(process))
        alive = raw_exchange(port, HEALTH)[0] == 200
    statuses = Counter(status for status, _, _ in answers)
    bad = [(status, request[:200]) for status, _, request in answers if status is not None and status >= 500]
    slowest = max(seconds for _, seconds, _ in answers)
    print(f"{len(answers)} requests: " + ", ".join(f"{n} x {status}" for status, n in statuses.most_common()))
    print(f"slowest {slowest:.2f} s; memory after each tenth: {', '.join(f'{at:.0f}' for at in memory)} MB")
    if options.record:
        figures = {
            "requests": len(answers),
            "server_errors": len(bad),
            "slowest_s": slowest,
            "memory_first_mb": memory[0],
            "memory_last_mb": memory[-1],
        }
        record_measurement(options.record, "hostile", options.model.name, figures)
    for status, request in bad[:10]:
        print(status, request)
    return 0 if alive and not bad and slowest < SLOWEST and memory[-1] < memory[WARM - 1] + 50 else 1


if __name__ == "__main__":
    sys.exit(main())
