"""The processes of a service: versions that are replaced under load, workers that die, and stopping."""

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from quick_models import fitted
from service_process import PATIENCE, Service

from pysldl.datasets import SyntheticDataset
from pysldl.exceptions import DataError
from pysldl.persistence import current_version, save_model
from pysldl.serve import server

TEXT = "cloud rain rainbow sky"
REPLACEMENTS = 4


@pytest.fixture
def own_model(word_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(word_model, tmp_path / "model"))


def wait_until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
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
    service = serve(own_model, "--workers", "2", "--poll", "0.1")
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
        before = service.get("/health").document["version"]
        save_model(models[i % len(models)], own_model, extra={"features": "raw", "round": i}, overwrite=True)
        wait_until(lambda before=before: before not in versions_served(service, 4))
        current = service.get("/health").document["version"]
        wait_until(lambda current=current: any(version == current for version, _ in list(seen)))
    done.set()
    for asker in askers:
        asker.join()
    assert failed == []
    versions = {version for version, _ in seen}
    assert len(versions) >= REPLACEMENTS
    # The same question has one answer a version: no answer mixes two.
    assert len(set(seen)) == len(versions)
    assert len({answer for _, answer in seen}) >= 3


def workers_of(service: Service) -> set[int]:
    listing = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children")
    if not listing.exists():
        pytest.skip("this system does not list the children of a process")
    return set(map(int, listing.read_text().split()))


def versions_served(service: Service, times: int = 12) -> set[str]:
    """Asked on new connections, so that all workers answer."""
    return {service.post("/v1/predict", {"input": TEXT}).document["version"] for _ in range(times)}


def damage(model: Path) -> Callable[[], None]:
    """Break the file that says which version is current, and return what mends it."""
    pointer = model / "current.json"
    whole = pointer.read_bytes()
    pointer.write_bytes(whole[:20])
    return lambda: (pointer.write_bytes(whole), None)[1]


def test_a_damaged_or_missing_version_is_not_served_and_later_ones_are(
    serve: Callable[..., Service], own_model: Path, world: SyntheticDataset
) -> None:
    service = serve(own_model, "--workers", "2", "--poll", "0.1")
    before = service.get("/health").document
    mend = damage(own_model)
    wait_until(lambda: all(service.get("/health").document["problem"] is not None for _ in range(6)))
    during = service.get("/health").document
    assert during["version"] == before["version"] and "damaged" in during["problem"]
    assert str(own_model) not in during["problem"]
    assert service.post("/v1/predict", {"input": TEXT}).status == 200
    mend()
    wait_until(lambda: all(service.get("/health").document["problem"] is None for _ in range(6)))

    save_model(fitted(world, range(200)), own_model, extra={"features": "raw"}, overwrite=True)
    newest = current_version(own_model)
    (arrays,) = newest.glob("arrays*")
    wait_until(lambda: service.get("/health").document["version"] != before["version"])
    second = service.get("/health").document["version"]
    save_model(fitted(world, range(240)), own_model, extra={"features": "raw"}, overwrite=True)
    (arrays,) = current_version(own_model).glob("arrays*")
    arrays.write_bytes(arrays.read_bytes()[:-50])
    wait_until(lambda: service.get("/health").document["problem"] is not None or versions_served(service) != {second})
    save_model(fitted(world, range(280)), own_model, extra={"features": "raw"}, overwrite=True)
    wait_until(lambda: not versions_served(service) & {second, before["version"]})
    assert service.get("/health").document["problem"] is None
    shutil.rmtree(own_model)
    wait_until(lambda: service.get("/health").document["problem"] is not None)
    assert service.post("/v1/predict", {"input": TEXT}).status == 200


def test_a_worker_that_dies_while_the_folder_is_damaged_comes_back_with_the_served_version(
    serve: Callable[..., Service], own_model: Path, world: SyntheticDataset
) -> None:
    service = serve(own_model, "--workers", "2", "--poll", "0.1")
    first = service.get("/health").document["version"]
    save_model(fitted(world, range(200)), own_model, extra={"features": "raw"}, overwrite=True)
    wait_until(lambda: first not in versions_served(service))
    (second,) = versions_served(service)
    damage(own_model)
    wait_until(lambda: service.get("/health").document["problem"] is not None)
    before = workers_of(service)
    for worker in before:
        os.kill(worker, signal.SIGKILL)
    wait_until(lambda: len(workers_of(service)) == 2 and not workers_of(service) & before)
    assert versions_served(service) == {second}
    assert "damaged" in service.get("/health").document["problem"]


def test_another_model_copied_over_the_served_one_disturbs_no_request(
    serve: Callable[..., Service], own_model: Path, world: SyntheticDataset, tmp_path: Path
) -> None:
    service = serve(own_model, "--workers", "1", "--poll", "0.1")
    first = service.get("/health").document["version"]
    save_model(fitted(world, range(200)), tmp_path / "new", extra={"features": "raw"})
    shutil.copytree(tmp_path / "new", own_model, dirs_exist_ok=True)
    end = time.monotonic() + PATIENCE
    while service.get("/health").document["version"] == first:
        assert time.monotonic() < end and service.post("/v1/predict", {"input": TEXT}).status == 200
    assert service.get("/health").document["problem"] is None


@pytest.mark.skipif(sys.platform != "linux", reason="arrays are read into memory here, not mapped")
def test_files_that_are_cut_short_in_place_end_no_worker_and_change_no_answer(
    serve: Callable[..., Service], own_model: Path, world: SyntheticDataset
) -> None:
    service = serve(own_model, "--workers", "2", "--poll", "0.1")
    first = service.get("/health").document["version"]
    save_model(fitted(world, range(200)), own_model, extra={"features": "raw"}, overwrite=True)
    wait_until(lambda: first not in versions_served(service))
    workers, answer = workers_of(service), service.post("/v1/predict", {"input": TEXT}).document
    for path in own_model.rglob("*"):
        if path.is_file():
            os.truncate(path, 0)
    wait_until(lambda: service.get("/health").document["problem"] is not None)
    questions = [{"input": TEXT}, {"input": "sea wind stone"}, {"inputs": [TEXT] * 200}]
    assert {service.post("/v1/predict", question).status for question in questions * 3} == {200}
    assert service.post("/v1/predict", {"input": TEXT}).document == answer
    assert workers_of(service) == workers
    for process in (service.process.pid, *workers):  # nothing of the model is mapped from its files
        assert str(own_model.resolve()) not in Path(f"/proc/{process}/maps").read_text()


def test_after_kills_nothing_is_in_flight_and_nothing_is_left(
    serve: Callable[..., Service], word_model: Path, tmp_path: Path
) -> None:
    service = serve(word_model, "--workers", "2", TMPDIR=str(tmp_path))
    many = {"inputs": [TEXT] * 1000, "k": 40}

    def ask() -> None:
        with suppress(OSError, http.client.HTTPException):
            service.post("/v1/predict", many)

    askers = [threading.Thread(target=ask) for _ in range(6)]
    for asker in askers:
        asker.start()
    wait_until(lambda: begun(service) >= 2)
    before = workers_of(service)
    for worker in before:
        os.kill(worker, signal.SIGKILL)
    for asker in askers:
        asker.join()
    wait_until(lambda: len(workers_of(service)) == 2 and not workers_of(service) & before)
    assert "sldl_requests_in_flight 1.0" in service.get("/metrics").body.decode()  # this request
    assert len(list(tmp_path.glob("sldl-serve-*"))) == 1
    service.process.kill()
    wait_until(lambda: not list(tmp_path.glob("sldl-serve-*")))


def test_what_services_left_that_were_killed_goes_when_another_starts(
    serve: Callable[..., Service], word_model: Path, tmp_path: Path
) -> None:
    service = serve(word_model, "--workers", "1", TMPDIR=str(tmp_path))
    wait_until(lambda: len(workers_of(service)) == 1)
    workers = workers_of(service)
    service.process.kill()
    for worker in workers:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    (tmp_path / "sldl-serve-left").mkdir()
    (tmp_path / "sldl-serve-left" / "lock").touch()
    serve(word_model, "--workers", "1", TMPDIR=str(tmp_path))
    wait_until(lambda: len(list(tmp_path.glob("sldl-serve-*"))) == 1)


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

    def workers() -> set[int]:
        return workers_of(service)

    wait_until(lambda: len(workers()) == 2)
    before = workers()
    os.kill(min(before), signal.SIGKILL)
    wait_until(lambda: len(workers()) == 2 and workers() != before)
    assert all(service.post("/v1/predict", {"input": TEXT}).status == 200 for _ in range(6))

    left = workers()
    service.process.kill()
    wait_until(lambda: not any(Path(f"/proc/{worker}/cmdline").exists() for worker in left))


def test_a_service_that_is_stopped_at_once_ends_without_a_word(serve: Callable[..., Service], word_model: Path) -> None:
    code, said = serve(word_model, "--workers", "2").stop()  # often before the workers have been forked
    assert (code, said) == (0, "")


def test_connections_wait_although_workers_accept_one_at_a_time() -> None:
    with server._listen("127.0.0.1", 0) as listener:
        listener.listen(1)  # as asyncio does for uvicorn's backlog
        waiting = [socket.create_connection(listener.getsockname(), timeout=10) for _ in range(20)]
        accepted = [listener.accept()[0] for _ in waiting]
        for connection in (*waiting, *accepted):
            connection.close()


def test_workers_that_do_not_end_are_killed() -> None:
    source = SimpleNamespace(path=Path("nowhere"), number=0)
    supervisor = server.Supervisor(lambda until: None, source, None, 1.0)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as worker:
        supervisor._workers |= {worker.pid: None, 2**22 + 1: None}  # no process has the second number
        supervisor._kill()
        assert worker.wait(timeout=PATIENCE) == -signal.SIGKILL


def test_several_workers_need_fork(monkeypatch: pytest.MonkeyPatch, word_model: Path) -> None:
    monkeypatch.delattr(server.os, "fork")
    with pytest.raises(DataError, match="--workers 1"):
        server.serve_model(word_model, workers=2)
