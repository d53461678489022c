"""Clusters: one that is made for the occasion, one that runs, and what to say when one is lost."""

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pysldl._utils.memory import available_memory, parse_bytes
from pysldl.dask.transport import forget_maps
from pysldl.exceptions import ClusterError, MemoryLimitError, MissingDependencyError, SLDLError

LEFT_TO_THE_CLIENT = 0.2  # of the memory of the machine, when a local cluster is sized
SECONDS_TO_CONNECT = 20
SECONDS_BETWEEN_LOOKS, SECONDS_WITHOUT_WORKERS = 5, 300
SECONDS_FOR_CANCELLED = 10
FREED_BYTES_KEPT = 1 << 26  # by a worker, for the next arrays
MOST_DEATHS = 10  # of workers at one task, after which it is the task's fault


def require_dask() -> None:
    """Raise one sentence that names the extra where Dask is not installed."""
    try:
        import distributed  # noqa: F401

        import dask
    except ImportError as error:
        raise MissingDependencyError('This needs Dask: pip install "pysldl[dask]".') from error
    del dask


@contextmanager
def connect(
    where: str | None = "local", *, workers: int | None = None, worker_memory: int | str | None = None
) -> Iterator[Any]:
    """Open a client of a Dask cluster for the length of a block.

    Parameters
    ----------
    where : str, optional
        ``"local"``: processes of this machine, made for the block and ended with it. An address such as
        ``"tcp://10.0.0.1:8786"``: the scheduler of a cluster that runs. None: the client that the program has already,
        else ``"local"``.
    workers : int, optional
        Of a local cluster. Default: one for each core.
    worker_memory : int or str, optional
        Of each of them, for example ``"2 GB"``. Default: an equal part of four fifths of what is available.

    Yields
    ------
    distributed.Client
    """
    require_dask()
    from distributed import Client, LocalCluster

    import dask

    present = _present_client() if where is None else None
    if present is not None:
        yield present
        return
    if where not in (None, "local"):
        try:
            client = Client(where, timeout=SECONDS_TO_CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(f"{where}: no Dask scheduler answers there ({_said(error)}).") from error
        with client:
            _check_versions(client, str(where))
            yield client
        return
    count = workers or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))
    free = available_memory()
    limit = parse_bytes(worker_memory) if worker_memory else int((1 - LEFT_TO_THE_CLIENT) * free / count) if free else 0
    settings = {
        "distributed.scheduler.allowed-failures": MOST_DEATHS,
        # Pages of mapped files count as memory of a process though the system takes them back when it needs them, so
        # that a worker is not ended for them; the budget is kept by estimates, and by giving pages back.
        "distributed.worker.memory.terminate": False,
        "distributed.worker.memory.pause": False,
        # Who asks a worker that was killed for its results asks again and again for so long before it is made anew.
        "distributed.comm.timeouts.connect": f"{SECONDS_TO_CONNECT // 2}s",
        # So long after a worker was lost Dask looks whether it is there, and gives it up if not, even where it was lost
        # again a moment ago and is about to come back. Workers of this cluster always come back.
        "distributed.deploy.lost-worker-timeout": "1000d",
        # Dask looks at the stacks of its workers a hundred times a second, and at itself fifty times: nobody asks.
        "distributed.worker.profile.enabled": False,
        "distributed.admin.tick.interval": "1s",
        "distributed.admin.system-monitor.interval": "10s",
        "distributed.admin.system-monitor.gil.enabled": False,
        "distributed.worker.memory.monitor-interval": "1s",  # of what Dask itself keeps, which is little
        # Dask makes workers give every freed array back to the system, which costs more than to fill it.
        "distributed.nanny.pre-spawn-environ": {
            **dask.config.get("distributed.nanny.pre-spawn-environ"),
            "MALLOC_TRIM_THRESHOLD_": FREED_BYTES_KEPT,
            "MALLOC_MMAP_THRESHOLD_": FREED_BYTES_KEPT // 2,
        },
    }
    with (
        tempfile.TemporaryDirectory(prefix="pysldl-dask-") as folder,
        dask.config.set(settings),
        LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            memory_limit=limit,
            dashboard_address="127.0.0.1:0",
            local_directory=folder,
            silence_logs=50,
            protocol="tcp://",
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def workers_of(client: Any) -> dict[str, Any]:
    """Ask the scheduler what it knows of its workers, by their addresses.

    ``Client.scheduler_info`` returns an attribute that the client's own loop sets every few seconds, to none of them.
    """
    workers: dict[str, Any] = client.sync(client.scheduler.identity)["workers"]
    return workers


def n_workers(client: Any) -> int:
    """Return how many workers a cluster has; none is an error."""
    count = len(workers_of(client))
    if count == 0:
        raise ClusterError(f"{client.scheduler.address}: the Dask cluster has no worker. Start some, and try again.")
    return count


def memory_per_worker(client: Any) -> int | None:
    """Return the memory of the worker that has least, in bytes; None where none has a limit."""
    limits = [worker["memory_limit"] for worker in workers_of(client).values()]
    return min((limit for limit in limits if limit), default=None)


@contextmanager
def shared_folder(client: Any, scratch: str | os.PathLike[str] | None = None) -> Iterator[str]:
    """Make a folder that the client and all workers see; it is removed at the end.

    Parameters
    ----------
    client : distributed.Client
    scratch : path, optional
        Folder on a disk that all machines share, to make it in. Default: where this machine keeps temporary files.
    """
    with tempfile.TemporaryDirectory(prefix="pysldl-fit-", dir=scratch, ignore_cleanup_errors=True) as folder:
        Path(folder, "seen").touch()
        with clear_errors(client, "start"):
            seen = run_everywhere(client, _sees, folder)
        blind = [address for address, found in seen.items() if not found]
        if blind:
            raise ClusterError(
                f"The worker {blind[0]} does not see the folder {folder}. Pass scratch=, a folder on a disk that all "
                "machines of the cluster share."
            )
        try:
            yield folder
        finally:
            forget_maps(folder)
            with suppress(Exception):  # where the cluster is gone, its maps went with it
                client.run(forget_maps, folder, on_error="ignore")


@contextmanager
def clear_errors(client: Any, stage: str) -> Iterator[None]:
    """Turn errors of Dask into one sentence each; those of the library pass."""
    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    address = client.scheduler.address if client.scheduler is not None else "the scheduler"
    try:
        yield
    except KilledWorker as error:
        raise ClusterError(
            f"{stage}: workers were lost again and again at this task or one beside it. Most often they are out of "
            "memory: use fewer workers with more memory each, or smaller parts."
        ) from error
    except MemoryError as error:
        if isinstance(error, SLDLError):
            raise
        raise MemoryLimitError(
            f"{stage}: a worker has too little memory ({_said(error)}). Use fewer workers with more memory each, or "
            "smaller parts."
        ) from error
    except (CommClosedError, CancelledError, TimeoutError, ConnectionError) as error:
        raise ClusterError(f"{stage}: the connection to the Dask scheduler {address} was lost.") from error
    except Exception as error:
        if type(error).__name__ in ("FutureCancelledError", "FuturesCancelledError", "ClosedClientError"):
            raise ClusterError(f"{stage}: the connection to the Dask scheduler {address} was lost.") from error
        raise


@contextmanager
def watching_workers(client: Any, stage: str, futures: list[Any]) -> Iterator[None]:
    """Cancel futures when the cluster has had no worker for minutes, and say so: Dask itself would wait for ever.

    A worker that is killed while it starts is not started again by Dask.
    """
    over, lost = threading.Event(), threading.Event()

    def watch() -> None:
        seen = time.monotonic()
        while not over.wait(SECONDS_BETWEEN_LOOKS):
            with suppress(Exception):  # a scheduler that is gone is noticed by those who wait for results
                if workers_of(client):
                    seen = time.monotonic()
                elif time.monotonic() - seen > SECONDS_WITHOUT_WORKERS:
                    lost.set()
                    client.cancel(futures, force=True)
                    return

    watcher = threading.Thread(target=watch, name="pysldl-workers", daemon=True)
    watcher.start()
    try:
        yield
    except ClusterError as error:
        if lost.is_set():  # else a cancelled future looks like a lost connection
            raise ClusterError(f"{stage}: all workers of the Dask cluster were lost, and none came back.") from error
        raise
    finally:
        over.set()


def wait_for_cancelled(client: Any) -> None:
    """Wait a few seconds for cancelled tasks that workers have begun, so that none writes a file any more."""
    until = time.monotonic() + SECONDS_FOR_CANCELLED
    while time.monotonic() < until and any(client.run(_count_tasks, on_error="ignore").values()):
        time.sleep(0.05)


def _count_tasks(dask_worker: Any) -> int:
    return len(dask_worker.state.executing)


def run_everywhere(client: Any, function: Any, *arguments: Any) -> dict[str, Any]:
    """``function(*arguments)`` on every worker; again where one was lost meanwhile."""
    for _ in range(MOST_DEATHS):
        with suppress(OSError):  # those of Dask's connections are such
            found: dict[str, Any] = client.run(function, *arguments)
            return found
        time.sleep(0.5)
    raise ClusterError("Workers of the Dask cluster are lost again and again.")


def _present_client() -> Any:
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def _sees(folder: str) -> bool:
    return Path(folder, "seen").exists() and os.access(folder, os.W_OK)


def _check_versions(client: Any, where: str) -> None:
    """Refuse a cluster whose workers cannot run this library's tasks."""
    from pysldl import __version__

    try:
        found = run_everywhere(client, _library_version)
    except Exception as error:
        raise ClusterError(
            f"{where}: its workers cannot run pysldl ({_said(error)}). Install pysldl {__version__} with the same "
            "Dask on all machines."
        ) from error
    for worker, version in found.items():
        if version != _library_version():
            raise ClusterError(
                f"{where}: worker {worker} has {version}, but here is {_library_version()}. Install the same on all "
                "machines."
            )


def _library_version() -> str:
    """What must agree between the machines."""
    import distributed
    import numpy

    from pysldl import __version__

    return f"pysldl {__version__}, distributed {distributed.__version__}, NumPy {numpy.__version__}"


def _said(error: BaseException) -> str:
    return (str(error) or type(error).__name__).split("\n")[0]
