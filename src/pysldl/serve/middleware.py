"""Middleware around the routes: allowed hosts, rates of clients, counters, times and the access log."""

import asyncio
import ipaddress
import time
from collections.abc import Iterable, Mapping

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pysldl.serve.bodies import json_bytes
from pysldl.serve.errors import ServiceError
from pysldl.serve.limits import Limits
from pysldl.serve.telemetry import AccessLog, Telemetry

MOST_UNREAD = 64_000_000
MOST_CLIENTS = 10_000
NO_SNIFFING = (b"x-content-type-options", b"nosniff")

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANY = "*"


class AllowedHosts:
    """The names and addresses under which clients may call.

    ``listening`` is the name or address where the service listens; those that mean "everywhere" name no host. Among
    further ``names``, "*" allows all, where something before the service checks them.

    A page of another site can make a browser call this service under a name of its own, whose address it then changes
    to ours (DNS rebinding); the browser would give it the answers. Such a request carries the other name in its Host
    header.

    Examples
    --------
    >>> hosts = AllowedHosts("127.0.0.1", ["tags.example.org"])
    >>> hosts.allows("Tags.Example.org:8000", None), hosts.allows("evil.example", None)
    (True, False)
    """

    def __init__(self, listening: str = "127.0.0.1", names: Iterable[str] = ()) -> None:
        self._names = {_plain(name) for name in (*LOOPBACK, listening, *names)} - {"", "0.0.0.0", "::"}

    def check(self, headers: Mapping[str, str], server: str | None) -> None:
        """Refuse a request for another host than ``server``, the address called, or one from a page of another site."""
        host = headers.get("host", "")
        if not self.allows(host, server):
            message = "This service does not answer to that host name; see --allowed-host of sldl serve."
            raise ServiceError("unknown_host", message)
        origin = headers.get("origin")
        if origin is not None and ANY not in self._names and origin.partition("://")[2].lower() != host.lower():
            raise ServiceError("foreign_origin", "Pages of other sites may not call this service.")

    def allows(self, host: str, server: str | None) -> bool:
        """Return whether a Host header names this service; an address that was connected to always does."""
        name = _plain(host)
        if ANY in self._names or name in self._names:
            return True
        try:
            return server is not None and ipaddress.ip_address(name) == ipaddress.ip_address(server)
        except ValueError:
            return False


def _plain(host: str) -> str:
    """Return a host in lower case, without its port and the brackets of an IPv6 address."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0].rstrip(".")


class ClientRates:
    """How many requests each client may still send: ``rate`` a second, and those of two seconds at once."""

    def __init__(self, rate: float) -> None:
        self._rate, self._most = rate, max(1.0, 2 * rate)
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, client: str, now: float) -> bool:
        """Count one request; False where it is one too many."""
        left, last = self._left.pop(client, (self._most, now))
        left = min(self._most, left + (now - last) * self._rate)
        self._left[client] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > MOST_CLIENTS:
            del self._left[next(iter(self._left))]  # who has been silent longest
        return left >= 1


class GuardMiddleware:
    """An ASGI application that checks host, origin and rate of each request, and counts, times and logs it."""

    def __init__(
        self,
        app: ASGIApp,
        telemetry: Telemetry,
        limits: Limits,
        hosts: AllowedHosts,
        log: AccessLog | None = None,
    ) -> None:
        self._app, self._telemetry, self._hosts, self._log = app, telemetry, hosts, log
        self._read_timeout = limits.read_timeout
        self._rates = ClientRates(limits.client_rate) if limits.client_rate else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started = time.perf_counter()
        body = _Body(scope, receive)
        status = 500

        async def send_noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], NO_SNIFFING]
                # Bytes that nobody has read make the system reset the connection, and the answer is lost.
                if not _closes(message) and not await body.skip(self._read_timeout):
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        self._telemetry.in_flight.inc()
        try:
            if refusal := self._refusal(scope, started):
                await _send_refusal(refusal, send_noting)
            else:
                await self._app(scope, body.receive, send_noting)
        finally:
            self._telemetry.in_flight.dec()
            seconds = time.perf_counter() - started
            route = getattr(scope.get("endpoint"), "__name__", "other")
            self._telemetry.observe(route, status, seconds)
            if self._log is not None:
                client = (scope["client"] or ("",))[0]
                method = scope["method"] if route != "other" else "other"
                self._log.write(
                    client=client, method=method, route=route, status=status, bytes=body.n_bytes, seconds=seconds
                )

    def _refusal(self, scope: Scope, now: float) -> ServiceError | None:
        headers = Headers(scope=scope)
        if len(headers.getlist("host")) != 1:
            return ServiceError("invalid_request", "the head: must hold one Host.")
        try:
            self._hosts.check(headers, (scope.get("server") or (None,))[0])
        except ServiceError as refusal:
            return refusal
        if self._rates is not None and not self._rates.take((scope["client"] or ("",))[0], now):
            return ServiceError("too_many_requests", "This client asks too often: try again soon.", Retry_After="1")
        return None


class _Body:
    """The body of a request: how many bytes were read, and whether it is complete."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"")
        self._is_complete = length in (b"", b"0") and b"transfer-encoding" not in headers
        self._is_announced = headers.get(b"expect", b"").lower() == b"100-continue"
        self.n_bytes = 0

    async def receive(self) -> Message:
        message = await self._receive()
        self._is_announced = False
        if message["type"] == "http.request":
            self.n_bytes += len(message.get("body", b""))
            self._is_complete = not message.get("more_body", False)
        else:
            self._is_complete = True
        return message

    async def skip(self, seconds: float) -> bool:
        """Read and discard the rest; False where the client still sends, or waits for "100 Continue"."""
        if self._is_complete:
            return True
        if self._is_announced:
            return False
        most = self.n_bytes + MOST_UNREAD
        try:
            async with asyncio.timeout(seconds):
                while not self._is_complete and self.n_bytes < most:
                    await self.receive()
        except TimeoutError:
            return False
        return self._is_complete


def _closes(start: Message) -> bool:
    return any(name.lower() == b"connection" for name, _ in start["headers"])


async def _send_refusal(refusal: ServiceError, send: Send) -> None:
    body = json_bytes(refusal.body())
    headers = {"content-type": "application/json", "content-length": str(len(body)), **refusal.headers}
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status.value, "headers": raw})
    await send({"type": "http.response.body", "body": body})
