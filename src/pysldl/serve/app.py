"""The routes of the service."""

import asyncio
import gzip
import hmac
import logging
import math
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import wraps
from importlib.resources import files
from typing import Any, Literal, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from pysldl.backend.dispatch import FEW_ROWS
from pysldl.backend.threads import fixed_order_blas
from pysldl.serve import schemas
from pysldl.serve.bodies import FORM, BodyReader, decode_body, decode_form, decode_query, encode_plain, json_bytes
from pysldl.serve.errors import ServiceError
from pysldl.serve.feedback import FeedbackStore
from pysldl.serve.limits import Limits
from pysldl.serve.middleware import AllowedHosts, GuardMiddleware
from pysldl.serve.openapi import openapi
from pysldl.serve.served_model import ServedModel
from pysldl.serve.source import ModelSource
from pysldl.serve.telemetry import AccessLog, Telemetry
from pysldl.serve.work_queue import JoinedRows, WorkQueue

DEFAULT_K = 5
DEFAULT_TOP = 8
SMALL_BODY = 65_536
AT_ONCE_SECONDS = 0.005
MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
# The page loads nothing from other sites, and no other site may frame it.
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}

logger = logging.getLogger("pysldl.serve")

Endpoint = Callable[[Request], Awaitable[Response]]
T = TypeVar("T", bound=msgspec.Struct)


def create_app(
    source: ModelSource,
    limits: Limits,
    telemetry: Telemetry,
    *,
    token: str | None = None,
    hosts: AllowedHosts | None = None,
    log: AccessLog | None = None,
    feedback_store: FeedbackStore | None = None,
) -> ASGIApp:
    """Return the service of a model and its newer versions as an ASGI application.

    With a ``token``, a client must send it as a bearer token to see anything of the model. Clients may call the service
    by the names of ``hosts``; those of this machine for itself by default. Feedback goes to the ``feedback_store``;
    without one, the page offers it as a file.
    """
    service = _Service(source, limits, telemetry, token, feedback_store)
    api: list[tuple[str, str, Endpoint]] = [
        ("POST", "/v1/predict", service.predict),
        ("POST", "/v1/explain", service.explain),
        ("GET", "/v1/labels", service.labels),
        ("GET", "/v1/relations", service.relations),
        ("GET", "/v1/map", service.map),
        ("GET", "/v1/model", service.model),
        ("POST", "/v1/feedback", service.feedback),
        ("GET", "/v1/projects", service.projects),
        ("GET", "/v1/projects/{project}", service.project),
        ("POST", "/v1/projects/{project}/suggest", service.suggest),
        ("GET", "/health", service.health),
        ("GET", "/metrics", service.metrics),
        ("GET", "/openapi.json", service.openapi),
    ]
    # What shows something of the model or of its use asks for the token; the page itself shows nothing.
    guarded = [(method, path, service.admit(endpoint)) for method, path, endpoint in api]
    guarded += [("GET", "/health/live", service.live), ("GET", "/health/ready", service.ready)]
    routes = [Route(path, endpoint, methods=[method], name=endpoint.__name__) for method, path, endpoint in guarded]
    # Every file of the page has its own route and is read at the start: no request can name a file.
    routes += [Route(path, page, methods=["GET"], name="page") for path, page in _pages().items()]
    app = Starlette(
        routes=routes,
        lifespan=service.lifespan,
        exception_handlers={ServiceError: _on_refusal, HTTPException: _on_no_route, Exception: _on_failure},
    )
    app.router.redirect_slashes = False
    return GuardMiddleware(app, telemetry, limits, hosts or AllowedHosts(), log)


class _Service:
    def __init__(
        self,
        source: ModelSource,
        limits: Limits,
        telemetry: Telemetry,
        token: str | None,
        feedback_store: FeedbackStore | None,
    ) -> None:
        self._source, self._limits, self._telemetry = source, limits, telemetry
        self._token = None if token is None else token.encode()
        self._feedback_store = feedback_store
        self._bodies = BodyReader(limits)
        self._queue = WorkQueue(limits.threads, limits.queue, limits.timeout)
        self._types: tuple[str, schemas.RequestTypes] | None = None
        self._map: tuple[str, bytes] | None = None
        self._is_compiling = self._is_stopping = False
        self._typical_seconds, self._most_joined = math.inf, 1
        self._joined = JoinedRows(self._rows_at_once, self._note_seconds)
        self._learning = asyncio.Lock()

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        try:
            with fixed_order_blas():  # once and for all, so that no request has to set it
                yield
        finally:
            self._is_stopping = True
            self._queue.close()

    def admit(self, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint that refuses clients without the token."""
        if self._token is None:
            return endpoint

        @wraps(endpoint)
        async def admitted(request: Request) -> Response:
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            is_right = hmac.compare_digest(given.strip().encode("latin-1", "replace"), self._token or b"")
            if scheme.lower() != "bearer" or not is_right:
                message = "Access token required: send Authorization: Bearer and the token."
                raise ServiceError("unauthorized", message, WWW_Authenticate="Bearer")
            return await endpoint(request)

        return admitted

    # Endpoints

    async def predict(self, request: Request) -> Response:
        model = self._source.current
        body = await self._bodies.read(request)
        asked = await self._decoded(body, self._types_of(model).predict)
        inputs = [*(asked.inputs or []), *([] if asked.input is None else [asked.input])]
        if (asked.input is None) == (asked.inputs is None):
            raise ServiceError("invalid_request", "the body: must hold exactly one of 'input' and 'inputs'.")
        model.check_inputs(inputs)
        is_open = asked.threshold is not None or asked.labels is not None
        k = asked.k or (self._limits.max_k if is_open else min(DEFAULT_K, self._limits.max_k))

        def work() -> bytes:
            started = time.perf_counter()
            response = encode_plain(model.predict(inputs, k, asked.threshold, asked.labels))
            if is_single:
                self._note_seconds(time.perf_counter() - started)
            return response

        is_single = len(inputs) == 1 and len(body) <= SMALL_BODY and asked.labels is None
        # At once where that takes a few milliseconds, less than a thread has to wait for its turn.
        if is_single and self._typical_seconds <= AT_ONCE_SECONDS:
            response = await self._joined.predict(model, inputs[0], k, asked.threshold)
        else:
            response = await self._queue.run(work, is_large=len(inputs) > FEW_ROWS or len(body) > SMALL_BODY)
        self._telemetry.rows.inc(len(inputs))
        if not self._is_compiling:  # the first response does not wait for the compiled loops; later ones use them
            self._is_compiling = True
            threading.Thread(target=self._compile_loops, args=(model,), name="sldl-compile", daemon=True).start()
        return Response(response, media_type="application/json")

    def _compile_loops(self, model: ServedModel) -> None:
        self._most_joined = FEW_ROWS if model.compile_loops() else 1

    def _rows_at_once(self) -> int:
        """How many rows may be predicted together on the event loop: NumPy takes as long for each as for one alone."""
        return min(self._most_joined, int(AT_ONCE_SECONDS / max(self._typical_seconds, 1e-6)))

    def _note_seconds(self, seconds: float) -> None:
        known = self._typical_seconds
        self._typical_seconds = seconds if math.isinf(known) else 0.9 * known + 0.1 * seconds

    async def explain(self, request: Request) -> Response:
        model = self._source.current
        asked = await self._decoded(await self._bodies.read(request), self._types_of(model).explain)
        model.check_inputs([asked.input])
        top = asked.top or min(DEFAULT_TOP, self._limits.max_k)
        return await self._respond(lambda: model.explain(asked.input, asked.label, top))

    async def labels(self, request: Request) -> Response:
        model = self._source.current
        query = _query(request, self._types_of(model).labels)
        return await self._respond(lambda: model.find_labels(query))

    async def relations(self, request: Request) -> Response:
        model = self._source.current
        query = _query(request, self._types_of(model).relations)
        return await self._respond(lambda: model.relations(query))

    async def map(self, request: Request) -> Response:
        """The map is the one large response; it is made and compressed once per version."""
        model = self._source.current
        _query(request, schemas.NoQuery)
        if self._map is None or self._map[0] != model.version:
            packed = await self._queue.run(lambda: gzip.compress(json_bytes(model.map()), 5), is_large=True)
            self._map = (model.version, packed)
        packed = self._map[1]
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, headers={"Content-Encoding": "gzip"}, media_type="application/json")
        return Response(await self._queue.run(lambda: gzip.decompress(packed)), media_type="application/json")

    async def model(self, request: Request) -> Response:
        model = self._source.current
        _query(request, schemas.NoQuery)
        return await self._respond(lambda: model.facts(self._limits, self._feedback_mode(model)))

    async def feedback(self, request: Request) -> Response:
        model = self._source.current
        given = await self._decoded(await self._bodies.read(request), self._types_of(model).feedback)
        feedback_store = self._feedback_store
        if feedback_store is None or self._feedback_mode(model) is None:
            raise ServiceError("not_supported", "This service keeps no feedback: see --feedback and --learn.")
        if not given.input.strip() or not given.labels:
            raise ServiceError("invalid_request", "the body: needs a text and at least one label.")
        try:
            await self._queue.run(lambda: feedback_store.save(given))
        except (OSError, TimeoutError) as error:
            logger.error("feedback cannot be kept: %s", error)
            message = "The feedback cannot be kept; the log of the service says why."
            raise ServiceError("not_learned", message) from error
        if feedback_store.learns:
            async with self._learning:  # one after the other; other processes wait for the lock of the model
                await feedback_store.learn(given)
        return _json_response(schemas.FeedbackResponse(True, feedback_store.learns))

    def _feedback_mode(self, model: ServedModel) -> Literal["download", "file", "learn"] | None:
        if model.takes_vectors:  # `sldl update` takes texts only for models that were fitted on texts
            return None
        if self._feedback_store is None:
            return "download"
        return "learn" if self._feedback_store.learns else "file"

    # Endpoints that Annif calls: its backend "http", and its client

    async def projects(self, request: Request) -> Response:
        return _json_response(schemas.ProjectsResponse([self._source.current.project()]))

    async def project(self, request: Request) -> Response:
        return _json_response(self._asked_project(request).project())

    async def suggest(self, request: Request) -> Response:
        model = self._asked_project(request)
        form = decode_form(await self._bodies.read(request, FORM), self._types_of(model).suggest)
        model.check_inputs([form.text])
        response = await self._respond(lambda: model.suggest(form, self._limits.max_k))
        self._telemetry.rows.inc()
        return response

    def _asked_project(self, request: Request) -> ServedModel:
        model = self._source.current
        if request.path_params["project"] != model.name:
            raise ServiceError("not_found", f"The one project of this service is {model.name!r}.")
        return model

    # Endpoints about the service

    async def health(self, request: Request) -> Response:
        _query(request, schemas.NoQuery)
        model = self._source.current
        return _json_response(schemas.HealthResponse("ok", model.version, model.name, self._source.problem))

    async def live(self, request: Request) -> Response:
        return _json_response(schemas.StateResponse("ok"))

    async def ready(self, request: Request) -> Response:
        if self._is_stopping or self._queue.is_full:
            raise ServiceError("not_ready", "The service takes no work now.", Retry_After="1")
        return _json_response(schemas.StateResponse("ok"))

    async def metrics(self, request: Request) -> Response:
        version = self._source.current.version
        return PlainTextResponse(await self._queue.run(lambda: self._telemetry.text(version)))

    async def openapi(self, request: Request) -> Response:
        model, secured = self._source.current, self._token is not None
        return Response(
            await self._queue.run(lambda: json_bytes(openapi(model, self._limits, secured=secured))),
            media_type="application/json",
        )

    # Shared by the endpoints

    def _types_of(self, model: ServedModel) -> schemas.RequestTypes:
        if self._types is None or self._types[0] != model.version:
            calibrated = model.calibration is not None
            types = schemas.request_types(self._limits, model.n_features, calibrated=calibrated)
            self._types = (model.version, types)
        return self._types[1]

    async def _decoded(self, body: bytes, kind: type[T]) -> T:
        if len(body) <= SMALL_BODY:
            return decode_body(body, kind)
        return await self._queue.run(lambda: decode_body(body, kind), is_large=True)

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
