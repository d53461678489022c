"""Connections: heads that come in time and are not too long, and clients that only hold connections."""

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from hostile import raw_exchange
from service_process import PATIENCE, Service

WHOLE = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def answer(wire: socket.socket) -> bytes:
    """Read until a whole response with its body has come, or the connection is closed."""
    found = b""
    while block := wire.recv(65536):
        found += block
        head, complete, body = found.partition(b"\r\n\r\n")
        if complete and len(body) >= int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]):
            break
    return found


def test_a_slow_head_after_a_complete_request_is_refused(strict_service: Service) -> None:
    with socket.create_connection(("127.0.0.1", strict_service.port), timeout=PATIENCE) as wire:
        for _ in range(2):
            wire.sendall(WHOLE)
            assert answer(wire).startswith(b"HTTP/1.1 200")
        started = time.monotonic()
        wire.sendall(WHOLE[:12])
        refused = answer(wire)
        assert refused.startswith(b"HTTP/1.1 408") and b"request_too_slow" in refused
        assert time.monotonic() - started > 0.5 and wire.recv(1) == b""


def test_a_connection_that_waits_between_requests_is_kept(strict_service: Service) -> None:
    with socket.create_connection(("127.0.0.1", strict_service.port), timeout=PATIENCE) as wire:
        for pause in (0, 1.5):
            time.sleep(pause)
            wire.sendall(WHOLE)
            assert answer(wire).startswith(b"HTTP/1.1 200")


def test_drops_of_a_head_do_not_extend_the_time(strict_service: Service) -> None:
    found = b""
    with socket.create_connection(("127.0.0.1", strict_service.port), timeout=0.3) as wire:
        for drop in b"GET /health HTTP/1.1 and so on, slowly".ljust(400, b"."):
            wire.sendall(bytes([drop]))
            try:
                found = wire.recv(65536)
            except TimeoutError:
                continue
            break
    assert found.startswith(b"HTTP/1.1 408")


def test_a_head_that_is_too_long_is_refused(strict_service: Service) -> None:
    endless = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 70_000
    with socket.create_connection(("127.0.0.1", strict_service.port), timeout=PATIENCE) as wire:
        wire.sendall(WHOLE)
        assert answer(wire).startswith(b"HTTP/1.1 200")
        wire.sendall(endless)
        assert answer(wire).startswith(b"HTTP/1.1 431")
    status, body = raw_exchange(strict_service.port, endless)
    assert status == 431 and b"head_too_large" in body


def test_length_with_chunks_is_refused_and_the_connection_closed(strict_service: Service) -> None:
    both = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", strict_service.port), timeout=PATIENCE) as wire:
        wire.sendall(both + b"0\r\n\r\n" + WHOLE)
        found = b""
        while block := wire.recv(65536):
            found += block
    assert found.startswith(b"HTTP/1.1 400") and found.count(b"HTTP/1.1") == 1


def test_idle_connections_keep_nobody_away(serve: Callable[..., Service], word_model: Path) -> None:
    # Idle connections are not closed by time here: only by those that come later.
    service = serve(word_model, "--workers", "1", "--max-connections", "30", "--read-timeout", "600")
    with ExitStack() as held:
        for _ in range(200):
            held.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE))
        for _ in range(5):
            assert service.get("/health").status == 200


def test_a_client_has_a_limit_of_connections(serve: Callable[..., Service], word_model: Path) -> None:
    service = serve(word_model, "--workers", "1", "--client-connections", "2")
    with ExitStack() as held:
        for _ in range(2):
            wire = held.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE))
            wire.sendall(WHOLE)
            assert answer(wire).startswith(b"HTTP/1.1 200")
        status, body = raw_exchange(service.port, WHOLE)
        assert status == 429 and b"too_many_requests" in body
    status, _ = raw_exchange(service.port, WHOLE)
    assert status == 200
