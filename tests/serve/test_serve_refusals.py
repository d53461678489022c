"""What the service refuses: each under its own stable code, nothing with a 5xx, nothing that hangs."""

import json
import random
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hostile import hostile_requests, raw_exchange
from service_process import Service

from pysldl.cli import run

JSON = {"Content-Type": "application/json"}
NOT_HTTP = b"Invalid HTTP request received."


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "invalid_json"),
        (b"\xff\xfe", "invalid_json"),
        (b'{"input": NaN}', "invalid_json"),
        (b"[" * 100_000, "invalid_request"),
        (b'{"input": ' + b"9" * 5000 + b"}", "invalid_request"),
        (b"[]", "invalid_request"),
        (b"{}", "invalid_request"),
        (b'{"input": "a", "inputs": ["a"]}', "invalid_request"),
        (b'{"inputs": []}', "invalid_request"),
        (b'{"inputs": ["a", [1]]}', "invalid_request"),
        (b'{"input": 5}', "invalid_request"),
        (b'{"input": [1, 2]}', "invalid_request"),
        (b'{"input": {"sparse": [[240, 1]]}}', "invalid_request"),
        (b'{"input": {"sparse": [[-1, 1]]}}', "invalid_request"),
        (b'{"input": {"sparse": [[0, 1e999]]}}', "invalid_request"),
        (b'{"input": {"sparse": [[0, 1e13]]}}', "invalid_request"),
        (b'{"input": {"sparse": [[0]]}}', "invalid_request"),
        (b'{"input": "a", "k": 0}', "invalid_request"),
        (b'{"input": "a", "k": 101}', "invalid_request"),
        (b'{"input": "a", "k": true}', "invalid_request"),
        (b'{"input": "a", "threshold": "best"}', "invalid_request"),
        (b'{"input": "a", "path": "/etc/passwd"}', "invalid_request"),
        (b'{"input": ""}', "empty_text"),
        (b'{"inputs": ["cloud", " \\n"]}', "empty_text"),
        (b'{"input": "cloud", "labels": ["clout"]}', "unknown_label"),
        (b'{"input": "cloud", "labels": ["\\ud800"]}', "invalid_json"),
    ],
)
def test_bodies(service: Service, body: bytes, code: str) -> None:
    answer = service.send("POST", "/v1/predict", body, JSON)
    assert answer.code == code and 400 <= answer.status < 500
    assert answer.document["error"]["message"].endswith((".", "?"))


def test_an_unknown_label_is_told_its_likeness(service: Service) -> None:
    refused = service.post("/v1/explain", {"input": "cloud", "label": "clowd"})
    assert (refused.status, refused.code) == (404, "unknown_label")
    assert "'cloud'" in refused.document["error"]["message"]
    assert service.get("/v1/relations?label=clowd").code == "unknown_label"


@pytest.mark.parametrize("query", ["?limit=x", "?limit=0", "?limit=101", "?no=1", "?limit=1&limit=2", "?offset=-1"])
def test_queries(service: Service, query: str) -> None:
    assert (service.get(f"/v1/labels{query}").status, service.get(f"/v1/labels{query}").code) == (
        400,
        "invalid_request",
    )


def test_addresses_methods_and_media_types(service: Service) -> None:
    assert service.get("/v1/nothing").code == "not_found"
    assert service.get("/v1/predict").code == "method_not_allowed"
    assert service.get("/v1/predict").headers["allow"] == "POST"
    assert service.send("POST", "/v1/predict", b"{}", {"Content-Type": "text/plain"}).code == "json_expected"


@pytest.mark.parametrize(
    "path", ["/page/../app.py", "/page/..%2fapp.py", "//etc/passwd", "/page/%2e%2e/app.py", "/page"]
)
def test_no_path_of_a_request_reaches_a_file(service: Service, path: str) -> None:
    status, body = raw_exchange(service.port, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert status == 404 and b"not_found" in body


def test_limits_of_the_command_line(strict_service: Service) -> None:
    service = strict_service
    large = service.send("POST", "/v1/predict", b" " * 2001, JSON)
    assert (large.status, large.code) == (413, "body_too_large")
    chunked = (
        b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    status, body = raw_exchange(service.port, chunked + (b"400\r\n" + b" " * 1024 + b"\r\n") * 4)
    assert status == 413 and b"body_too_large" in body
    assert service.post("/v1/predict", {"inputs": ["a"] * 4}).code == "invalid_request"
    assert service.post("/v1/predict", {"input": "a", "k": 8}).code == "invalid_request"
    assert service.get("/v1/labels?limit=8").code == "invalid_request"
    assert service.post("/v1/predict", {"inputs": ["cloud"] * 3, "k": 7}).status == 200


def test_token(guarded_service: Service) -> None:
    service = guarded_service
    for wrong in (
        {},
        {"Authorization": "Bearer close"},
        {"Authorization": "Basic open-sesame"},
        {"Authorization": "é"},
    ):
        refused = service.get("/v1/model", **wrong)
        assert (refused.status, refused.code) == (401, "unauthorized")
    assert service.post("/v1/predict", {"input": "cloud"}).status == 401
    assert service.get("/v1/model", Authorization="Bearer open-sesame").status == 200
    assert service.get("/").status == service.get("/health").status == 200


def test_too_much_at_once_is_sent_away_and_the_rest_is_answered(
    serve: Callable[..., Service], word_model: Path
) -> None:
    service = serve(word_model, "--workers", "1", "--queue", "1")
    many = {"inputs": ["cloud rain sky kitchen"] * 1000, "k": 30}
    with ThreadPoolExecutor(12) as clients:
        answers = list(clients.map(lambda _: service.post("/v1/predict", many), range(36)))
    assert {answer.status for answer in answers} == {200, 503}
    sent_away = next(answer for answer in answers if answer.status == 503)
    assert sent_away.code == "overloaded" and int(sent_away.headers["retry-after"]) >= 1
    assert service.post("/v1/predict", {"input": "cloud"}).status == 200


def test_time_runs_out(serve: Callable[..., Service], word_model: Path) -> None:
    service = serve(word_model, "--workers", "1", "--timeout", "0.02")
    refused = service.post("/v1/predict", {"inputs": ["cloud rain sky kitchen"] * 1000, "k": 100})
    assert (refused.status, refused.code) == (503, "timed_out")


def test_slow_senders_are_not_waited_for(strict_service: Service) -> None:
    begun = [b"", b"GET /hea", b"GET /health HTTP/1.1\r\nHost: x\r\n"]
    body = b'POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"in'
    for start in (*begun, body):
        started = time.monotonic()
        status, answer = raw_exchange(strict_service.port, start)
        assert status == 408 and b"request_too_slow" in answer
        assert time.monotonic() - started < 5


def test_hostile_requests_get_4xx_and_the_service_stays_well(service: Service) -> None:
    random_source = random.Random(0)
    for request in hostile_requests(random_source, 300, n_features=240):
        status, body = raw_exchange(service.port, request)
        assert status is None or 200 <= status < 500, (request[:300], status, body[:300])
        if status is not None and status >= 400 and body and NOT_HTTP not in body:
            assert json.loads(body)["error"]["code"]
    assert service.get("/health").document["status"] == "ok"


class TestStarting:
    """What is wrong with the start is one line and exit code 2."""

    def refused(self, capsys: pytest.CaptureFixture[str], *words: str) -> str:
        assert run(["serve", *words]) == 2
        said = capsys.readouterr().err.strip().splitlines()
        assert len(said) == 1 and said[0].startswith("error: ")
        return said[0]

    def test_no_model(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        assert "no such model folder" in self.refused(capsys, str(tmp_path / "nothing"))

    def test_damaged_model(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        (tmp_path / "manifest.json").write_text("{")
        assert "damaged" in self.refused(capsys, str(tmp_path))

    def test_port_taken(self, capsys: pytest.CaptureFixture[str], word_model: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            said = self.refused(capsys, str(word_model), "--port", str(port))
        assert f"Port {port} of 127.0.0.1 is taken" in said

    @pytest.mark.parametrize(
        "words", [("--port", "70000"), ("--workers", "0"), ("--max-body", "much"), ("--host", "no.such.host.invalid")]
    )
    def test_settings(self, capsys: pytest.CaptureFixture[str], word_model: Path, words: tuple[str, str]) -> None:
        self.refused(capsys, str(word_model), *words)
