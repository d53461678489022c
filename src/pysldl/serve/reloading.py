"""Reloading: a newer version of a model is tried, loaded by all workers, and then served by all at once."""

import json
import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pysldl.exceptions import ModelFormatError
from pysldl.serve.served_model import open_version
from pysldl.serve.source import FolderWatch, ModelSource, described
from pysldl.serve.telemetry import Telemetry

TIME_TO_LOAD = 300.0

logger = logging.getLogger("pysldl.serve")


class Channel:
    """One end of a connection between the parent and a worker, which carries JSON, a message a line."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._rest = b""

    def send(self, **message: Any) -> None:
        """Send a message; nothing happens where the other end is closed."""
        with suppress(OSError):
            self.end.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> list[dict[str, Any]] | None:
        """Return the messages that have come, at least a part of one; None at the end."""
        try:
            block = self.end.recv(65536)
        except OSError:
            block = b""
        if not block:
            return None
        *lines, self._rest = (self._rest + block).split(b"\n")
        return [json.loads(line) for line in lines]


def follow(channel: Channel, source: ModelSource) -> None:
    """Follow the messages of the parent in a worker, until the parent ends."""
    while (messages := channel.receive()) is not None:
        for message in messages:
            number = message.get("number", -1)
            match message["do"]:
                case "load":
                    try:
                        arrays = message.get("arrays")
                        source.load(number, Path(message["folder"]), None if arrays is None else Path(arrays))
                        channel.send(loaded=number)
                    except Exception as error:
                        _log(error)
                        channel.send(failed=number, problem=described(error))
                case "keep":
                    source.keep(number)
                case "tell":
                    source.problem = message["problem"]


class Reloader:
    """Brings newer versions of a model to all workers; whatever goes wrong, the present version stays.

    A version is first loaded by a process of its own, which may fail, hang or crash. Then the parent loads it, from
    which workers that die later are forked anew, and then every worker. When all have it, the number of the version
    that is served is changed, in memory that all share. A version that fails is tried again from time to time. The
    folder is looked at every ``poll`` seconds.
    """

    def __init__(self, source: ModelSource, telemetry: Telemetry, poll: float) -> None:
        self._source, self._telemetry, self._poll = source, telemetry, poll
        self._watch = FolderWatch(source.path, poll)
        self._next_look = time.monotonic() + poll
        self._number = source.number
        self._folder = Path()
        self._trial: int | None = None
        self._said = -1  # where the trial says what went wrong
        self._waiting: set[int] = set()
        self._deadline = 0.0
        self.workers: dict[int, Channel] = {}

    @property
    def timeout(self) -> float:
        """Seconds until something has to be looked at."""
        return max(0.01, self._next_look - time.monotonic())

    def step(self) -> None:
        """Do what is due; called again and again."""
        now = time.monotonic()
        if self._trial is not None or self._waiting:
            if now > self._deadline:
                self._give_up()
            self._next_look = now + min(self._poll, 1.0)
        elif now >= self._next_look:
            self._next_look = now + self._poll
            self._look()

    def on_message(self, worker: int, message: dict[str, Any]) -> None:
        """Take the answer of a worker."""
        if message.get("loaded") == self._number and worker in self._waiting:
            self._waiting.discard(worker)
            self._serve_when_ready()
        elif message.get("failed") == self._number and self._waiting:
            self._fail(message["problem"])

    def on_end(self, process: int, status: int) -> bool:
        """Take note of a process that has ended; return whether it was one that tried a version."""
        self.workers.pop(process, None)
        if process == self._trial:
            self._trial = None
            code = os.waitstatus_to_exitcode(status)
            with os.fdopen(self._said, "rb") as said:
                problem = said.read(4096).decode(errors="replace")
            if code == 0:
                self._load()
            else:
                self._fail(described(-code) if code < 0 else problem)
            return True
        if process in self._waiting:
            self._waiting.discard(process)
            self._serve_when_ready()
        return False

    def _look(self) -> None:
        try:
            folder = self._watch.find()
        except Exception as error:
            if self._set_problem(described(error)):
                self._telemetry.failed_reloads.inc()
                logger.warning("the model folder cannot be read: %s", error)
            return
        if folder is None:
            if self._source.problem is not None and not self._watch.is_failing:
                self._set_problem(None)
            return
        self._folder, self._deadline = folder, time.monotonic() + TIME_TO_LOAD
        self._try(folder)

    def _try(self, folder: Path) -> None:
        """Load the version in a process of its own."""
        reading, writing = os.pipe()
        try:
            process = os.fork()
        except OSError as error:
            os.close(reading)
            os.close(writing)
            self._fail(described(error))
            return
        if process:
            os.close(writing)
            self._trial, self._said = process, reading
            return
        problem = ""
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            trial = open_version(folder, self._source.name)
            trial.warm_up()
            trial.try_out()
        except BaseException as error:
            _log(error)
            problem = described(error)
        finally:
            with suppress(OSError):
                os.write(writing, problem.encode())
            logging.shutdown()
            os._exit(1 if problem else 0)

    def _load(self) -> None:
        self._number += 1
        try:
            arrays = self._source.load(self._number, self._folder)
        except Exception as error:
            _log(error)
            self._fail(described(error))
            return
        self._waiting = set(self.workers)
        for channel in self.workers.values():
            channel.send(
                do="load",
                number=self._number,
                folder=str(self._folder),
                arrays=None if arrays is None else str(arrays),
            )
        self._serve_when_ready()

    def _serve_when_ready(self) -> None:
        if self._waiting:
            return
        self._source.serve(self._number)
        self._keep_served()
        self._watch.note_success()
        self._set_problem(None)
        self._telemetry.reloads.inc()
        logger.info("now serving version %s", self._source.current.version)

    def _fail(self, problem: str) -> None:
        self._waiting = set()
        self._keep_served()
        if self._watch.note_failure():
            self._telemetry.failed_reloads.inc()
            logger.warning("%s", problem)
        self._set_problem(problem)

    def _give_up(self) -> None:
        if self._trial is not None:
            with suppress(ProcessLookupError):
                os.kill(self._trial, signal.SIGKILL)
            self._deadline += TIME_TO_LOAD
        else:
            self._fail(described(TimeoutError()))

    def _keep_served(self) -> None:
        number = self._source.number
        self._source.keep(number)
        self._send(do="keep", number=number)

    def _set_problem(self, problem: str | None) -> bool:
        """Set what `/health` of all workers reports as wrong; return whether that is new."""
        is_new = problem != self._source.problem
        if is_new:
            self._source.problem = problem
            self._send(do="tell", problem=problem)
        return is_new

    def _send(self, **message: Any) -> None:
        for channel in self.workers.values():
            channel.send(**message)


def reload_alone(source: ModelSource, telemetry: Telemetry, poll: float, is_over: Callable[[], bool]) -> None:
    """Load newer versions in the process that serves them, on systems that cannot fork."""
    watch = FolderWatch(source.path, poll)
    while not is_over():
        time.sleep(poll)
        try:
            folder = watch.find()
            if folder is not None:
                source.load(source.number + 1, folder)
                source.serve(source.number + 1)
                source.keep(source.number)
                watch.note_success()
                telemetry.reloads.inc()
            if not watch.is_failing:
                source.problem = None
        except Exception as error:
            source.problem = described(error)
            if watch.note_failure():
                telemetry.failed_reloads.inc()
                _log(error)


def _log(error: BaseException) -> None:
    """Log what is wrong with a version, with a traceback unless it is an error of the model format."""
    is_foreseen = isinstance(error, ModelFormatError)
    logger.error("the new version cannot be loaded: %s", error, exc_info=None if is_foreseen else error)
