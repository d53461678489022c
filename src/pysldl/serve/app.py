"""The routes of the service."""

import asyncio
import gzip
import hmac
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pysldl.serve import openapi, telemetry
from pysldl.serve.bodies import json_response, read_json
from pysldl.serve.errors import ServiceError
from pysldl.serve.limits import Limits
from pysldl.serve.schema import check, check_query, json_type
from pysldl.serve.served_model import Kind, ServedModel
from pysldl.serve.source import ModelSource
from pysldl.serve.telemetry import Telemetry
from pysldl.serve.work_queue import WorkQueue

__all__ = ["create_app"]

USUAL_K = 5
USUAL_TOP = 8
MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
# The page loads nothing from elsewhere, and nobody may frame it.
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
KINDS: dict[str, Kind] = {"string": "text", "array": "dense", "object": "sparse"}


def create_app(source: ModelSource, settings: Limits | None = None, counters: Telemetry | None = None) -> Starlette:
    """The service as an ASGI application.

    Parameters
    ----------
    source : ModelSource
        The model and its newer versions.
    settings : Limits, optional
    counters : Telemetry, optional
        Shared by all workers.
    """
    service = _Service(source, settings or Limits(), counters or Telemetry())
    api: list[tuple[str, str, str, Callable[[Request], Awaitable[Response]]]] = [
        ("POST", "/v1/predict", "predict", service.predict),
        ("POST", "/v1/explain", "explain", service.explain),
        ("GET", "/v1/labels", "labels", service.labels),
        ("GET", "/v1/relations", "relations", service.relations),
        ("GET", "/v1/map", "map", service.map),
        ("GET", "/v1/model", "model", service.model),
        ("GET", "/health", "health", service.health),
        ("GET", "/metrics", "metrics", service.metrics),
        ("GET", "/openapi.json", "openapi", service.openapi),
    ]
    routes = [Route(path, endpoint, methods=[method], name=name) for method, path, name, endpoint in api]
    # Every asset has its own route, read when the service starts: no path of a request ever reaches a file system.
    routes += [Route(path, page, methods=["GET"], name="page") for path, page in _pages().items()]
    app = Starlette(
        routes=routes,
        lifespan=service.lifespan,
        exception_handlers={ServiceError: _refused, HTTPException: _not_routed, Exception: _failed},
    )
    app.add_middleware(_Observed, counters=service.counters, routes=routes)
    app.router.redirect_slashes = False
    return app


class _Service:
    def __init__(self, source: ModelSource, settings: Limits, counters: Telemetry) -> None:
        self.source = source
        self.settings = settings
        self.counters = counters
        self.gate = WorkQueue(settings.threads, settings.queue, settings.timeout)
        self._map: tuple[str, bytes] | None = None
        self._has_answered = False

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        watching = asyncio.create_task(self.source.watch(self.settings.poll))
        try:
            yield
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            self.gate.close()

    # Endpoints

    async def predict(self, request: Request) -> Response:
        model = self._admit(request)
        body = await read_json(request, self.settings)
        inputs, kind = _inputs(body, model)
        check(body, openapi.predict_schema(model, self.settings))
        only = [model.column(label) for label in body["labels"]] if "labels" in body else None
        threshold = body.get("threshold")
        k = int(body.get("k", USUAL_K if threshold is None and only is None else self.settings.max_k))

        def work() -> list[dict[str, Any]]:
            return model.predict(model.features(inputs, kind), k, threshold, only)

        predictions = await self.gate.run(work)
        if not self._has_answered:  # the first answer did not wait for the compiled loops; the next ones have them
            self._has_answered = True
            threading.Thread(target=model.compile_loops, name="sldl-compile", daemon=True).start()
        self.counters.count(telemetry.ROWS, len(inputs))
        return json_response({"version": model.version, "predictions": predictions})

    async def explain(self, request: Request) -> Response:
        model = self._admit(request)
        body = await read_json(request, self.settings)
        inputs, kind = _inputs(body, model)
        check(body, openapi.explain_schema(model, self.settings))
        column = model.column(body["label"])
        top = int(body.get("top", min(USUAL_TOP, self.settings.max_k)))
        text = inputs[0] if kind == "text" else None
        reasons = await self.gate.run(lambda: model.explain(model.features(inputs, kind), column, top, text))
        return json_response({"version": model.version, **reasons})

    async def labels(self, request: Request) -> Response:
        model = self._admit(request)
        asked = self._query(request, openapi.labels_parameters(self.settings))
        found = model.search(asked["query"], asked["min_count"])
        shown = found[asked["offset"] : asked["offset"] + asked["limit"]].tolist()
        labels = [{"label": model.labels[column], "count": int(model.counts[column])} for column in shown]
        return json_response({"version": model.version, "total": len(found), "labels": labels})

    async def relations(self, request: Request) -> Response:
        model = self._admit(request)
        asked = self._query(request, openapi.relations_parameters(self.settings))
        if "label" not in asked:
            raise ServiceError("invalid_request", "label: is missing; name the label whose relations you want.")
        found = await self.gate.run(lambda: model.relations(asked["label"], asked["limit"], asked["min_count"]))
        return json_response({"version": model.version, **found})

    async def map(self, request: Request) -> Response:
        """The map, made and packed once a version: it is the one large answer."""
        model = self._admit(request)
        self._query(request, {})
        if self._map is None or self._map[0] != model.version:
            packed = await self.gate.run(lambda: _packed({"version": model.version, **model.map()}))
            self._map = (model.version, packed)
        packed = self._map[1]
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, headers={"Content-Encoding": "gzip"}, media_type="application/json")
        return Response(await self.gate.run(lambda: gzip.decompress(packed)), media_type="application/json")

    async def model(self, request: Request) -> Response:
        model = self._admit(request)
        self._query(request, {})
        return json_response({"version": model.version, **model.facts()})

    async def health(self, request: Request) -> Response:
        self._query(request, {})
        model, problem = self.source.current, self.source.problem
        return json_response({"status": "ok", "version": model.version, "model": model.name, "problem": problem})

    async def metrics(self, request: Request) -> Response:
        return PlainTextResponse(self.counters.text(self.source.current.version))

    async def openapi(self, request: Request) -> Response:
        return json_response(openapi.openapi(self.source.current, self.settings))

    # Admission

    def _admit(self, request: Request) -> ServedModel:
        """The version that answers this request, once the client has shown its token."""
        if self.settings.token is not None:
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            wanted = self.settings.token.encode()
            if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("latin-1"), wanted):
                message = "This service wants a token: send Authorization: Bearer and the token."
                raise ServiceError("unauthorized", message, WWW_Authenticate="Bearer")
        return self.source.current

    @staticmethod
    def _query(request: Request, parameters: dict[str, Any]) -> dict[str, Any]:
        return check_query(request.query_params.multi_items(), parameters)


def _inputs(body: Any, model: ServedModel) -> tuple[Sequence[Any], Kind]:
    """The inputs of a body and their kind; what the model cannot take at all is said in its own words."""
    inputs = [body["input"]] if isinstance(body, dict) and "input" in body else None
    if inputs is None and isinstance(body, dict) and isinstance(body.get("inputs"), list):
        inputs = body["inputs"]
    if not inputs:
        return [], "text"  # what is wrong with it the schema says
    kind = KINDS.get(json_type(inputs[0]), "text")
    if kind == "text" and not model.takes_text and isinstance(inputs[0], str):
        raise ServiceError("vector_expected", f"The model {model.name} knows no words: send vectors instead of texts.")
    if kind != "text" and not model.takes_vectors:
        raise ServiceError("text_expected", f"The model {model.name} was trained on texts: send texts, not vectors.")
    if kind == "text" and any(isinstance(text, str) and not text.strip() for text in inputs):
        raise ServiceError("empty_text", "The text is empty: send at least one word.")
    return inputs, kind


def _packed(document: dict[str, Any]) -> bytes:
    return gzip.compress(json.dumps(document, allow_nan=False, separators=(",", ":")).encode(), 5)


# Pages


def _pages() -> dict[str, Callable[[Request], Awaitable[Response]]]:
    """Path and answer of every asset of the page."""
    pages = {}
    for asset in files("pysldl.serve").joinpath("page").iterdir():
        suffix = asset.name.rpartition(".")[2]
        if suffix in MEDIA_TYPES:
            path = "/" if asset.name == "index.html" else f"/page/{asset.name}"
            pages[path] = _page(asset.read_bytes(), MEDIA_TYPES[suffix])
    return pages


def _page(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return Response(content, headers=PAGE_HEADERS, media_type=media_type)

    return answer


# Errors


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    return json_response(error.body(), error.status, error.headers)


async def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        refusal = ServiceError("method_not_allowed", f"{request.method[:20]} is not a method of this address.")
        return json_response(refusal.body(), refusal.status, error.headers)
    refusal = ServiceError("not_found", "There is nothing at this address; /openapi.json lists what there is.")
    return json_response(refusal.body(), refusal.status)


async def _failed(request: Request, error: Exception) -> Response:
    refusal = ServiceError("internal_error", "Something went wrong inside the service; its log says what.")
    return json_response(refusal.body(), refusal.status)


class _Observed:
    """Counts and times every request, and adds the headers that every answer carries."""

    def __init__(self, app: ASGIApp, counters: Telemetry, routes: Sequence[Route]) -> None:
        self.app = app
        self.counters = counters
        self._route_of = {route.path: route.name for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 500

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            await send(message)

        self.counters.count(telemetry.IN_FLIGHT)
        try:
            await self.app(scope, receive, note_status)
        finally:
            self.counters.count(telemetry.IN_FLIGHT, -1)
            route = self._route_of.get(scope["path"], "other")
            self.counters.observe(route, status, time.perf_counter() - started)
