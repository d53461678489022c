"""Counters: of one process, and of several, of which some are killed."""

import json
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from service_process import PATIENCE, Service

from pysldl.serve import telemetry
from pysldl.serve.telemetry import Telemetry

WORKERS = """
import os, signal, sys, time
from pathlib import Path
from pysldl.serve.telemetry import Telemetry
telemetry = Telemetry(Path(sys.argv[1]))
workers = []
for number in range(4):
    worker = os.fork()
    if not worker:
        telemetry.in_flight.inc()
        for _ in range(1000):
            telemetry.rows.inc(2)
            telemetry.observe("predict", 200, 0.02)
        os.kill(os.getpid(), signal.SIGKILL if number % 2 else signal.SIGTERM)
        time.sleep(60)
    workers.append(worker)
for worker in workers:
    os.waitpid(worker, 0)
print(telemetry.text("v1"))
for worker in workers:
    telemetry.forget_worker(worker)
print(telemetry.text("v1"))
"""


def figures(text: str) -> dict[str, float]:
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in text.splitlines() if line[:1] != "#")
    }


def test_one_process():
    counters = Telemetry()
    counters.rows.inc(3)
    counters.observe("predict", 200, 0.02)
    counters.observe("other", 404, 0.0001)
    with counters.in_flight.track_inprogress():
        found = figures(counters.text("abc"))
    assert found["sldl_rows_total"] == 3 and found["sldl_requests_in_flight"] == 1
    assert found['sldl_requests_total{route="other",status="404"}'] == 1
    assert found['sldl_request_seconds_bucket{le="0.025",route="predict"}'] == 1
    assert found['sldl_request_seconds_bucket{le="0.01",route="predict"}'] == 0
    assert found['sldl_model_info{version="abc"}'] == 1 and found["sldl_resident_bytes"] > 1e6
    assert found["sldl_reloads_total"] == found["sldl_reload_failures_total"] == 0
    counters.forget_worker(1)


def test_killed_workers_lose_no_count_and_leave_the_gauges(tmp_path):
    command = [sys.executable, "-c", WORKERS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    before, after = (figures(text) for text in done.stdout.split("\n\n") if text.strip())
    for found in (before, after):
        assert found["sldl_rows_total"] == 8000
        assert found['sldl_requests_total{route="predict",status="200"}'] == 4000
        assert found['sldl_request_seconds_count{route="predict"}'] == 4000
    assert (before["sldl_requests_in_flight"], after["sldl_requests_in_flight"]) == (4, 0)


def test_a_system_that_does_not_tell_its_memory(monkeypatch):
    def refuse(path):
        raise OSError

    monkeypatch.setattr(telemetry.Path, "read_text", refuse)
    assert figures(Telemetry().text("v"))["sldl_resident_bytes"] == 0


# One line a request, without what was asked


def test_every_request_has_a_line_without_its_text(
    serve: Callable[..., Service], word_model: Path, tmp_path: Path
) -> None:
    log = tmp_path / "access.log"
    service = serve(word_model, "--workers", "2", "--access-log", str(log))
    service.post("/v1/predict", {"input": "secretword cloud"})
    service.get("/v1/labels?query=secretquery")
    service.get("/secretpath")
    service.get("/v1/projects/secretproject")
    service.stop()
    assert "secret" not in log.read_text()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    # A line is written after its answer is sent, and each worker writes its own: two may change places.
    assert sorted((line["method"], line["route"], line["status"]) for line in lines) == [
        ("GET", "labels", 200),
        ("GET", "project", 404),
        ("POST", "predict", 200),
        ("other", "other", 404),
    ]
    assert all(line["client"] == "127.0.0.1" and line["seconds"] > 0 for line in lines)
    assert next(line["bytes"] for line in lines if line["route"] == "predict") > 20


def test_tls_by_option(serve: Callable[..., Service], word_model: Path, tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    try:
        subprocess.run(
            [*command, "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
            check=True,
            capture_output=True,
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no openssl command that makes a certificate on this machine")
    service = serve(word_model, "--workers", "1", "--tls-cert", str(cert), "--tls-key", str(key))
    assert service.address.startswith("https://")
    trusting = ssl.create_default_context(cafile=str(cert))
    with urllib.request.urlopen(f"{service.address}/health", context=trusting, timeout=PATIENCE) as reply:
        assert json.load(reply)["status"] == "ok"
