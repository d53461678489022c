"""One line a request, without what was asked."""

import json
import ssl
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from service_process import PATIENCE, Service


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
