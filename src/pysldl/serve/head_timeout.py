"""A time limit for the head of a request, which uvicorn itself does not have."""

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from pysldl.serve.bodies import json_bytes
from pysldl.serve.errors import ServiceError

__all__ = ["HeadTimeout"]

Address = tuple[str, int]


class HeadTimeout:
    """An ASGI application whose clients must send the head of a request in time.

    The time begins with the connection, or with the first byte of a further request on it, and ends when the
    application is called. It is measured by :attr:`protocol`, which passes everything on to uvicorn's protocol.

    Parameters
    ----------
    app : ASGI application
    seconds : float

    Attributes
    ----------
    protocol : type of asyncio.Protocol
        For ``uvicorn.Config(http=...)``.
    """

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app, self._seconds = app, seconds
        self._timers: dict[Address, asyncio.TimerHandle] = {}
        self._responding: set[Address] = set()
        self.protocol: type[asyncio.Protocol] = type("TimedProtocol", (_TimedProtocol,), {"limit": self})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stop the time of the connection and pass the request on to the application."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        address = _address(scope["client"])
        self.stop(address)
        self._responding.add(address)
        try:
            await self._app(scope, receive, send)
        finally:
            self._responding.discard(address)

    def start(self, address: Address, transport: asyncio.Transport) -> None:
        """Start the time of a connection, unless it runs or a request is being responded to."""
        if address not in self._timers and address not in self._responding:
            loop = asyncio.get_running_loop()
            self._timers[address] = loop.call_later(self._seconds, self._refuse, transport)

    def stop(self, address: Address) -> None:
        """Stop the time of a connection."""
        if timer := self._timers.pop(address, None):
            timer.cancel()

    def _refuse(self, transport: asyncio.Transport) -> None:
        if not transport.is_closing():
            message = f"No complete request arrived within {self._seconds:g} seconds."
            refusal = ServiceError("request_too_slow", message)
            body = json_bytes(refusal.body())
            head = (
                f"HTTP/1.1 {refusal.status.value} {refusal.status.phrase}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            transport.write(head.encode("ascii") + body)
            transport.close()


class _TimedProtocol(asyncio.Protocol):
    limit: ClassVar[HeadTimeout]

    def __init__(self, **uvicorn_arguments: Any) -> None:
        self._inner = H11Protocol(**uvicorn_arguments)
        for name in ("eof_received", "pause_writing", "resume_writing"):
            setattr(self, name, getattr(self._inner, name))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._address = transport, _address(transport.get_extra_info("peername"))
        self.limit.start(self._address, transport)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.limit.start(self._address, self._transport)
        self._inner.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.limit.stop(self._address)
        self._inner.connection_lost(exc)


def _address(peer: Sequence[Any] | None) -> Address:
    """Return what tells connections apart; a connection that was closed at once has no peer."""
    return ("", 0) if peer is None else (str(peer[0]), int(peer[1]))
