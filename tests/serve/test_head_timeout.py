"""The head of a request must come in time, on new connections and on those that are kept."""

import socket
import time

from service_process import Service

WHOLE = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


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
    with socket.create_connection(("127.0.0.1", strict_service.port), timeout=20) as wire:
        for _ in range(2):
            wire.sendall(WHOLE)
            assert answer(wire).startswith(b"HTTP/1.1 200")
        started = time.monotonic()
        wire.sendall(WHOLE[:12])
        refused = answer(wire)
        assert refused.startswith(b"HTTP/1.1 408") and b"request_too_slow" in refused
        assert 0.5 < time.monotonic() - started < 5 and wire.recv(1) == b""


def test_a_connection_that_waits_between_requests_is_kept(strict_service: Service) -> None:
    with socket.create_connection(("127.0.0.1", strict_service.port), timeout=20) as wire:
        for pause in (0, 1.5):
            time.sleep(pause)
            wire.sendall(WHOLE)
            assert answer(wire).startswith(b"HTTP/1.1 200")


def test_drops_of_a_head_do_not_extend_the_time(strict_service: Service) -> None:
    started = time.monotonic()
    with socket.create_connection(("127.0.0.1", strict_service.port), timeout=0.3) as wire:
        while time.monotonic() - started < 10:
            wire.sendall(b"X")
            try:
                found = wire.recv(65536)
            except TimeoutError:
                continue
            assert found.startswith(b"HTTP/1.1 408")
            break
    assert time.monotonic() - started < 5
