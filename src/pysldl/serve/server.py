"""The processes of a service: a parent that listens, and workers that respond.

The parent loads the model once and forks the workers, which share its memory: the arrays are mapped from the files,
and the pages of the interpreter are shared until somebody writes to them.
"""

import errno
import gc
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from pysldl.exceptions import DataError
from pysldl.serve.app import create_app
from pysldl.serve.examples import DataExamples
from pysldl.serve.head_timeout import HeadTimeout
from pysldl.serve.limits import Limits
from pysldl.serve.source import ModelSource
from pysldl.serve.telemetry import Telemetry

__all__ = ["serve_model"]

GRACE = 15
MOST_CONNECTIONS = 1000
PAUSE = 0.5
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

logger = logging.getLogger("pysldl.serve")


def serve_model(
    path: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    limits: Limits | None = None,
    token: str | None = None,
    examples: DataExamples | None = None,
    on_ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve a model folder until the process is told to stop.

    Parameters
    ----------
    path : Path
        The model folder; when it is replaced, the new version is served.
    host, port : str and int
        Where to listen; port 0 picks a free port.
    workers : int
        Number of worker processes.
    limits : Limits, optional
    token : str, optional
        What a client must send as a bearer token.
    examples : DataExamples, optional
        Snippets of the training rows for explanations; without them, what the model itself keeps.
    on_ready : callable
        Called with the address once requests are accepted.
    """
    if workers > 1 and not hasattr(os, "fork"):
        raise DataError("Several workers need a system that can fork; use --workers 1.")
    limits = limits or Limits()
    source = ModelSource(path, examples)
    source.current.warm_up()
    with _listen(host, port) as listener, tempfile.TemporaryDirectory(prefix="sldl-serve-") as counters:
        telemetry = Telemetry(Path(counters) if workers > 1 else None)
        respond = partial(_respond, listener, create_app(source, limits, telemetry, token), limits.read_timeout)
        shown = f"[{host}]" if ":" in host else host
        supervisor = _Supervisor(respond, source, telemetry) if workers > 1 else None
        # Before anybody is told the address: whoever knows it may stop the service.
        _handle_stop_signals(sys.exit if supervisor is None else supervisor.stop)
        on_ready(f"http://{shown}:{listener.getsockname()[1]}")
        if supervisor is None:
            respond()
        else:
            supervisor.run(workers)


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; connections are accepted from here on and wait for the first worker."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small responses at once only where the protocol is named; otherwise the second part of a response
    # waits for the client's acknowledgment of the first, 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
        listener.setblocking(False)
    except (OSError, OverflowError) as error:
        listener.close()
        if isinstance(error, OverflowError):
            message = f"--port must lie between 0 and 65535, but is {port}."
        elif error.errno == errno.EADDRINUSE:
            message = f"Port {port} of {host} is taken: stop what listens there, or choose another with --port."
        else:
            message = f"Cannot listen on {host}, port {port}: {error.strerror or error}."
        raise DataError(message) from error
    return listener


def _handle_stop_signals(stop: Callable[[], object]) -> None:
    """Call ``stop`` when the process is told to stop."""
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: stop())


def _respond(listener: socket.socket, app: ASGIApp, read_timeout: float, alive: int | None = None) -> None:
    """Respond to requests until a signal comes or, where the end of a pipe is given, until its writer is gone."""
    timed = HeadTimeout(app, read_timeout)
    config = uvicorn.Config(
        timed,
        http=timed.protocol,
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

    def stop() -> None:
        server.should_exit = True

    # Until uvicorn handles the signals by itself, and again when it has stopped, since it then raises them once more.
    _handle_stop_signals(stop)
    if alive is not None:

        def wait_for_parent() -> None:
            os.read(alive, 1)
            stop()

        threading.Thread(target=wait_for_parent, daemon=True).start()
    server.run(sockets=[listener])


class _Supervisor:
    """Forks the workers, and replaces those that die."""

    def __init__(self, respond: Callable[..., None], source: ModelSource, telemetry: Telemetry) -> None:
        self._respond, self._source, self._telemetry = respond, source, telemetry
        self._processes: set[int] = set()
        self._alive, self._hold = os.pipe()
        self._is_stopping = False

    def run(self, n_workers: int) -> None:
        """Run until all workers have ended after a signal."""
        gc.collect()
        gc.freeze()  # a collection in a worker would write to every object, and so copy the pages that are shared
        for _ in range(n_workers):
            if not self._is_stopping:
                self._fork()
        while self._processes:
            process, _ = os.wait()
            self._processes.remove(process)
            self._telemetry.forget_worker(process)
            if not self._is_stopping:
                logger.warning("worker %d ended and is replaced", process)
                time.sleep(PAUSE)  # a worker that cannot start must not be forked in a busy loop
            if not self._is_stopping:
                self._fork()

    def _fork(self) -> None:
        process = os.fork()
        if process:
            self._processes.add(process)
            return
        code = 1
        try:
            _handle_stop_signals(lambda: None)  # the end of the pipe tells a worker to stop, once its server is there
            with suppress(OSError):  # the parent may have closed it just before, to stop
                os.close(self._hold)
            self._source.refresh(self._telemetry)  # the parent still has the version that it began with
            self._respond(self._alive)
            code = 0
        except BaseException:
            logger.exception("a worker failed")
        finally:
            logging.shutdown()
            os._exit(code)

    def stop(self) -> None:
        """Tell the workers to finish what they have, and kill them where that takes too long."""
        if not self._is_stopping:
            self._is_stopping = True
            os.close(self._hold)
            signal.signal(signal.SIGALRM, self._kill)
            signal.alarm(GRACE + 5)

    def _kill(self, *_: object) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
