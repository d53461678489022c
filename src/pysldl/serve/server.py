"""Processes: one that listens and watches, and workers that answer.

The model is loaded once, before the workers are forked from the process that loaded it. They share its arrays, which
are mapped from the files, and the interpreter's own memory as far as nobody writes to it.
"""

import errno
import gc
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn

from pysldl.exceptions import DataError
from pysldl.serve.app import create_app
from pysldl.serve.examples import DataExamples
from pysldl.serve.http_protocol import protocol_with
from pysldl.serve.limits import Limits
from pysldl.serve.source import ModelSource
from pysldl.serve.telemetry import Telemetry

__all__ = ["serve_model"]

GRACE = 15
MOST_CONNECTIONS = 1000
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

logger = logging.getLogger("pysldl.serve")


def serve_model(
    path: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    settings: Limits | None = None,
    examples: DataExamples | None = None,
    on_ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve a model folder until the process is told to stop.

    Parameters
    ----------
    path : Path
        The model folder; when it is replaced, the new version is served.
    host, port : str and int
        Where to listen; port 0 takes any that is free.
    workers : int
        Processes that answer.
    settings : Limits, optional
    examples : DataExamples, optional
        What the rows of the fit said, to be shown in explanations; without, what the model itself keeps of them.
    on_ready : callable
        Called with the address once requests are accepted.
    """
    if workers > 1 and not hasattr(os, "fork"):
        raise DataError("Several workers need a system that can fork; use --workers 1.")
    settings = settings or Limits()
    counters = Telemetry(workers)
    source = ModelSource(path, counters, examples)
    source.current.warm_up()
    with _listen(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        on_ready(f"http://{shown}:{listener.getsockname()[1]}")
        if workers == 1:
            _ignore_signals()
            _answer(listener, source, settings, counters)
        else:
            Supervisor(listener, source, settings, counters, workers).run()


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket; connections are accepted from here on and wait for the first worker."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers at once only where the protocol is named; else the second piece of an answer waits for
    # the client's acknowledgement of the first, 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            message = f"Port {port} of {host} is taken: stop what listens there, or choose another with --port."
            raise DataError(message) from error
        raise DataError(f"Cannot listen on {host}, port {port}: {error.strerror or error}.") from error
    except OverflowError as error:
        listener.close()
        raise DataError(f"--port must lie between 0 and 65535, but is {port}.") from error
    return listener


def _answer(
    listener: socket.socket,
    source: ModelSource,
    settings: Limits,
    counters: Telemetry,
    alive: int | None = None,
) -> None:
    """Answer requests until told to stop; those under way are finished first."""
    config = uvicorn.Config(
        create_app(source, settings, counters),
        http=protocol_with(settings.read_timeout),
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE,
        h11_max_incomplete_event_size=16384,
    )
    server = uvicorn.Server(config)
    if alive is not None:

        def wait_for_parent() -> None:
            os.read(alive, 1)  # returns when the last writer, the parent, has closed its end or is gone
            server.should_exit = True

        threading.Thread(target=wait_for_parent, daemon=True).start()
    server.run(sockets=[listener])


def _ignore_signals() -> None:
    """The server's own handlers stop it; when it is done it raises the signal again, which then shall do nothing."""
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: None)


class Supervisor:
    """The workers and their parent, who replaces those that die."""

    def __init__(
        self, listener: socket.socket, source: ModelSource, settings: Limits, counters: Telemetry, workers: int
    ) -> None:
        self._listener = listener
        self._source = source
        self._settings = settings
        self._counters = counters
        self._n_workers = workers
        self._slots: dict[int, int] = {}
        self._alive, self._hold = os.pipe()
        self._stopping = False

    def run(self) -> None:
        for number in STOP_SIGNALS:
            signal.signal(number, self._stop)
        gc.collect()
        gc.freeze()  # a collection in a worker would write to every object, and so take pages that are shared
        for slot in range(self._n_workers):
            self._fork(slot)
        while self._slots:
            try:
                process, _ = os.wait()
            except ChildProcessError:
                break
            slot = self._slots.pop(process)
            if not self._stopping:
                logger.warning("worker %d ended and is replaced", process)
                time.sleep(0.5)  # not in a busy loop, should it end at once each time
                if not self._stopping:
                    self._fork(slot)

    def _fork(self, slot: int) -> None:
        process = os.fork()
        if process:
            self._slots[process] = slot
            return
        code = 1
        try:
            os.close(self._hold)
            _ignore_signals()
            self._counters.worker = slot
            self._source.refresh()  # the parent still has the version that it began with
            _answer(self._listener, self._source, self._settings, self._counters, alive=self._alive)
            code = 0
        except BaseException:
            logger.exception("a worker failed")
        finally:
            logging.shutdown()
            os._exit(code)

    def _stop(self, *_: object) -> None:
        """Tell the workers to finish what they have, and after a while to end in any case."""
        if not self._stopping:
            self._stopping = True
            os.close(self._hold)
            signal.signal(signal.SIGALRM, self._end)
            signal.alarm(GRACE + 5)

    def _end(self, *_: object) -> None:
        for process in self._slots:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
