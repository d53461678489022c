"""The processes of a service: versions that are replaced under load, workers that die, and stopping."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from quick_models import fitted
from service_process import Service

from pysldl.datasets import SyntheticDataset
from pysldl.exceptions import DataError
from pysldl.persistence import save_model
from pysldl.serve import server

TEXT = "cloud rain rainbow sky"
REPLACEMENTS = 4


@pytest.fixture
def own_model(word_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(word_model, tmp_path / "model"))


def wait_until(condition: Callable[[], bool], seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.05)


def begun(service: Service) -> float:
    """Predictions that are under way or done."""
    text = service.get("/metrics").body.decode()
    under_way = float(re.search(r"^sldl_requests_in_flight (\S+)$", text, re.M)[1]) - 1  # this request
    done = re.search(r'^sldl_requests_total{route="predict",status="200"} (\S+)$', text, re.M)
    return under_way + (float(done[1]) if done else 0)


def test_every_answer_belongs_to_one_version_and_none_fails(
    serve: Callable[..., Service], own_model: Path, world: SyntheticDataset
) -> None:
    service = serve(own_model, "--workers", "2")
    models = [fitted(world, range(40 * i, 40 * i + 200), seed=i) for i in range(3)]
    seen: list[tuple[str, str]] = []
    failed: list[object] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            answer = service.post("/v1/predict", {"input": TEXT, "k": 5})
            if answer.status != 200:
                failed.append(answer)
                return
            document = answer.document
            seen.append((document["version"], str(document["predictions"])))

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    for i in range(REPLACEMENTS):
        save_model(models[i % len(models)], own_model, extra={"features": "raw", "round": i}, overwrite=True)
        time.sleep(1.1)
    newest = lambda: service.get("/health").document["version"]  # noqa: E731
    wait_until(lambda: len({newest() for _ in range(10)}) == 1)
    done.set()
    for asker in askers:
        asker.join()
    assert failed == []
    versions = {version for version, _ in seen}
    assert len(versions) >= REPLACEMENTS - 1
    # The same question has one answer a version: no answer mixes two.
    assert len(set(seen)) == len(versions)
    assert len({answer for _, answer in seen}) >= 3


def test_a_damaged_or_missing_version_is_not_served(serve: Callable[..., Service], own_model: Path) -> None:
    service = serve(own_model, "--workers", "1")
    before = service.get("/health").document
    pointer = own_model / "current.json"
    whole = pointer.read_bytes()
    pointer.write_bytes(whole[:50])
    wait_until(lambda: service.get("/health").document["problem"] is not None)
    during = service.get("/health").document
    assert during["version"] == before["version"] and "damaged" in during["problem"]
    assert service.post("/v1/predict", {"input": TEXT}).status == 200
    pointer.write_bytes(whole)
    wait_until(lambda: service.get("/health").document["problem"] is None)
    assert "sldl_reload_failures_total 1" in service.get("/metrics").body.decode()
    shutil.rmtree(own_model)
    time.sleep(1.2)
    assert service.post("/v1/predict", {"input": TEXT}).status == 200


def test_stopping_finishes_what_was_begun(serve: Callable[..., Service], word_model: Path) -> None:
    service = serve(word_model, "--workers", "2")
    answers = []
    many = {"inputs": [TEXT] * 1000, "k": 40}
    askers = [threading.Thread(target=lambda: answers.append(service.post("/v1/predict", many))) for _ in range(3)]
    for asker in askers:
        asker.start()
    wait_until(lambda: begun(service) >= 3)
    code, said = service.stop()
    for asker in askers:
        asker.join()
    assert code == 0 and "Traceback" not in said
    assert [answer.status for answer in answers] == [200] * 3


def test_dead_workers_are_replaced_and_none_outlives_its_parent(
    serve: Callable[..., Service], word_model: Path
) -> None:
    service = serve(word_model, "--workers", "2")
    listing = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children")
    if not listing.exists():
        pytest.skip("this system does not list the children of a process")

    def workers() -> set[int]:
        return set(map(int, listing.read_text().split()))

    wait_until(lambda: len(workers()) == 2)
    before = workers()
    os.kill(min(before), signal.SIGKILL)
    wait_until(lambda: len(workers()) == 2 and workers() != before)
    assert all(service.post("/v1/predict", {"input": TEXT}).status == 200 for _ in range(6))

    left = workers()
    service.process.kill()
    wait_until(lambda: not any(Path(f"/proc/{worker}/cmdline").exists() for worker in left))


class ExitError(Exception):
    pass


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forking leads into the child, and its end is an error with the exit code."""

    def leave(code: int) -> None:
        raise ExitError(code)

    monkeypatch.setattr(server.os, "fork", lambda: 0)
    monkeypatch.setattr(server.os, "_exit", leave)
    monkeypatch.setattr(server, "_handle_stop_signals", lambda stop: None)
    monkeypatch.setattr(server.logging, "shutdown", lambda: None)


def test_a_worker_takes_the_newest_version_and_ends_with_0(forked: None) -> None:
    seen: list[object] = []
    source = SimpleNamespace(refresh=lambda telemetry: seen.append(telemetry))
    supervisor = server._Supervisor(lambda alive: seen.append(alive), source, "telemetry")
    with pytest.raises(ExitError, match="0"):
        supervisor._fork()
    assert seen == ["telemetry", supervisor._alive]
    os.close(supervisor._alive)


def test_a_worker_that_fails_says_why_and_ends_with_1(forked: None, caplog: pytest.LogCaptureFixture) -> None:
    supervisor = server._Supervisor(lambda alive: 1 // 0, SimpleNamespace(refresh=lambda telemetry: None), None)
    with pytest.raises(ExitError, match="1"):
        supervisor._fork()
    assert "a worker failed" in caplog.text and "ZeroDivisionError" in caplog.text
    os.close(supervisor._alive)


def test_a_service_that_is_stopped_at_once_ends_without_a_word(serve: Callable[..., Service], word_model: Path) -> None:
    code, said = serve(word_model, "--workers", "2").stop()  # often before the workers have been forked
    assert (code, said) == (0, "")


def test_workers_that_do_not_end_are_killed() -> None:
    supervisor = server._Supervisor(lambda alive: None, None, None)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as worker:
        supervisor._processes = {worker.pid, 2**22 + 1}  # no process has the second number
        supervisor._kill()
        assert worker.wait(timeout=20) == -signal.SIGKILL
    os.close(supervisor._alive)
    os.close(supervisor._hold)


def test_several_workers_need_fork(monkeypatch: pytest.MonkeyPatch, word_model: Path) -> None:
    monkeypatch.delattr(server.os, "fork")
    with pytest.raises(DataError, match="--workers 1"):
        server.serve_model(word_model, workers=2)
