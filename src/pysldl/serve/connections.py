"""Limits of time, size and number for connections before a request is complete, which uvicorn does not have."""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any, ClassVar

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pysldl.serve.bodies import json_bytes
from pysldl.serve.errors import ServiceError
from pysldl.serve.limits import Limits

MOST_HEAD_BYTES = 65_536
Address = tuple[str, int]


class Connections:
    """An ASGI application whose connections are counted and timed.

    The head of a request must come in time and may not be too long. The time begins with the connection, or with the
    first byte of a further request on it, and ends when the application is called. Where there are too many
    connections, the one that has been idle longest is closed: clients that only hold connections cannot keep others
    away. All this is done by :attr:`protocol`, for ``uvicorn.Config(http=...)``, which passes everything on to
    uvicorn's.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self.seconds = limits.read_timeout
        self._most, self._most_of_client = limits.max_connections, limits.client_connections
        self._open: dict[Address, _Connection] = {}
        self._idle: OrderedDict[Address, _Connection] = OrderedDict()
        self._of_client: Counter[str] = Counter()
        self.protocol: type[asyncio.Protocol] = type("Connection", (_Connection,), {"all": self})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stop the time of the connection and pass the request on to the application."""
        connection = self._open.get(_address(scope["client"])) if scope["type"] == "http" else None
        if connection is None:
            return await self._app(scope, receive, send)
        connection.begin()
        self._idle.pop(connection.address, None)
        try:
            await self._app(scope, receive, send)
        finally:
            connection.end()
            if connection.address in self._open:
                self._idle[connection.address] = connection

    def add(self, connection: "_Connection") -> ServiceError | None:
        """Count a new connection, and make room for it; return why it is refused."""
        client = connection.address[0]
        if self._most_of_client and self._of_client[client] >= self._most_of_client:
            return ServiceError("too_many_requests", "This client has too many connections.")
        if len(self._open) >= self._most:
            if not self._idle:
                return ServiceError("overloaded", "The service is busy: try again soon.")
            _, longest = self._idle.popitem(last=False)
            longest.close()
        self._open[connection.address] = self._idle[connection.address] = connection
        self._of_client[client] += 1
        return None

    def remove(self, connection: "_Connection") -> None:
        """Forget a connection that is closed."""
        if self._open.get(connection.address) is connection:
            del self._open[connection.address]
            self._idle.pop(connection.address, None)
            self._of_client[connection.address[0]] -= 1
            if not self._of_client[connection.address[0]]:
                del self._of_client[connection.address[0]]


class _Connection(asyncio.Protocol):
    all: ClassVar[Connections]

    def __init__(self, **uvicorn_arguments: Any) -> None:
        self._inner = HttpToolsProtocol(**uvicorn_arguments)
        self._timer: asyncio.TimerHandle | None = None
        self._is_responding = False
        self._n_head_bytes = 0
        for name in ("eof_received", "pause_writing", "resume_writing"):
            setattr(self, name, getattr(self._inner, name))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.address = transport, _address(transport.get_extra_info("peername"))
        self._inner.connection_made(_JoinedWrites(transport))  # type: ignore[arg-type]
        if refusal := self.all.add(self):
            self._refuse(refusal)
        else:
            self._start_time()

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        if not self._is_responding:
            self._start_time()
            self._n_head_bytes += len(data)
        self._inner.data_received(data)
        if not self._is_responding and self._n_head_bytes > MOST_HEAD_BYTES:
            # Where the head was complete, the task that calls the application comes first.
            asyncio.get_running_loop().call_soon(self._check_head)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_time()
        self.all.remove(self)
        self._inner.connection_lost(exc)

    def begin(self) -> None:
        """Note that the application has the request."""
        self._is_responding, self._n_head_bytes = True, 0
        self._stop_time()

    def end(self) -> None:
        """Note that the application has responded; what comes next is another head."""
        self._is_responding = False

    def close(self) -> None:
        """Close the connection without a word."""
        self._transport.close()

    def _start_time(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.all.seconds, self._on_time)

    def _stop_time(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        message = f"No complete request arrived within {self.all.seconds:g} seconds."
        self._refuse(ServiceError("request_too_slow", message))

    def _check_head(self) -> None:
        if not self._is_responding:
            self._refuse(ServiceError("head_too_large", f"A head may have at most {MOST_HEAD_BYTES} bytes."))

    def _refuse(self, refusal: ServiceError) -> None:
        if self._transport.is_closing():
            return
        body = json_bytes(refusal.body())
        head = (
            f"HTTP/1.1 {refusal.status.value} {refusal.status.phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self._transport.write(head.encode("ascii") + body)
        self._transport.close()


class _JoinedWrites:
    """A transport that sends the head of a response with the body, which uvicorn writes next: one packet, not two."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._head = transport, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 100"):
            self._flush()
            self._head = data
            asyncio.get_running_loop().call_soon(self._flush)  # where no body comes at once
        else:
            head, self._head = self._head, b""
            self._transport.write(head + data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)


def _address(peer: Sequence[Any] | None) -> Address:
    """Return what tells connections apart; a connection that was closed at once has no peer."""
    return ("", time.perf_counter_ns()) if peer is None else (str(peer[0]), int(peer[1]))
