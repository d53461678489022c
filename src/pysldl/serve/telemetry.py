"""Telemetry: counters of all worker processes for Prometheus, and an access log with a line of JSON a request."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pysldl._utils.files import try_lock
from pysldl.exceptions import DataError

PREFIX = "sldl-serve-"
LOCK = "lock"
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
TRIES = 5
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@contextmanager
def shared_folder() -> Iterator[Path]:
    """Make an empty folder for the counters of several processes, which goes when the block ends.

    What services that were killed left behind is removed first: their folders are no longer locked.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError), (left / LOCK).open("rb+") as lock:
            if try_lock(lock.fileno()):
                shutil.rmtree(left, ignore_errors=True)
    temporary = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
    with temporary as name:
        # Made under another name, so that no other service finds it before it is locked.
        lock_path = Path(name, f"{LOCK}.new")
        with lock_path.open("wb") as lock:
            try_lock(lock.fileno())  # workers inherit it, so that it is held until the last of them has ended
            lock_path.rename(Path(name, LOCK))
            yield Path(name)


class Telemetry:
    """Counters and times of a service.

    Workers write into files of one empty ``folder`` that they map into memory, so that what a killed worker counted
    stays; without a folder only this process is counted. A process has one.
    """

    def __init__(self, folder: Path | None = None) -> None:
        if folder is not None:
            os.environ[FOLDER_VARIABLE] = str(folder)  # prometheus_client reads it when it is imported
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._folder = folder
        self._registry = CollectorRegistry()
        where: dict[str, Any] = {"registry": self._registry}
        self.rows = Counter("sldl_rows", "Inputs predicted.", **where)
        self.reloads = Counter("sldl_reloads", "New versions of the model served.", **where)
        self.failed_reloads = Counter("sldl_reload_failures", "New versions that could not be read.", **where)
        live = where | {"multiprocess_mode": "livesum"}
        self.in_flight = Gauge("sldl_requests_in_flight", "Requests being answered.", **live)
        self._resident = Gauge("sldl_resident_bytes", "Memory of the workers; shared pages count for each.", **live)
        self._requests = Counter("sldl_requests", "Requests by route and status.", ["route", "status"], **where)
        self._children: dict[tuple[str, int], tuple[Any, Any]] = {}
        self._seconds = Histogram(
            "sldl_request_seconds",
            "Time from the complete head of a request to its response.",
            ["route"],
            buckets=BUCKETS,
            **where,
        )

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count and time one request."""
        counters = self._children.get((route, status))
        if counters is None:
            counters = self._requests.labels(route, str(status)), self._seconds.labels(route)
            self._children[route, status] = counters
        counters[0].inc()
        counters[1].observe(seconds)

    def text(self, version: str) -> str:
        """Return the counters of all workers in Prometheus' text format, with the version that this one serves."""
        from prometheus_client import CollectorRegistry, generate_latest

        self._resident.set(_resident_bytes())
        registry = self._registry
        if self._folder is not None:
            registry = CollectorRegistry()
            registry.register(_SharedCounters(self._folder))
        # In several processes the library has no metric that each of them tells on its own.
        served = f'# TYPE sldl_model_info gauge\nsldl_model_info{{version="{version}"}} 1.0\n'
        return generate_latest(registry).decode() + served

    def remove_folder(self) -> None:
        """Remove the folder that the processes share, for a parent that was killed."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def forget_worker(self, process: int) -> None:
        """Leave a worker that has ended out of the gauges; its counters stay."""
        if self._folder is not None:
            from prometheus_client.multiprocess import mark_process_dead

            mark_process_dead(process, str(self._folder))  # type: ignore[no-untyped-call]


class _SharedCounters:
    """The counters of all processes. A file without content is that of a worker which starts or was killed there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def collect(self) -> Any:
        """Return the sums over the processes."""
        from prometheus_client.multiprocess import MultiProcessCollector

        for attempt in range(TRIES):
            try:
                files = [str(path) for path in self.folder.glob("*.db") if path.stat().st_size]
                return MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
            except FileNotFoundError:  # the parent removes the gauges of a worker that has ended
                if attempt == TRIES - 1:
                    raise
        return ()


def _resident_bytes() -> float:
    """Return the resident memory of this process; 0 on systems that do not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return float(pages * os.sysconf("SC_PAGE_SIZE"))


class AccessLog:
    """Writes who asked for what, when, how long it took and how it ended; never texts, labels or queries.

    The path "-" is standard error. Several processes may write to one file: a line is one write.

    Examples
    --------
    >>> import json, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = AccessLog(Path(folder, "access.log"))
    ...     log.write(client="127.0.0.1", method="POST", route="predict", status=200, seconds=0.00123456)
    ...     line = json.loads(Path(folder, "access.log").read_text())
    >>> line["route"], line["status"], line["seconds"]
    ('predict', 200, 0.001235)
    """

    def __init__(self, path: Path) -> None:
        if str(path) == "-":
            self._handle = sys.stderr.fileno()
            return
        try:
            self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
        except OSError as error:
            raise DataError(f"{path}: the access log cannot be written there: {error.strerror or error}.") from error

    def write(self, *, seconds: float, **fields: Any) -> None:
        """Append one line; a disk that is full does not stop the service."""
        when = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": when, **fields, "seconds": round(seconds, 6)}, separators=(",", ":"))
        try:
            os.write(self._handle, f"{line}\n".encode("ascii"))
        except OSError:
            return
