"""What the service refuses: each under its own stable code, nothing with a 5xx, nothing that hangs."""

import json
import random
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hostile import described_requests, hostile_requests, raw_exchange
from service_process import PATIENCE, Service

from pysldl.cli import run

JSON = {"Content-Type": "application/json"}
POST = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
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
        (b'{"input": "cloud", "labels": ["\\ud800"]}', "unknown_label"),
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
    status, body = raw_exchange(
        service.port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    )
    assert status == 404 and b"not_found" in body


def test_limits_of_the_command_line(strict_service: Service) -> None:
    service = strict_service
    large = service.send("POST", "/v1/predict", b" " * 2001, JSON)
    assert (large.status, large.code) == (413, "body_too_large")
    chunked = POST + b"Transfer-Encoding: chunked\r\n\r\n"
    status, body = raw_exchange(service.port, chunked + (b"400\r\n" + b" " * 1024 + b"\r\n") * 4)
    assert status == 413 and b"body_too_large" in body
    assert service.post("/v1/predict", {"inputs": ["a"] * 4}).code == "invalid_request"
    assert service.post("/v1/predict", {"input": "a", "k": 8}).code == "invalid_request"
    assert service.get("/v1/labels?limit=8").code == "invalid_request"
    assert service.post("/v1/predict", {"inputs": ["cloud"] * 3, "k": 7}).status == 200


@pytest.mark.parametrize("close", [b"Connection: close\r\n", b""])
@pytest.mark.parametrize("path", [b"/v1/predict", b"/nowhere", b"/health"])
def test_a_body_of_ten_megabytes_is_answered_and_not_cut_off(service: Service, path: bytes, close: bytes) -> None:
    head = POST.replace(b"/v1/predict", path) + close + b"Content-Length: 10000000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE) as wire:
        wire.sendall(head + b" " * 10_000_000)
        answer = wire.recv(65536)
    assert answer[9:12] == {b"/v1/predict": b"413", b"/nowhere": b"404", b"/health": b"405"}[path]


def test_a_body_that_is_only_announced_is_refused_at_once(service: Service) -> None:
    # The rest of the body never comes: an answer that waited for it would be another one.
    status, body = raw_exchange(service.port, POST + b"Expect: 100-continue\r\nContent-Length: 10000000\r\n\r\n")
    assert status == 413 and b"too long (limit 4 MB)" in body


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("LOCALHOST:1", 200),
        ("[::1]:80", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("192.168.0.1", 421),
        ("", 421),
    ],
)
def test_only_hosts_that_are_meant(service: Service, host: str, status: int) -> None:
    request = f"GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    assert raw_exchange(service.port, request.encode())[0] == status


def test_pages_of_other_sites_are_refused(service: Service) -> None:
    own, other = f"http://127.0.0.1:{service.port}", "http://evil.example"
    assert service.get("/v1/model", Origin=own).status == 200
    assert service.get("/v1/model", Origin=other).code == "foreign_origin"
    assert service.get("/v1/model", Origin="null").code == "foreign_origin"
    for head in (b"", b"Host: localhost\r\nHost: evil.example\r\n"):
        status, _ = raw_exchange(service.port, b"GET /health HTTP/1.1\r\n" + head + b"Connection: close\r\n\r\n")
        assert status == 400


def test_further_hosts_and_clients_that_ask_too_often(serve: Callable[..., Service], word_model: Path) -> None:
    options = ("--allowed-host", "tags.example.org", "--allowed-host", "b.example", "--client-rate", "5")
    service = serve(word_model, "--workers", "1", *options)
    answers = [service.get("/health", Host="tags.example.org") for _ in range(30)]
    assert {answer.status for answer in answers} == {200, 429} and answers[0].status == 200
    assert next(answer for answer in answers if answer.status == 429).headers["retry-after"] == "1"


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
    for path in ("/", "/page/main.js", "/health/live", "/health/ready"):
        assert service.get(path).status == 200
    for path in ("/health", "/metrics", "/openapi.json", "/v1/map", "/v1/labels", "/v1/projects", "/v1/relations"):
        assert service.get(path).code == "unauthorized"
        assert service.get(path, Authorization="Bearer open-sesame").status in (200, 400)


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
    begun = [b"", b"GET /hea", b"GET /health HTTP/1.1\r\nHost: localhost\r\n"]
    body = POST + b'Content-Length: 99\r\n\r\n{"in'
    for start in (*begun, body):
        status, answer = raw_exchange(strict_service.port, start)
        assert status == 408 and b"request_too_slow" in answer


def test_hostile_requests_get_4xx_and_the_service_stays_well(service: Service) -> None:
    random_source = random.Random(0)
    described = described_requests(random_source, 300, service.get("/openapi.json").document)
    for request in (*hostile_requests(random_source, 300, n_features=240), *described):
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
        "words",
        [
            ("--port", "70000"),
            ("--workers", "0"),
            ("--max-body", "much"),
            ("--host", "no.such.host.invalid"),
            ("--tls-cert", "no.pem"),
            ("--tls-cert", "no.pem", "--tls-key", "no.pem"),
            ("--access-log", "/no/such/folder/log"),
            ("--feedback", "/no/such/folder/file"),
            ("--learn",),
        ],
    )
    def test_settings(self, capsys: pytest.CaptureFixture[str], word_model: Path, words: tuple[str, ...]) -> None:
        self.refused(capsys, str(word_model), *words)
