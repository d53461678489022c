"""Counters of all worker processes in one piece of shared memory, printed as Prometheus reads them."""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["FAILED_RELOADS", "IN_FLIGHT", "RELOADS", "ROUTES", "ROWS", "Telemetry"]

ROUTES = ("predict", "explain", "labels", "relations", "map", "model", "health", "metrics", "openapi", "page", "other")
STATUSES = (200, 304, 400, 401, 404, 405, 408, 413, 415, 500, 503)
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
ROWS, RELOADS, FAILED_RELOADS, RESIDENT, IN_FLIGHT = range(5)

N_PLAIN = 5
PER_ROUTE = len(STATUSES) + len(BUCKETS) + 2


class Telemetry:
    """One row of counters a worker. Made before the workers are, so that all of them see it.

    Parameters
    ----------
    n_workers : int
    """

    def __init__(self, n_workers: int = 1) -> None:
        width = N_PLAIN + len(ROUTES) * PER_ROUTE
        memory = mmap.mmap(-1, 8 * n_workers * width)
        self._all: NDArray[np.float64] = np.frombuffer(memory, dtype=np.float64).reshape(n_workers, width)
        self.worker = 0

    @property
    def _mine(self) -> NDArray[np.float64]:
        return self._all[self.worker]

    def count(self, counter: int, amount: float = 1.0) -> None:
        """Add to one of the plain counters."""
        self._mine[counter] += amount

    def observe(self, route: str, status: int, seconds: float) -> None:
        """One answered request."""
        start = N_PLAIN + ROUTES.index(route) * PER_ROUTE
        known = STATUSES.index(status) if status in STATUSES else STATUSES.index(500 if status >= 500 else 400)
        self._mine[start + known] += 1
        start += len(STATUSES)
        self._mine[start + int(np.searchsorted(BUCKETS, seconds))] += 1
        self._mine[start + len(BUCKETS) + 1] += seconds

    def text(self, version: str) -> str:
        """All counters of all workers, in Prometheus' text format."""
        self._mine[RESIDENT] = _resident_bytes()
        return "".join(f"{line}\n" for line in self._lines(version))

    def _lines(self, version: str) -> Iterator[str]:
        total = self._all.sum(axis=0)
        plain = (
            ("sldl_rows_total", "counter", "Inputs predicted.", ROWS),
            ("sldl_reloads_total", "counter", "New versions of the model taken up, by all workers.", RELOADS),
            ("sldl_reload_failures_total", "counter", "New versions that could not be read.", FAILED_RELOADS),
            ("sldl_requests_in_flight", "gauge", "Requests being answered.", IN_FLIGHT),
            (
                "sldl_resident_bytes",
                "gauge",
                "Memory of the workers, shared pages counted for each.",
                RESIDENT,
            ),
        )
        for name, kind, meaning, at in plain:
            yield from _head(name, kind, meaning)
            yield f"{name} {total[at]:.17g}"
        yield from _head("sldl_model_info", "gauge", "The version that this worker serves.")
        yield f'sldl_model_info{{version="{version}"}} 1'
        by_route = total[N_PLAIN:].reshape(len(ROUTES), PER_ROUTE)
        yield from _head("sldl_requests_total", "counter", "Requests by route and status.")
        for route, row in zip(ROUTES, by_route, strict=True):
            for status, number in zip(STATUSES, row, strict=False):
                if number:
                    yield f'sldl_requests_total{{route="{route}",status="{status}"}} {number:.17g}'
        yield from _head("sldl_request_seconds", "histogram", "Time from the whole head of a request to its answer.")
        for route, row in zip(ROUTES, by_route, strict=True):
            hits = np.cumsum(row[len(STATUSES) : -1])
            if hits[-1]:
                for bound, number in zip((*BUCKETS, "+Inf"), hits, strict=True):
                    yield f'sldl_request_seconds_bucket{{route="{route}",le="{bound}"}} {number:.17g}'
                yield f'sldl_request_seconds_sum{{route="{route}"}} {row[-1]:.17g}'
                yield f'sldl_request_seconds_count{{route="{route}"}} {hits[-1]:.17g}'


def _head(name: str, kind: str, meaning: str) -> tuple[str, str]:
    return f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"


def _resident_bytes() -> float:
    """Resident memory of this process; 0 on systems that do not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return float(pages * os.sysconf("SC_PAGE_SIZE"))
