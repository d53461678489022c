"""A few processes that work through a list, none of which can take the others down."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

__all__ = ["Died", "run_in_processes"]

Item = TypeVar("Item")


@dataclass(frozen=True)
class Died:
    """A process ended in the middle of an item: out of memory, most likely."""

    exit_code: int | None


@dataclass(frozen=True)
class _Finished:
    """An item is done."""


@dataclass
class _Worker(Generic[Item]):
    process: Any
    item: Item | None = None


def run_in_processes(
    work: Callable[[Item], Iterable[Any]], items: Iterable[Item], n_processes: int
) -> Iterator[tuple[Item, Any]]:
    """Go through ``work(item)`` for every item and yield ``(item, event)`` for each of its events, as it comes.

    With one process, everything happens in this one. A process that dies yields :class:`Died` for its item and is
    replaced. When this process dies, the others end too.

    Parameters
    ----------
    work : callable
        A generator function of a module. An exception that escapes it ends its process.
    items : iterable
        Taken in their order.
    n_processes : int
    """
    queue = deque(items)
    if n_processes == 1:
        for item in queue:
            for event in work(item):
                yield item, event
        return
    context = multiprocessing.get_context("spawn")
    workers: dict[Connection, _Worker[Item]] = {}
    try:
        while queue or workers:
            while queue and len(workers) < n_processes:
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(work, theirs), daemon=True)
                process.start()
                theirs.close()
                workers[ours] = _Worker(process)
                _give(ours, workers[ours], queue)
            for connection in wait(list(workers)):
                assert isinstance(connection, Connection)
                worker = workers[connection]
                assert worker.item is not None
                try:
                    event = connection.recv()
                except (EOFError, ConnectionResetError):
                    worker.process.join()
                    del workers[connection]
                    yield worker.item, Died(worker.process.exitcode)
                    continue
                if not isinstance(event, _Finished):
                    yield worker.item, event
                elif queue:
                    _give(connection, worker, queue)
                else:
                    connection.close()
                    worker.process.join()
                    del workers[connection]
    finally:
        for worker in workers.values():
            worker.process.terminate()


def _give(connection: Connection, worker: "_Worker[Item]", queue: "deque[Item]") -> None:
    worker.item = queue.popleft()
    connection.send(worker.item)


def _serve(work: Callable[[Any], Iterable[Any]], connection: Connection) -> None:
    """Life of a worker: take items until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            item = connection.recv()
        except EOFError:
            return
        for event in work(item):
            connection.send(event)
        connection.send(_Finished())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
