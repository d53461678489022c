"""Time and memory of work that runs in a process of its own. Standard library only: peers do not have pysldl."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

__all__ = ["Clock", "WorkerError", "answer", "measured_apart"]

PROCESS_STATUS = Path("/proc/self/status")
PROCESS_PEAK = Path("/proc/self/clear_refs")


@dataclass
class Spent:
    """Seconds, processor seconds of all threads, and the highest resident memory of the process meanwhile, in MiB."""

    seconds: float = 0.0
    processor_s: float = 0.0
    peak_mb: float = 0.0


class Clock:
    """Charges time and memory to whatever is under way.

    ``with clock("train"):`` charges the block to "train"; a block inside it, ``with clock("map"):``, is charged to
    "train/map" and not to "train". Where the system cannot measure a peak anew (outside Linux), a peak is
    that of the process so far.

    Parameters
    ----------
    timer : callable
        Seconds so far: ``perf_counter``, or ``process_time`` for those of all threads of this process.
    """

    def __init__(self, timer: Callable[[], float] = perf_counter) -> None:
        self._timer = timer
        self.spent: dict[str, Spent] = {}
        self._open: list[str] = []
        self._since = self._processor_since = 0.0

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self._charge()
        self._open.append(name)
        try:
            yield
        finally:
            self._charge()
            self._open.pop()

    @property
    def innermost(self) -> str | None:
        """What is under way."""
        return self._open[-1] if self._open else None

    def seconds(self, name: str) -> float:
        """Seconds spent on ``name``, with all that was inside it."""
        return sum(spent.seconds for path, spent in self.spent.items() if _inside(path, name))

    def processor_seconds(self, name: str) -> float:
        """Processor seconds of all threads spent on ``name``, which a busy machine changes less."""
        return sum(spent.processor_s for path, spent in self.spent.items() if _inside(path, name))

    def peak_mb(self, name: str | None = None) -> float:
        """Highest memory during ``name``, or during everything that was charged."""
        return max(spent.peak_mb for path, spent in self.spent.items() if name is None or _inside(path, name))

    def as_json(self) -> dict[str, dict[str, float]]:
        """``{path: {"seconds", "peak_mb"}}``, in the order of first use."""
        return {path: vars(spent) for path, spent in self.spent.items()}

    def _charge(self) -> None:
        now = self._timer()
        if self._open:
            spent = self.spent.setdefault("/".join(self._open), Spent())
            spent.seconds += now - self._since
            spent.processor_s += process_time() - self._processor_since
            spent.peak_mb = max(spent.peak_mb, _process_peak_mb())
        with suppress(OSError):
            PROCESS_PEAK.write_text("5")
        self._since, self._processor_since = self._timer(), process_time()


def _inside(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}/")


def _process_peak_mb() -> float:
    # Not ru_maxrss: it starts at the memory of the process that started this one.
    with suppress(OSError):
        for line in PROCESS_STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


class WorkerError(RuntimeError):
    """Work in a process of its own did not finish."""


def measured_apart(
    script: str | Path, options: dict[str, Any], *, python: str | Path = sys.executable, threads: int = 2
) -> dict[str, Any]:
    """Run ``script --worker OPTIONS RESULT`` in a process of its own and return what it answers.

    The process uses at most ``threads`` threads. What it prints is dropped, but for the reason of a failure.
    """
    limits = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS"),
        str(threads),
    )
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        command = [str(python), str(script), "--worker", json.dumps(options), str(result)]
        process = subprocess.run(
            command, env=os.environ | limits, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
        )
        if process.returncode or not result.exists():
            lines = process.stderr.strip().splitlines() or ["no message"]
            raise WorkerError(f"{lines[-1]} (exit code {process.returncode})")
        return json.loads(result.read_text())


def answer(measure: Callable[[dict[str, Any]], dict[str, Any]]) -> bool:
    """The other end of :func:`measured_apart`: whether this process is a worker, in which case it has done its work."""
    if sys.argv[1:2] != ["--worker"]:
        return False
    options, result = sys.argv[2:]
    Path(result).write_text(json.dumps(measure(json.loads(options))))
    return True
