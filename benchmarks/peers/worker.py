"""One system, one task, in the system's own environment: train, save, predict."""

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from task import Task

from measuring import Clock, answer

DEPTH = 5


def measure(options: dict[str, Any]) -> dict[str, Any]:
    """Times, memory and size on disk; the labels go into a file."""
    clock = Clock()
    adapter = importlib.import_module(f"systems.{options['adapter']}")
    system = adapter.SYSTEM(options["specification"], options["threads"], clock)
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch, "model")
        with clock("read"):
            task = Task.read(options["task"])
        with clock("warm-up"):
            system.warm_up(task)
        if options.get("only_warm_up"):
            return {}
        with clock("prepare"):
            system.prepare(task)
        with clock("train"):
            system.train(task, model)
        with clock("save"):
            system.save(model)
        model_bytes = sum(file.stat().st_size for file in model.rglob("*") if file.is_file())
        with clock("load"):
            system.load(model)
        with clock("predict"):
            labels = system.predict(task.X_test, DEPTH)
    np.save(options["labels"], labels)
    return {
        "warm_up_s": clock.seconds("warm-up"),
        "train_s": clock.seconds("train"),
        "predict_s": clock.seconds("predict"),
        "train_cpu_s": clock.processor_seconds("train"),
        "predict_cpu_s": clock.processor_seconds("predict"),
        "peak_mb": clock.peak_mb(),
        "model_mb": model_bytes / 2**20,
        "stages": clock.as_json(),
    }


if __name__ == "__main__":
    answer(measure)
