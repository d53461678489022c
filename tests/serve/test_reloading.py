"""New versions that fail in every way: the present one stays, the problem is told, and it is tried again."""

import os
import shutil
import signal
import socket
import time

import pytest
from quick_models import fitted

from pysldl.persistence import current_version, save_model
from pysldl.serve import reloading
from pysldl.serve.reloading import Channel, Reloader, follow
from pysldl.serve.source import ModelSource
from pysldl.serve.telemetry import Telemetry

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@pytest.fixture
def source(word_model, tmp_path):
    return ModelSource(shutil.copytree(word_model, tmp_path / "model"))


def run_until(reloader, condition, seconds=120):
    """Do what the supervisor does, until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        reloader.step()
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            process = 0
        if process:
            reloader.on_end(process, status)
        time.sleep(0.01)


def crash(folder, name):
    os.kill(os.getpid(), signal.SIGKILL)


def failing_with(error):
    def fail(folder, name):
        raise error

    return fail


@pytest.mark.parametrize(
    ("fail", "words"),
    [
        (crash, "signal 9"),
        (failing_with(MemoryError()), "not enough memory"),
        (failing_with(AttributeError("/a/path")), "AttributeError"),
        (failing_with(SystemExit(3)), "SystemExit"),
    ],
)
def test_a_version_that_fails_is_told_and_tried_again(source, world, monkeypatch, fail, words):
    reloader, before = Reloader(source, Telemetry(), 0.05), source.current
    save_model(fitted(world, range(200)), source.path, overwrite=True)
    with monkeypatch.context() as patched:
        patched.setattr(reloading, "open_version", fail)
        run_until(reloader, lambda: source.problem is not None)
    assert words in source.problem and "/a/path" not in source.problem and source.current is before
    run_until(reloader, lambda: source.current is not before)  # nothing has changed in the folder
    assert source.problem is None


def test_a_version_that_hangs_is_given_up(source, world, monkeypatch):
    reloader, before = Reloader(source, Telemetry(), 0.05), source.current
    save_model(fitted(world, range(200)), source.path, overwrite=True)
    with monkeypatch.context() as patched:
        patched.setattr(reloading, "open_version", lambda folder, name: time.sleep(600))
        patched.setattr(reloading, "TIME_TO_LOAD", 0.3)
        run_until(reloader, lambda: source.problem is not None)
    assert "signal 9" in source.problem and source.current is before


def test_all_workers_must_have_a_version_before_it_is_served(source, world):
    reloader, before = Reloader(source, Telemetry(), 0.05), source.current
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reloader.workers[1] = Channel(ours)
        save_model(fitted(world, range(200)), source.path, overwrite=True)
        run_until(reloader, lambda: bool(reloader._waiting))
        assert source.current is before
        (message,) = Channel(theirs).receive()
        assert message["do"] == "load" and message["folder"] == str(current_version(source.path))
        reloader.on_message(1, {"failed": message["number"], "problem": "No."})
        assert source.current is before and source.problem == "No."
        run_until(reloader, lambda: bool(reloader._waiting))
        reloader.on_message(1, {"loaded": reloader._number})
        assert source.current is not before and source.problem is None


def test_a_worker_does_what_it_is_told(source, world):
    first = source.current
    save_model(fitted(world, range(200)), source.path, overwrite=True)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        parent = Channel(ours)
        parent.send(do="load", number=7, folder=str(source.path / "nowhere"))
        parent.send(do="load", number=8, folder=str(current_version(source.path)))
        parent.send(do="tell", problem="A problem.")
        ours.shutdown(socket.SHUT_WR)
        follow(Channel(theirs), source)
        failed, loaded = parent.receive()
    assert failed["failed"] == 7 and loaded == {"loaded": 8} and source.problem == "A problem."
    assert source.current is first
    source.serve(8)
    assert source.current is not first
