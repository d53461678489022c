"""The newest whole version of a model folder that others may replace at any time."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pysldl.exceptions import SLDLError
from pysldl.serve.examples import DataExamples
from pysldl.serve.served_model import ServedModel, open_version
from pysldl.serve.telemetry import FAILED_RELOADS, RELOADS, Telemetry

__all__ = ["ModelSource"]

logger = logging.getLogger("pysldl.serve")

Identity = tuple[int, int, int]


class ModelSource:
    """Holds the current version, and exchanges it between requests.

    A request takes :attr:`current` once and keeps it: the version cannot change under its hands. The files of a
    replaced version stay readable, as they are mapped, until the last request that uses them is done.

    Parameters
    ----------
    path : Path
        The model folder.
    counters : Telemetry, optional
        Where new versions, and those that could not be read, are counted.
    examples : DataExamples, optional
        What the rows of the fit said. Later versions show it too, as far as they begin with these rows.

    Attributes
    ----------
    current : ServedModel
    problem : str or None
        Why the newest version in the folder cannot be served.
    """

    def __init__(self, path: Path, counters: Telemetry | None = None, examples: DataExamples | None = None) -> None:
        self.path = path.resolve()
        self._seen = self._identity()
        self._examples = examples
        self.current = self._open()
        if examples is not None:
            examples.require(self.current.manifest, self.current.classifier.n_samples_)
        self.problem: str | None = None
        self._counters = counters or Telemetry()

    async def watch(self, poll: float) -> None:
        """Look at the folder again and again, until canceled."""
        with ThreadPoolExecutor(1, thread_name_prefix="sldl-reload") as loader:
            loop = asyncio.get_running_loop()
            while True:
                await asyncio.sleep(poll)
                await loop.run_in_executor(loader, self.refresh)

    def refresh(self) -> None:
        """Serve what is in the folder now, if it is new and whole; else stay with what is served."""
        found = self._identity()
        if found is None or found == self._seen:  # nothing is there between the two renames of a replacement
            return
        self._seen = found
        try:
            fresh = self._open()
            fresh.warm_up()
        except (SLDLError, OSError) as error:
            self.problem = str(error)
            self._counters.count(FAILED_RELOADS)
            logger.warning("the new version is not served: %s", error)
            return
        self.problem = None
        if fresh.version != self.current.version:
            self.current = fresh
            self._counters.count(RELOADS)
            logger.info("now serving version %s", fresh.version)

    def _open(self) -> ServedModel:
        fresh, examples = open_version(self.path), self._examples
        if examples is None or not examples.fit_to(fresh.manifest, fresh.classifier.n_samples_):
            return fresh
        return replace(fresh, examples=examples)

    def _identity(self) -> Identity | None:
        with suppress(OSError):
            status = (self.path / "manifest.json").stat()
            return status.st_ino, status.st_mtime_ns, status.st_size
        return None
