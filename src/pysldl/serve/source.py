"""The newest complete version of a model folder that may be replaced at any time."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from pysldl.exceptions import DataError, ModelFormatError
from pysldl.persistence import current_version
from pysldl.serve.examples import DataExamples
from pysldl.serve.served_model import open_version
from pysldl.serve.telemetry import Telemetry

__all__ = ["ModelSource"]

logger = logging.getLogger("pysldl.serve")


class ModelSource:
    """Holds the current version, and replaces it between requests.

    A request reads :attr:`current` once and keeps it, so that its version cannot change. The files of a replaced
    version are mapped and stay readable until the last request that uses them is done.

    Parameters
    ----------
    path : Path
        The model folder.
    examples : DataExamples, optional
        Snippets of the training rows; later versions show them as long as they begin with these rows.

    Attributes
    ----------
    current : ServedModel
    problem : str or None
        Why the newest version in the folder cannot be served.

    Raises
    ------
    DataError
        The examples are not the rows that the model was fitted on.
    """

    def __init__(self, path: Path, examples: DataExamples | None = None) -> None:
        self.path = path.absolute()  # links are followed each time, so that one that is turned is noticed
        self._seen = self._identity()
        self._examples = examples
        self.current = open_version(self.path)
        if examples is not None:
            if problem := examples.problem(self.current.manifest, self.current.classifier.n_samples_):
                raise DataError(problem)
            self.current = replace(self.current, examples=examples)
        self.problem: str | None = None

    async def watch(self, poll: float, telemetry: Telemetry) -> None:
        """Check the folder every ``poll`` seconds, until canceled."""
        with ThreadPoolExecutor(1, thread_name_prefix="sldl-reload") as loader:
            loop = asyncio.get_running_loop()
            while True:
                await asyncio.sleep(poll)
                await loop.run_in_executor(loader, self.refresh, telemetry)

    def refresh(self, telemetry: Telemetry) -> None:
        """Serve what is in the folder now, if it is new and complete; else keep what is served."""
        found = self._identity()
        if found == self._seen:
            return
        self._seen = found
        try:
            fresh = open_version(self.path)
            fresh.warm_up()
        except Exception as error:  # whatever is wrong with this version, the next one may be good
            self.problem = str(error) or type(error).__name__
            telemetry.failed_reloads.inc()
            logger.warning("the new version is not served: %s", self.problem)
            return
        self.problem = None
        if fresh.version != self.current.version:
            rows = fresh.classifier.n_samples_
            if self._examples is not None and self._examples.problem(fresh.manifest, rows) is None:
                fresh = replace(fresh, examples=self._examples)
            self.current = fresh
            telemetry.reloads.inc()
            logger.info("now serving version %s", fresh.version)

    def _identity(self) -> Path | str:
        """What changes whenever the folder leads to another version, or to none for another reason."""
        try:
            return current_version(self.path)
        except ModelFormatError as error:
            return str(error)
