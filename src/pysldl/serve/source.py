"""The version of a model that is served, and the watch over newer ones."""

import mmap
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pysldl.exceptions import DataError, ModelFormatError
from pysldl.persistence import current_version
from pysldl.serve.examples import DataExamples
from pysldl.serve.served_model import ServedModel, open_version

SLOWEST_RETRY = 60.0
NUMBER_BYTES = 8

Found = tuple[Path, int, int, int]


class ModelSource:
    """Versions that this process holds, and the number of the one that is served, which all processes share.

    The number lies in memory that forked processes have in common, so that all workers change to another version at the
    same moment. A request reads :attr:`current` once and keeps it, so that its version cannot change, and stays in
    memory until the last request that uses it is done. The processes share one sealed copy of its arrays.

    Later versions show the ``examples`` as long as they begin with these rows; a ``DataError`` says where they are not
    the rows that the model was fitted on. ``problem`` says why the newest version is not served, without names of
    files.
    """

    def __init__(self, path: Path, examples: DataExamples | None = None) -> None:
        self.path = path.absolute()  # links are followed each time, so that one that is turned is noticed
        self.problem: str | None = None
        self._examples = examples
        self._shared = mmap.mmap(-1, NUMBER_BYTES)
        first = open_version(current_version(path), self.name)
        if examples is not None:
            if problem := examples.problem(first.manifest, first.classifier.n_samples_):
                raise DataError(problem)
            first = replace(first, examples=examples)
        self._models = {0: first}
        self._close_copies()

    @property
    def name(self) -> str:
        """What the model is called: the name of its folder."""
        return self.path.name or self.path.resolve().name

    @property
    def number(self) -> int:
        """Number of the version that is served."""
        return int.from_bytes(self._shared[:NUMBER_BYTES], "little")

    @property
    def current(self) -> ServedModel:
        """The version that is served."""
        return self._models[self.number]

    def load(self, number: int, folder: Path, arrays: Path | None = None) -> Path | None:
        """Load a version and keep it beside the one that is served.

        ``arrays`` is a sealed copy of its arrays that another process made. Returns where other processes find one,
        until :meth:`keep` is called.
        """
        fresh = open_version(folder, self.name, arrays)
        fresh.warm_up()
        rows = fresh.classifier.n_samples_
        if self._examples is not None and self._examples.problem(fresh.manifest, rows) is None:
            fresh = replace(fresh, examples=self._examples)
        self._models = self._models | {number: fresh}
        return None if fresh.frozen is None else fresh.frozen.path

    def serve(self, number: int) -> None:
        """Let all processes serve a version that they hold."""
        self._shared[:NUMBER_BYTES] = number.to_bytes(NUMBER_BYTES, "little")

    def keep(self, number: int) -> None:
        """Drop all versions but one."""
        self._models = {number: self._models[number]}
        self._close_copies()

    def _close_copies(self) -> None:
        """All processes have their arrays, so that the memory may go with the last of them."""
        for model in self._models.values():
            if model.frozen is not None:
                model.frozen.close()


class FolderWatch:
    """Finds out when a model folder has a version that should be tried, and when to try one again that failed.

    The folder may be a link that is turned to another one. After ``pause`` seconds a version that failed is tried
    again; they double with every failure, up to a minute.
    """

    def __init__(self, path: Path, pause: float) -> None:
        self._path, self._pause = path, pause
        self._served: Found | None = None
        self._failed: Found | None = None
        self._n_failures, self._retry_at = 0, 0.0
        with suppress(ModelFormatError):
            self._served = self._look()
        self._tried = self._served

    @property
    def is_failing(self) -> bool:
        """Whether the version in the folder was tried and failed."""
        return self._failed is not None

    def find(self) -> Path | None:
        """Return the folder of a version to try now; None where nothing is new; an error where none is current."""
        found = self._look()
        if found == self._served:
            self._failed = None
            return None
        if found == self._failed and time.monotonic() < self._retry_at:
            return None
        self._tried = found
        return found[0]

    def note_success(self) -> None:
        """Note that the version which was found last is served now."""
        self._served, self._failed = self._tried, None

    def note_failure(self) -> bool:
        """Note that the version which was found last cannot be served; return whether that is new."""
        is_new = self._tried != self._failed
        self._n_failures = 1 if is_new else self._n_failures + 1
        self._failed = self._tried
        self._retry_at = time.monotonic() + min(SLOWEST_RETRY, self._pause * 2 ** min(self._n_failures - 1, 16))
        return is_new

    def _look(self) -> Found:
        folder = current_version(self._path)
        try:
            status = (folder / "manifest.json").stat()
        except OSError:
            return folder, 0, 0, 0
        return folder, status.st_ino, status.st_mtime_ns, status.st_size


def described(error: BaseException | int) -> str:
    """Return why a version is not served: a sentence for everybody, so without names of files.

    ``error`` is an exception, or the number of the signal that ended the attempt.
    """
    if isinstance(error, int):
        reason = f"loading it ended by signal {error}"
    elif isinstance(error, ModelFormatError):
        reason = "it is damaged, or of another format"
    elif isinstance(error, MemoryError):
        reason = "there is not enough memory for it"
    elif isinstance(error, TimeoutError):
        reason = "loading it took too long"
    else:
        reason = f"loading it failed with {type(error).__name__}"
    return f"The newest version of the model is not served: {reason}. The log of the service says more."
