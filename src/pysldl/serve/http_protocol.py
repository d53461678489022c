"""HTTP/1.1 as uvicorn speaks it, with the patience of a service: a head that does not come is not waited for."""

import asyncio
import json
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pysldl.serve.errors import ServiceError

__all__ = ["protocol_with"]


def protocol_with(head_timeout: float) -> type[asyncio.Protocol]:
    """The protocol class of a service that waits so many seconds for the head of a request."""
    return type("PatientProtocol", (_Protocol,), {"head_timeout": head_timeout})


class _Protocol(H11Protocol):
    head_timeout = 10.0
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()
        else:
            self._refuse(ServiceError("invalid_request", "This is not a request of HTTP/1.1."))

    def _wait_for_head(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(self.head_timeout, self._head_is_late)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _head_is_late(self) -> None:
        self._waiting = None
        if not self.transport.is_closing() and self.conn.their_state is h11.IDLE:
            message = f"No whole request arrived within {self.head_timeout:g} seconds."
            self._refuse(ServiceError("request_too_slow", message))

    def _refuse(self, refusal: ServiceError) -> None:
        """Answer below the application, which has not heard of the request."""
        body = json.dumps(refusal.body()).encode()
        status: Any = HTTPStatus(refusal.status)
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()
