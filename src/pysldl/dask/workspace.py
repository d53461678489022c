"""The workspace of a cluster: arrays are files that all workers see, parts are Dask tasks."""

import secrets
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, TypeVar

from numpy.typing import DTypeLike, NDArray

from pysldl._utils.memory import available_memory, resident_memory
from pysldl._utils.progress import Progress, ProgressCallback
from pysldl.backend.threads import at_most_threads
from pysldl.backend.workspace import Workspace
from pysldl.dask.cluster import clear_errors, n_workers, wait_for_cancelled, watching_workers
from pysldl.dask.transport import (
    Packed,
    forget_maps,
    n_bytes,
    new_array,
    new_unwritten_array,
    pack,
    release_pages,
    unpack,
    unpacked,
)
from pysldl.exceptions import DataError

SHARDS_PER_WORKER = 4
QUEUED_PER_THREAD = 2  # tasks: of more than these Dask queues those of a stage, and gives them to whoever has time
HERE_BYTES = 1 << 26  # that the client goes through by itself: in a tenth of a second, as many as ten tasks cost
MOST_RESIDENT = 0.3  # of a worker's budget, with which it begins the next task
MOST_WITHIN_TASK, LEAST_GIVEN_BACK = 0.6, 0.1  # of the same, before it gives back as much as this within a task
SECONDS_BETWEEN_LOOKS = 0.1

T = TypeVar("T")


class FolderWorkspace(Workspace):
    """A process that puts new arrays into the files of a folder, which other processes map, too."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Make a file of zeros as an array."""
        return new_array(self.folder, shape, dtype)


class DaskWorkspace(FolderWorkspace):
    """Parts run on the workers of a Dask cluster; arrays lie in a folder that the client and all workers see.

    A worker that is lost loses nothing but the part it was at, which another one does again: it writes the same bytes
    to the same place. Whoever made the folder empties it.
    """

    def __init__(self, client: Any, folder: str, progress: ProgressCallback | None = None) -> None:
        super().__init__(folder)
        self.client = client
        self.progress = progress
        self.n_shards = SHARDS_PER_WORKER * n_workers(client)
        self.n_threads = sum(client.nthreads().values())

    def for_pass(self, *read: Any) -> "DaskWorkspace | ClientWorkspace":
        """Return a workspace of this process, unless ``read`` is large."""
        return ClientWorkspace(self.folder) if n_bytes(read) <= HERE_BYTES else self

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Begin ``function(*arguments)``; tasks among the arguments are waited for."""
        return self.client.submit(function, *arguments, pure=False)

    def clear_errors(self, stage: str) -> AbstractContextManager[None]:
        """Turn errors of Dask into one sentence each."""
        return clear_errors(self.client, stage)

    def share(self, value: Any) -> Any:
        """Prepare an argument of many tasks: large arrays become files."""
        return self.submit(same, pack(value, self.folder))

    def results(self, stage: str, begun: list[Any], names: Sequence[str], *, wanted: bool = True) -> list[Any]:
        """What became of tasks, see :func:`gather`."""
        return gather(self.client, stage, begun, names, self.progress, results=wanted)

    @contextmanager
    def folder_for_a_while(self) -> Iterator[str]:
        """Make a folder within the workspace for arrays that are not needed until the end of the fit."""
        folder = tempfile.mkdtemp(dir=self.folder)
        try:
            yield folder
        finally:
            forget_maps(folder)
            with suppress(Exception):  # a worker that was lost has no maps
                self.client.run(forget_maps, folder, on_error="ignore")
            shutil.rmtree(folder, ignore_errors=True)

    def map(self, stage: str, function: Callable[..., T], parts: Sequence[Any], *shared: Any) -> list[T]:
        """``[function(part, *shared) for part in parts]``, done by the workers; large results are mapped files.

        One part is done here: others would only be waited for.
        """
        if len(parts) <= 1:
            return super().map(stage, function, parts, *shared)
        token = f"{stage}-{secrets.token_hex(8)}"
        with clear_errors(self.client, stage):
            payload: Any = pack(shared, self.folder)
            if len(parts) > QUEUED_PER_THREAD * self.n_threads:
                # A task of its own, and not scattered: what is scattered is lost with the worker that has it. Of fewer
                # parts Dask gives all to the worker that has it, and so each part gets its own.
                payload = self.client.submit(same, payload, key=f"pysldl-shared-{token}", pure=False)
            # In one graph, and with keys in the order of the parts: Dask then gives a worker the next part when it has
            # time, and otherwise begins with the last ones.
            keys = [f"pysldl-{token}-{number:09d}" for number in range(len(parts))]
            arguments = ([same_for_all] * len(parts) for same_for_all in (payload, token, self.folder))
            functions = [function] * len(parts)
            futures = self.client.map(_run, functions, list(parts), *arguments, key=keys, pure=False)
            names = [f"part {number} of {len(futures)}" for number in range(1, len(futures) + 1)]
            found = [unpack(packed) for packed in gather(self.client, stage, futures, names, self.progress)]
        release_pages()  # of what this process has read since the stage before
        return found


class ClientWorkspace(FolderWorkspace):
    """The client itself, in a fit on a cluster; arrays become files when tasks of the cluster first need them."""

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Make an array in memory."""
        return new_unwritten_array(self.folder, shape, dtype)

    def submit(self, function: Callable[..., T], *arguments: Any) -> T:
        """Do it at once."""
        return function(*arguments)

    def clear_errors(self, stage: str) -> AbstractContextManager[None]:
        """Errors pass: there are none of Dask."""
        return nullcontext()

    def share(self, value: Any) -> Packed:
        """Leave the value where it is."""
        return Packed(value)

    def results(self, stage: str, begun: list[Any], names: Sequence[str], *, wanted: bool = True) -> list[Any]:
        """What was done at once."""
        return begun


def gather(
    client: Any,
    stage: str,
    futures: list[Any],
    names: Sequence[str],
    progress: ProgressCallback | None = None,
    *,
    results: bool = True,
) -> list[Any]:
    """Results of tasks in their order, with a report after each; the first error is raised, and the others cancelled.

    Errors call the tasks by their ``names``. Without ``results`` these stay where they are.
    """
    from distributed import as_completed

    name_of = {future.key: name for future, name in zip(futures, names, strict=True)}
    try:
        with watching_workers(client, stage, futures):
            for done, future in enumerate(as_completed(futures, loop=client.loop), start=1):
                if future.status != "finished":
                    with clear_errors(client, f"{stage}, {name_of[future.key]}"):
                        future.result()
                if progress is not None:
                    progress(Progress(stage, done, len(futures)))
            with clear_errors(client, stage):
                found: list[Any] = client.gather(futures) if results else []
    except BaseException as error:
        with suppress(Exception):  # where the cluster is gone, there is nothing to cancel
            client.cancel(futures, force=True)
            if isinstance(error, DataError):
                wait_for_cancelled(client)
        raise
    return found


def same(value: T) -> T:
    """The value as it is: a task that makes it anew where the worker that had it was lost."""
    return value


def _run(function: Callable[..., Any], part: Any, payload: Packed, token: str, folder: str) -> Packed:
    """One part, on a worker."""
    shared = unpacked(token, payload)
    with releasing_pages(), at_most_threads(1):  # Dask gives every core of a worker a task
        return pack(function(part, *shared), folder)


@contextmanager
def releasing_pages() -> Iterator[None]:
    """Give mapped pages back, where this process is a worker: after the block if it has grown to a third of its budget.

    Within the block they would soon be read again, so there it is done at more than half, and where it frees something.
    """
    from distributed import get_worker

    try:
        worker = get_worker()
    except ValueError:  # not on a cluster
        yield
        return
    limit = worker.memory_manager.memory_limit or available_memory() or sys.maxsize
    over = threading.Event()

    def watch() -> None:
        while not over.wait(SECONDS_BETWEEN_LOOKS):
            resident, mapped = resident_memory()
            if resident > MOST_WITHIN_TASK * limit and mapped > LEAST_GIVEN_BACK * limit:
                release_pages()

    threading.Thread(target=watch, name="pysldl-pages", daemon=True).start()
    try:
        yield
    finally:
        over.set()
        if worker.monitor.get_process_memory() > MOST_RESIDENT * limit:
            release_pages()
