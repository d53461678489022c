"""Is every good version served, and no damaged one? A model is replaced again and again, one time in five by damage.

Beside it, clients ask without pause on new connections. A good version must be served within three seconds; behind an
answer of one version no request may be answered by an earlier one; and `/health` must say what is wrong while, and only
while, the newest version is damaged.
"""

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from pysldl.baselines.controls import LabelPrior
from pysldl.persistence import current_version, save_model

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "serve"))
from hostile import raw_exchange

from records import add_record_option
from serve_load import record_measurement, service

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
LIMIT = 3.0
PATIENCE = 30.0


def health(port: int) -> dict[str, str | None]:
    return json.loads(raw_exchange(port, HEALTH)[1])


def watch(port: int, over: threading.Event, seen: list[tuple[float, float, str]], failed: list[object]) -> None:
    """Note when each request was sent and answered, and by which version."""
    while not over.is_set():
        sent = time.perf_counter()
        try:
            status, body = raw_exchange(port, HEALTH)
        except OSError as error:
            failed.append(error)
            continue
        if status != 200:
            failed.append(status)
        else:
            seen.append((sent, time.perf_counter(), json.loads(body)["version"]))
        time.sleep(0.005)


def damage(model: Path, source: Random) -> None:
    """Break a file of the newest version, or the pointer to it."""
    victims = [path for path in (*current_version(model).iterdir(), model / "current.json") if path.is_file()]
    victim = source.choice(sorted(victims))
    content = bytearray(victim.read_bytes())
    match source.randrange(3):
        case 0:
            content = content[: source.randrange(len(content))]
        case 1:
            content[source.randrange(len(content))] ^= 1 << source.randrange(8)
        case 2:
            content = bytearray()
    victim.write_bytes(content)


def wait_for(condition: Callable[[], bool], seconds: float) -> float:
    """Seconds until a condition holds; infinity where it does not."""
    started = time.perf_counter()
    while not condition():
        if time.perf_counter() - started > seconds:
            return float("inf")
        time.sleep(0.01)
    return time.perf_counter() - started


def n_returns(seen: list[tuple[float, float, str]]) -> int:
    """Requests that were answered by an earlier version than one that had answered before they were sent."""
    order: dict[str, int] = {}
    for _, _, version in sorted(seen, key=lambda one: one[1]):
        order.setdefault(version, len(order))
    events = sorted([(sent, 1, order[v]) for sent, _, v in seen] + [(end, 0, order[v]) for _, end, v in seen])
    newest, n = -1, 0
    for _, is_sent, number in events:
        if is_sent:
            n += number < newest
        else:
            newest = max(newest, number)
    return n


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reloads", type=int, default=1000)
    parser.add_argument("--poll", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    add_record_option(parser, "serving.csv")
    options = parser.parse_args()
    source = Random(options.seed)
    waits, wrong, n_damaged, seen, failed = [], 0, 0, [], []
    with tempfile.TemporaryDirectory() as scratch:
        model, staged = Path(scratch, "model"), Path(scratch, "staged")

        def save(number: int, path: Path) -> None:
            fitted = LabelPrior().fit([[1.0], [2.0], [3.0]], [[1, 0], [1, 1], [0, 1]], label_names=["a", f"b{number}"])
            save_model(fitted, path, extra={"number": number}, overwrite=True)

        save(0, model)
        with service(model, 2, HEALTH, "--poll", str(options.poll)) as (port, _, _):
            over = threading.Event()
            watchers = [threading.Thread(target=watch, args=(port, over, seen, failed)) for _ in range(2)]
            for watcher in watchers:
                watcher.start()
            for number in range(1, options.reloads + 1):
                before = health(port)["version"]
                if number % 5 == 0:
                    # Damage is put in place with the version: what was whole for a moment may rightly be served.
                    n_damaged += 1
                    shutil.rmtree(staged, ignore_errors=True)
                    save(number, staged)
                    damage(staged, source)
                    shutil.copytree(staged / "versions", model / "versions", dirs_exist_ok=True)
                    (staged / "current.json").replace(model / "current.json")
                    told = wait_for(lambda: health(port)["problem"] is not None, PATIENCE)
                    now = health(port)
                    wrong += told == float("inf") or now["version"] != before
                    (model / "current.json").unlink()  # which says nothing any more, so that a save replaces it
                else:
                    save(number, model)
                    waits.append(wait_for(lambda old=before: health(port)["version"] != old, PATIENCE))
                    wrong += wait_for(lambda: health(port)["problem"] is None, LIMIT) == float("inf")
                if number % 100 == 0:
                    print(f"{number} of {options.reloads}: slowest {max(waits):.2f} s, {wrong} wrong", file=sys.stderr)
            over.set()
            for watcher in watchers:
                watcher.join()
    figures = {
        "reloads": options.reloads,
        "damaged": n_damaged,
        "median_s": sorted(waits)[len(waits) // 2],
        "slowest_s": max(waits),
        "slower_than_3_s": sum(wait > LIMIT for wait in waits),
        "wrong_health": wrong,
        "answers": len(seen),
        "returns_to_an_earlier_version": n_returns(seen),
        "failures": len(failed),
    }
    for name, value in figures.items():
        print(f"{name}: {value:.6g}")
    if options.record:
        record_measurement(options.record, "damaged reloads", "synthetic", figures)
    return 0 if not (wrong or failed or figures["returns_to_an_earlier_version"] or figures["slower_than_3_s"]) else 1


if __name__ == "__main__":
    sys.exit(main())
