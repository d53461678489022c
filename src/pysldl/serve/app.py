"""The routes of the service."""

import asyncio
import gzip
import hmac
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pysldl.serve import schemas
from pysldl.serve.bodies import decode_body, decode_query, json_bytes, read_body
from pysldl.serve.errors import ServiceError
from pysldl.serve.limits import Limits
from pysldl.serve.openapi import openapi
from pysldl.serve.served_model import ServedModel
from pysldl.serve.source import ModelSource
from pysldl.serve.telemetry import Telemetry
from pysldl.serve.work_queue import WorkQueue

__all__ = ["create_app"]

DEFAULT_K = 5
DEFAULT_TOP = 8
MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
# The page loads nothing from other sites, and no other site may frame it.
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}

Endpoint = Callable[[Request], Awaitable[Response]]
T = TypeVar("T", bound=msgspec.Struct)


def create_app(source: ModelSource, limits: Limits, telemetry: Telemetry, token: str | None = None) -> Starlette:
    """Return the service as an ASGI application.

    Parameters
    ----------
    source : ModelSource
        The model and its newer versions.
    limits : Limits
    telemetry : Telemetry
    token : str, optional
        What a client must send as a bearer token.
    """
    service = _Service(source, limits, telemetry, token)
    api: list[tuple[str, str, Endpoint]] = [
        ("POST", "/v1/predict", service.predict),
        ("POST", "/v1/explain", service.explain),
        ("GET", "/v1/labels", service.labels),
        ("GET", "/v1/relations", service.relations),
        ("GET", "/v1/map", service.map),
        ("GET", "/v1/model", service.model),
        ("GET", "/health", service.health),
        ("GET", "/metrics", service.metrics),
        ("GET", "/openapi.json", service.openapi),
    ]
    routes = [Route(path, endpoint, methods=[method], name=endpoint.__name__) for method, path, endpoint in api]
    # Every file of the page has its own route and is read at the start: no request can name a file.
    routes += [Route(path, page, methods=["GET"], name="page") for path, page in _pages().items()]
    app = Starlette(
        routes=routes,
        lifespan=service.lifespan,
        exception_handlers={ServiceError: _on_refusal, HTTPException: _on_no_route, Exception: _on_failure},
    )
    app.add_middleware(_Observer, telemetry=telemetry, routes=routes)
    app.router.redirect_slashes = False
    return app


class _Service:
    def __init__(self, source: ModelSource, limits: Limits, telemetry: Telemetry, token: str | None) -> None:
        self._source, self._limits, self._telemetry, self._token = source, limits, telemetry, token
        self._queue = WorkQueue(limits.threads, limits.queue, limits.timeout)
        self._types: tuple[str, schemas.RequestTypes] | None = None
        self._map: tuple[str, bytes] | None = None
        self._is_compiling = False

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        watching = asyncio.create_task(self._source.watch(self._limits.poll, self._telemetry))
        try:
            yield
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            self._queue.close()

    # Endpoints

    async def predict(self, request: Request) -> Response:
        model = self._admit(request)
        asked = decode_body(await read_body(request, self._limits), self._types_of(model).predict)
        inputs = [*(asked.inputs or []), *([] if asked.input is None else [asked.input])]
        if (asked.input is None) == (asked.inputs is None):
            raise ServiceError("invalid_request", "the body: must hold exactly one of 'input' and 'inputs'.")
        model.check_inputs(inputs)
        is_open = asked.threshold is not None or asked.labels is not None
        k = asked.k or (self._limits.max_k if is_open else min(DEFAULT_K, self._limits.max_k))
        response = await self._respond(lambda: model.predict(inputs, k, asked.threshold, asked.labels))
        self._telemetry.rows.inc(len(inputs))
        if not self._is_compiling:  # the first response does not wait for the compiled loops; later ones use them
            self._is_compiling = True
            threading.Thread(target=model.compile_loops, name="sldl-compile", daemon=True).start()
        return response

    async def explain(self, request: Request) -> Response:
        model = self._admit(request)
        asked = decode_body(await read_body(request, self._limits), self._types_of(model).explain)
        model.check_inputs([asked.input])
        top = asked.top or min(DEFAULT_TOP, self._limits.max_k)
        return await self._respond(lambda: model.explain(asked.input, asked.label, top))

    async def labels(self, request: Request) -> Response:
        model = self._admit(request)
        query = _query(request, self._types_of(model).labels)
        return await self._respond(lambda: model.find_labels(query))

    async def relations(self, request: Request) -> Response:
        model = self._admit(request)
        query = _query(request, self._types_of(model).relations)
        return await self._respond(lambda: model.relations(query))

    async def map(self, request: Request) -> Response:
        """The map is the one large response; it is made and compressed once per version."""
        model = self._admit(request)
        _query(request, schemas.NoQuery)
        if self._map is None or self._map[0] != model.version:
            packed = await self._queue.run(lambda: gzip.compress(json_bytes(model.map()), 5))
            self._map = (model.version, packed)
        packed = self._map[1]
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, headers={"Content-Encoding": "gzip"}, media_type="application/json")
        return Response(await self._queue.run(lambda: gzip.decompress(packed)), media_type="application/json")

    async def model(self, request: Request) -> Response:
        model = self._admit(request)
        _query(request, schemas.NoQuery)
        return await self._respond(model.facts)

    async def health(self, request: Request) -> Response:
        _query(request, schemas.NoQuery)
        model = self._source.current
        return _json_response(schemas.HealthResponse("ok", model.version, model.name, self._source.problem))

    async def metrics(self, request: Request) -> Response:
        return PlainTextResponse(self._telemetry.text(self._source.current.version))

    async def openapi(self, request: Request) -> Response:
        return _json_response(openapi(self._source.current, self._limits, secured=self._token is not None))

    # Shared by the endpoints

    def _admit(self, request: Request) -> ServedModel:
        """Return the version that answers this request; refuse a client without the token."""
        if self._token is not None:
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            is_right = hmac.compare_digest(given.strip().encode("latin-1"), self._token.encode())
            if scheme.lower() != "bearer" or not is_right:
                message = "Access token required: send Authorization: Bearer and the token."
                raise ServiceError("unauthorized", message, WWW_Authenticate="Bearer")
        return self._source.current

    def _types_of(self, model: ServedModel) -> schemas.RequestTypes:
        if self._types is None or self._types[0] != model.version:
            calibrated = model.calibration is not None
            types = schemas.request_types(self._limits, model.n_features, calibrated=calibrated)
            self._types = (model.version, types)
        return self._types[1]

    async def _respond(self, work: Callable[[], msgspec.Struct]) -> Response:
        return Response(await self._queue.run(lambda: json_bytes(work())), media_type="application/json")


def _query(request: Request, kind: type[T]) -> T:
    return decode_query(request.query_params.multi_items(), kind)


def _pages() -> dict[str, Endpoint]:
    """Return path and endpoint of every file of the page."""
    pages = {}
    for asset in files("pysldl.serve").joinpath("page").iterdir():
        suffix = asset.name.rpartition(".")[2]
        if suffix in MEDIA_TYPES:
            path = "/" if asset.name == "index.html" else f"/page/{asset.name}"
            pages[path] = _page(asset.read_bytes(), MEDIA_TYPES[suffix])
    return pages


def _page(content: bytes, media_type: str) -> Endpoint:
    async def page(request: Request) -> Response:
        return Response(content, headers=PAGE_HEADERS, media_type=media_type)

    return page


# Errors


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    return _json_response(error.body(), error.status, error.headers)


async def _on_no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    refusal = ServiceError("not_found", "There is nothing at this address; see /openapi.json for what there is.")
    if error.status_code == 405:
        refusal = ServiceError("method_not_allowed", f"{request.method[:20]} is not a method of this address.")
    return _json_response(refusal.body(), refusal.status, error.headers)


async def _on_failure(request: Request, error: Exception) -> Response:
    refusal = ServiceError("internal_error", "Something went wrong inside the service; see its log.")
    return _json_response(refusal.body(), refusal.status)


def _json_response(
    document: msgspec.Struct | Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(json_bytes(document), status, headers, media_type="application/json")


class _Observer:
    """Counts and times every request, and adds the headers that all responses have."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry, routes: Sequence[Route]) -> None:
        self._app, self._telemetry = app, telemetry
        self._route_of = {route.path: route.name for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started = time.perf_counter()
        status = 500

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            await send(message)

        with self._telemetry.in_flight.track_inprogress():
            try:
                await self._app(scope, receive, note_status)
            finally:
                route = self._route_of.get(scope["path"], "other")
                self._telemetry.observe(route, status, time.perf_counter() - started)
