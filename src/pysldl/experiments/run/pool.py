"""Processes that work through a list and survive the death of one of them."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True)
class Died:
    """A process ended in the middle of an item: out of memory, most likely."""

    exit_code: int | None


@dataclass(frozen=True)
class _Finished:
    """An item is done."""


def run_in_processes(
    work: Callable[[Item], Iterable[Any]], items: Iterable[Item], n_processes: int
) -> Iterator[tuple[Item, Any]]:
    """Run the generator ``work(item)`` for every item and yield ``(item, event)`` for each event as it comes.

    ``work`` is a function of a module; an exception that escapes it ends its process. With one process, everything
    happens in this one. A process that dies yields :class:`Died` for its item and is replaced. When this process dies,
    the others end too.
    """
    queue = deque(items)
    if n_processes == 1:
        for item in queue:
            for event in work(item):
                yield item, event
        return
    workers: dict[Connection, tuple[SpawnProcess, Item]] = {}
    try:
        while queue or workers:
            while queue and len(workers) < n_processes:
                connection, process = _start(work)
                workers[connection] = process, _send_next(connection, queue)
            for ready in wait(list(workers)):
                assert isinstance(ready, Connection)
                process, item = workers[ready]
                try:
                    event = ready.recv()
                except (EOFError, ConnectionResetError):
                    process.join()
                    del workers[ready]
                    yield item, Died(process.exitcode)
                    continue
                if not isinstance(event, _Finished):
                    yield item, event
                elif queue:
                    workers[ready] = process, _send_next(ready, queue)
                else:
                    ready.close()
                    process.join()
                    del workers[ready]
    finally:
        for process, _ in workers.values():
            process.terminate()


def _start(work: Callable[[Any], Iterable[Any]]) -> tuple[Connection, SpawnProcess]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(work, theirs), daemon=True)
    process.start()
    theirs.close()
    return ours, process


def _send_next(connection: Connection, queue: "deque[Item]") -> Item:
    item = queue.popleft()
    connection.send(item)
    return item


def _serve(work: Callable[[Any], Iterable[Any]], connection: Connection) -> None:
    """Take items until the other end closes."""
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
