"""The OpenAPI description of the service, made from the types that requests and responses have."""

from typing import Any, NamedTuple

import msgspec

from pysldl import __version__
from pysldl.serve import schemas
from pysldl.serve.errors import CODES
from pysldl.serve.limits import Limits
from pysldl.serve.served_model import ServedModel

REFERENCE = "#/components/schemas/{name}"
PROJECT = "/v1/projects/{project}"
COMPUTED = ("404", "503")
WITH_BODY = ("404", "408", "413", "415", "503")


JSON, FORM = "application/json", "application/x-www-form-urlencoded"
OPEN = ("/health/live", "/health/ready")  # without the token


class _Operation(NamedTuple):
    method: str
    path: str
    summary: str
    request: type[msgspec.Struct]
    response: type[msgspec.Struct]
    errors: tuple[str, ...] = ()
    media_type: str = JSON

    @property
    def name(self) -> str:
        return "-".join(part for part in self.path.split("/") if part not in ("", "v1", "{project}"))


def openapi(model: ServedModel, limits: Limits, *, secured: bool) -> dict[str, Any]:
    """Return the description of a service, OpenAPI 3.1; the model decides which inputs are taken.

    ``secured`` says whether clients must send a token.
    """
    requests = schemas.request_types(
        limits,
        model.n_features,
        calibrated=model.calibration is not None,
        texts=model.takes_text,
        vectors=model.takes_vectors,
    )
    operations = _operations(requests)
    types = {kind for operation in operations for kind in (operation.request, operation.response)}
    _, components = msgspec.json.schema_components([*types, schemas.ErrorResponse], ref_template=REFERENCE)
    components["PredictRequest"]["oneOf"] = [{"required": ["input"]}, {"required": ["inputs"]}]
    paths: dict[str, Any] = {
        "/metrics": {"get": _plain("metrics", "Counters for Prometheus.", "text/plain", secured=secured)},
        "/openapi.json": {"get": _plain("openapi", "This document.", JSON, secured=secured)},
    }
    for operation in operations:
        paths[operation.path] = {operation.method: _described(operation, components, secured=secured)}
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": f"sldl serve: {model.name}", "version": __version__},
        "paths": paths,
        "components": {"schemas": components},
    }
    if secured:
        document["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    return document


def _operations(requests: schemas.RequestTypes) -> list[_Operation]:
    nothing = schemas.NoQuery
    return [
        _Operation(
            "post",
            "/v1/predict",
            "The best labels of texts or vectors.",
            requests.predict,
            schemas.PredictResponse,
            WITH_BODY,
        ),
        _Operation(
            "post", "/v1/explain", "Why an input gets a label.", requests.explain, schemas.ExplainResponse, WITH_BODY
        ),
        _Operation("get", "/v1/labels", "Labels by name and frequency.", requests.labels, schemas.LabelsResponse),
        _Operation(
            "get", "/v1/relations", "Relations of a label.", requests.relations, schemas.RelationsResponse, COMPUTED
        ),
        _Operation("get", "/v1/map", "Places of the labels and arrows.", nothing, schemas.MapResponse, COMPUTED),
        _Operation("get", "/v1/model", "What the model is, and its quality.", nothing, schemas.ModelResponse),
        _Operation(
            "post",
            "/v1/feedback",
            "Keep, or learn, the labels that a person chose.",
            requests.feedback,
            schemas.FeedbackResponse,
            (*WITH_BODY, "409"),
        ),
        _Operation("get", "/v1/projects", "The models, as Annif lists them.", nothing, schemas.ProjectsResponse),
        _Operation("get", PROJECT, "The model, as Annif describes it.", nothing, schemas.Project, ("404",)),
        _Operation(
            "post",
            f"{PROJECT}/suggest",
            "The best labels of a text, as Annif asks for them.",
            requests.suggest,
            schemas.SuggestResponse,
            WITH_BODY,
            FORM,
        ),
        _Operation("get", "/health", "Which version is served.", nothing, schemas.HealthResponse),
        _Operation("get", "/health/live", "Whether the service runs.", nothing, schemas.StateResponse),
        _Operation("get", "/health/ready", "Whether it takes work.", nothing, schemas.StateResponse, ("503",)),
    ]


def _described(operation: _Operation, components: dict[str, Any], *, secured: bool) -> dict[str, Any]:
    asked = components[operation.request.__name__]
    is_secured = secured and operation.path not in OPEN
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": {"200": {"description": "Done.", "content": _json(operation.response)}},
    }
    if operation.method == "post":
        schema = _json(operation.request)[JSON]
        described["requestBody"] = {"required": True, "content": {operation.media_type: schema}}
    else:
        described["parameters"] = [
            {"name": name, "in": "query", "required": name in asked["required"], "schema": schema}
            for name, schema in asked["properties"].items()
        ]
    if "{project}" in operation.path:
        place = {"name": "project", "in": "path", "required": True, "schema": {"type": "string"}}
        described.setdefault("parameters", []).append(place)
    for status in ("400", "403", "421", "429", *operation.errors, *(("401",) if is_secured else ())):
        codes = ", ".join(code for code, its in CODES.items() if str(its.value) == status)
        described["responses"][status] = {
            "description": f"Refused: {codes}.",
            "content": _json(schemas.ErrorResponse),
        }
    if is_secured:
        described["security"] = [{"bearer": []}]
    return described


def _plain(name: str, summary: str, media_type: str, *, secured: bool) -> dict[str, Any]:
    response = {"description": summary, "content": {media_type: {}}}
    described: dict[str, Any] = {"operationId": name, "summary": summary, "responses": {"200": response}}
    if secured:
        described["security"] = [{"bearer": []}]
    return described


def _json(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {JSON: {"schema": {"$ref": REFERENCE.format(name=kind.__name__)}}}
