"""The processes of a service: a parent that listens, and workers that respond.

The parent loads the model once and forks the workers, which share its memory: the arrays are mapped from the files,
and the pages of the interpreter are shared until somebody writes to them.
"""

import errno
import gc
import logging
import os
import selectors
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import uvicorn
from starlette.types import ASGIApp

from pysldl.exceptions import DataError
from pysldl.serve.app import create_app
from pysldl.serve.connections import Connections
from pysldl.serve.examples import DataExamples
from pysldl.serve.feedback import FeedbackStore
from pysldl.serve.limits import Limits
from pysldl.serve.middleware import AllowedHosts
from pysldl.serve.reloading import Channel, Reloader, follow, reload_alone
from pysldl.serve.source import ModelSource
from pysldl.serve.telemetry import AccessLog, Telemetry, shared_folder

GRACE = 15
KEEP_ALIVE = 30
PAUSE = 0.5
SPARE_FILES = 100  # of a worker: the model, the counters, the log
MOST_WAITING = 1024  # connections that no worker has accepted yet
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

logger = logging.getLogger("pysldl.serve")


class Tls(NamedTuple):
    """Files of a certificate, with the chain behind it, and of its key, both in PEM."""

    certificate: Path
    key: Path


def serve_model(
    path: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    limits: Limits | None = None,
    token: str | None = None,
    allowed_hosts: Sequence[str] = (),
    tls: Tls | None = None,
    access_log: Path | None = None,
    feedback_store: FeedbackStore | None = None,
    examples: DataExamples | None = None,
    on_ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve a model folder until the process is told to stop; when it is replaced, the new version is served.

    Port 0 picks a free port. Clients must send the ``token``, if there is one, as a bearer token, and may call under
    ``allowed_hosts`` beside ``host`` and the names of this machine for itself. The access log has a line of JSON for
    every request, without what was asked; "-" is standard error. Labels that people accept and reject on the page go
    to the ``feedback_store``. ``examples`` are snippets of the training rows for explanations; without them, what the
    model itself keeps. ``on_ready`` is called with the address once requests are accepted.
    """
    if workers > 1 and not hasattr(os, "fork"):
        raise DataError("Several workers need a system that can fork; use --workers 1.")
    limits = _within_open_files(limits or Limits())
    tls = None if tls is None else _checked(tls)
    source = ModelSource(path, examples)
    source.current.warm_up()
    hosts = AllowedHosts(host, allowed_hosts)
    log = None if access_log is None else AccessLog(access_log)
    with _listen(host, port) as listener, shared_folder() as counters:
        telemetry = Telemetry(counters)
        app = create_app(source, limits, telemetry, token=token, hosts=hosts, log=log, feedback_store=feedback_store)
        respond = partial(_respond, listener, app, limits, tls)
        shown = f"[{host}]" if ":" in host else host
        address = f"{'http' if tls is None else 'https'}://{shown}:{listener.getsockname()[1]}"
        if not hasattr(os, "fork"):
            _handle_stop_signals(sys.exit)
            on_ready(address)
            arguments = (source, telemetry, limits.poll, lambda: False)
            threading.Thread(target=reload_alone, args=arguments, daemon=True).start()
            respond()
            return
        supervisor = Supervisor(respond, source, telemetry, limits.poll)
        # Before anybody is told the address: whoever knows it may stop the service.
        _handle_stop_signals(supervisor.stop)
        on_ready(address)
        supervisor.run(workers)


def _within_open_files(limits: Limits) -> Limits:
    """Raise the number of files that a process may open, and keep the connections below it."""
    try:
        import resource
    except ModuleNotFoundError:  # not on Windows
        return limits
    wanted = limits.max_connections + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return replace(limits, max_connections=max(1, min(limits.max_connections, soft - SPARE_FILES)))


def _checked(tls: Tls) -> Tls:
    """Refuse a certificate and a key that cannot be used, before anybody connects."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.certificate, tls.key)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or error.args[-1]
        raise DataError(f"{tls.certificate}, {tls.key}: no TLS certificate with its key ({reason}).") from error
    return tls


class _Listener(socket.socket):
    """A listening socket that workers share.

    asyncio accepts as many connections at once as it lets wait. One at a time leaves the next to another worker, so
    that one worker does not end up with nearly all connections; the number that may wait stays.
    """

    def listen(self, backlog: int = MOST_WAITING, /) -> None:
        super().listen(MOST_WAITING)


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; connections are accepted from here on and wait for the first worker."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small responses at once only where the protocol is named; otherwise the second part of a response
    # waits for the client's acknowledgment of the first, 40 ms.
    listener = _Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
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


def _respond(
    listener: socket.socket,
    app: ASGIApp,
    limits: Limits,
    tls: Tls | None = None,
    until: Callable[[], None] | None = None,
) -> None:
    """Respond to requests until a signal comes or, where ``until`` is given, until it returns."""
    connections = Connections(app, limits)
    config = uvicorn.Config(
        connections,
        http=connections.protocol,
        loop="asyncio",
        backlog=1,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
    )
    server = uvicorn.Server(config)

    def stop() -> None:
        server.should_exit = True

    # Until uvicorn handles the signals by itself, and again when it has stopped, since it then raises them once more.
    _handle_stop_signals(stop)
    if until is not None:

        def wait() -> None:
            until()
            stop()

        threading.Thread(target=wait, name="sldl-parent", daemon=True).start()
    server.run(sockets=[listener])


class Supervisor:
    """Forks the workers, replaces those that die, and lets all of them change to newer versions of the model.

    It has no threads, so that it can fork at any time, and all that a new worker needs is in its memory: a worker that
    is replaced serves the version that the others serve, whatever has happened to the folder. ``respond`` responds to
    requests until the callable ``until`` that it is given returns.
    """

    def __init__(self, respond: Callable[..., None], source: ModelSource, telemetry: Telemetry, poll: float) -> None:
        self._respond, self._source, self._telemetry = respond, source, telemetry
        self._reloader = Reloader(source, telemetry, poll)
        self._workers = self._reloader.workers
        self._parent = os.getpid()
        self._is_stopping = False
        self._fork_at = 0.0

    def run(self, n_workers: int) -> None:
        """Run until all workers have ended after a signal."""
        self._wake, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        while True:
            self._reap()
            if not self._is_stopping:
                self._reloader.step()
                while len(self._workers) < n_workers and time.monotonic() >= self._fork_at and not self._is_stopping:
                    self._fork()
            elif not self._workers:
                return
            self._listen()

    def _listen(self) -> None:
        """Wait until a worker says something, a signal comes, or something is due."""
        due = min(self._reloader.timeout, max(0.01, self._fork_at - time.monotonic()) if self._fork_at else 60.0)
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake, selectors.EVENT_READ)
            for process, channel in self._workers.items():
                selector.register(channel.end, selectors.EVENT_READ, process)
            for key, _ in selector.select(due):
                if key.data is None:
                    self._wake.recv(4096)
                    continue
                for message in self._workers[key.data].receive() or ():
                    self._reloader.on_message(key.data, message)

    def _reap(self) -> None:
        """Take note of all processes that have ended."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not process:
                return
            channel = self._workers.get(process)
            if self._reloader.on_end(process, status) or channel is None:
                continue
            channel.end.close()
            self._telemetry.forget_worker(process)
            if not self._is_stopping:
                logger.warning("worker %d ended and is replaced", process)
                self._fork_at = time.monotonic() + PAUSE  # a worker that cannot start must not be forked in a busy loop

    def _fork(self) -> None:
        gc.collect()
        gc.freeze()  # a collection in a worker would write to every object, and so copy the pages that are shared
        ours, theirs = socket.socketpair()
        try:
            process = os.fork()
        except OSError as error:  # out of memory or of processes, for now
            logger.warning("a worker cannot be started: %s", error.strerror)
            ours.close()
            theirs.close()
            self._fork_at = time.monotonic() + 10 * PAUSE
            return
        if process:
            theirs.close()
            self._workers[process] = Channel(ours)
            return
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _handle_stop_signals(lambda: None)  # the parent's end of the channel tells a worker to stop
            for end in (ours, self._wake, self._waker, *(channel.end for channel in self._workers.values())):
                end.close()
            self._respond(until=partial(follow, Channel(theirs), self._source))
            if os.getppid() != self._parent:
                self._telemetry.remove_folder()  # nobody else is left to do it
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
            for channel in self._workers.values():
                with suppress(OSError):
                    channel.end.shutdown(socket.SHUT_WR)
            signal.signal(signal.SIGALRM, self._kill)
            signal.alarm(GRACE + 5)

    def _kill(self, *_: object) -> None:
        for process in self._workers:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
