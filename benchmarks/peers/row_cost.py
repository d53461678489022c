"""One system trained on the first rows of a task, in the system's own environment: processor seconds of its stages."""

import importlib
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from task import Task

from measuring import Clock, answer

__all__ = ["WORKER"]

WORKER = Path(__file__).resolve()


def measure(options: dict[str, Any]) -> dict[str, Any]:
    task, n_rows = Task.read(options["task"]), options["rows"]
    task = replace(task, X=task.X[:n_rows], Y=task.Y[:n_rows])
    clock = Clock(process_time)
    system = importlib.import_module(f"systems.{options['adapter']}").SYSTEM(
        options["system"], options["threads"], clock
    )
    system.warm_up(task)
    system.prepare(task)
    with tempfile.TemporaryDirectory() as scratch, clock("train"):
        system.train(task, Path(scratch, "model"))
    stages = {path.rpartition("/")[2]: spent["seconds"] for path, spent in clock.as_json().items() if "train/" in path}
    return {"train_processor_s": clock.seconds("train"), "peak_mb": clock.peak_mb("train"), "stages": stages}


if __name__ == "__main__":
    answer(measure)
