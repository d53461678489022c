"""One row a call, as a service is asked: what does a peer take for it? On one thread, with a model that is kept.

The model is trained when its folder is not there yet; training does not count. A row is cut out before the clock
starts; what a peer needs to take it and to give its answer counts.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from task import Task

from measuring import Clock, answer

__all__ = ["WORKER", "one_by_one", "spread"]

WORKER = Path(__file__).resolve()


def spread(seconds: list[float]) -> dict[str, float]:
    """Milliseconds: the mean, the middle one and the slow end."""
    p50, p99 = np.percentile(seconds, [50, 99]) * 1000
    return {"mean_ms": 1000 * float(np.mean(seconds)), "p50_ms": float(p50), "p99_ms": float(p99)}


def one_by_one(predict: Callable[[Any], Any], rows: Sequence[Any]) -> dict[str, float]:
    """Times of one call a row; the processor time of a call, too, which a busy machine changes less."""
    for row in rows:  # once before, so that everybody has in memory what the rows touch
        predict(row)
    taken = []
    before = process_time()
    for row in rows:
        started = perf_counter()
        predict(row)
        taken.append(perf_counter() - started)
    return {**spread(taken), "processor_ms": 1000 * (process_time() - before) / len(rows)}


def measure(options: dict[str, Any]) -> dict[str, Any]:
    task = Task.read(options["task"])
    adapter = importlib.import_module(f"systems.{options['adapter']}")
    system = adapter.SYSTEM(options["specification"], 1, Clock())
    model = Path(options["model"])
    if not model.exists():
        system.prepare(task)
        system.train(task, model)
        system.save(model)
    system.load(model)
    rows = [task.X_test[[row]] for row in range(min(options["rows"], task.X_test.shape[0]))]
    return one_by_one(lambda row: system.predict(row, options["k"]), rows)


if __name__ == "__main__":
    answer(measure)
