"""The OpenAPI description of the service, made for the model it serves and the limits it keeps.

Requests are checked against the schemas given here, so the description cannot say anything else than what is done.
"""

from typing import Any

from pysldl import __version__
from pysldl.inspection.relations import MIN_COUNT, VERBS
from pysldl.serve.errors import CODES
from pysldl.serve.limits import Limits
from pysldl.serve.served_model import ServedModel

__all__ = ["explain_schema", "labels_parameters", "openapi", "predict_schema", "relations_parameters"]

# Beyond, squares and sums leave single precision.
LARGEST = 1e12

Schema = dict[str, Any]


def predict_schema(model: ServedModel, settings: Limits) -> Schema:
    """The body of a predict request."""
    kinds = _input_kinds(model)
    many = [{"type": "array", "minItems": 1, "maxItems": settings.max_rows, "items": kind} for kind in kinds]
    # A threshold for probabilities where there are any, else for scores, which know no bounds.
    number = {"minimum": 0, "maximum": 1} if model.is_calibrated else {"minimum": -LARGEST, "maximum": LARGEST}
    threshold: Schema = {"type": "number", **number}
    if model.is_calibrated:
        threshold = {"anyOf": [threshold, {"type": "string", "enum": ["learned"]}]}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "input": {"anyOf": kinds},
            "inputs": {"anyOf": many},
            "k": {"type": "integer", "minimum": 1, "maximum": settings.max_k},
            "threshold": threshold,
            "labels": {
                "type": "array",
                "minItems": 1,
                "maxItems": settings.max_k,
                "items": {"type": "string"},
            },
        },
        "oneOf": [{"required": ["input"]}, {"required": ["inputs"]}],
    }


def explain_schema(model: ServedModel, settings: Limits) -> Schema:
    """The body of an explain request."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["input", "label"],
        "properties": {
            "input": {"anyOf": _input_kinds(model)},
            "label": {"type": "string"},
            "top": {"type": "integer", "minimum": 1, "maximum": settings.max_k},
        },
    }


def labels_parameters(settings: Limits) -> dict[str, Schema]:
    """The query of a labels request."""
    return {
        "query": {"type": "string", "default": "", "maxLength": 200, "description": "Part of the name, in any case."},
        "min_count": {"type": "integer", "minimum": 0, "maximum": 10**9, "default": 0},
        "offset": {"type": "integer", "minimum": 0, "maximum": 10**9, "default": 0},
        "limit": {"type": "integer", "minimum": 1, "maximum": settings.max_k, "default": min(20, settings.max_k)},
    }


def relations_parameters(settings: Limits) -> dict[str, Schema]:
    """The query of a relations request."""
    return {
        "label": {"type": "string", "minLength": 1, "description": "Name of a label, exactly."},
        "limit": {"type": "integer", "minimum": 1, "maximum": settings.max_k, "default": min(10, settings.max_k)},
        "min_count": {
            "type": "integer",
            "minimum": 0,
            "maximum": 10**9,
            "default": MIN_COUNT,
            "description": "Leave out other labels on fewer training rows.",
        },
    }


def openapi(model: ServedModel, settings: Limits) -> Schema:
    """The whole description, OpenAPI 3.1."""
    secured: list[Schema] = [{"bearer": []}] if settings.token else []
    refused = ("401",) if settings.token else ()
    asking = ("400", "404", "408", "413", "415", "503", *refused)
    paths = {
        "/v1/predict": _post(
            "predict", "The best labels of texts or vectors.", "PredictRequest", "Predictions", asking
        ),
        "/v1/explain": _post("explain", "Why an input gets a label.", "ExplainRequest", "Explanation", asking),
        "/v1/labels": _get("labels", "Labels by name and frequency.", "Labels", refused, labels_parameters(settings)),
        "/v1/relations": _get(
            "relations",
            "Relations of a label to more frequent ones, and of rarer ones to it.",
            "Relations",
            ("404", "503", *refused),
            relations_parameters(settings),
            required=("label",),
        ),
        "/v1/map": _get("map", "Places of the labels, arrows between them.", "Map", ("404", "503", *refused)),
        "/v1/model": _get("model", "What the model is and how good.", "Model", refused),
        "/health": _get("health", "Whether the service answers, and with which version.", "Health"),
    }
    for path, item in paths.items():
        if secured and path.startswith("/v1/"):
            next(iter(item.values()))["security"] = secured
    document: Schema = {
        "openapi": "3.1.0",
        "info": {"title": f"sldl serve: {model.name}", "version": __version__},
        "paths": paths
        | {
            "/metrics": _plain("metrics", "Counters for Prometheus.", "text/plain"),
            "/openapi.json": _plain("openapi", "This document.", "application/json"),
        },
        "components": {"schemas": _schemas(model, settings)},
    }
    if secured:
        document["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    return document


def _input_kinds(model: ServedModel) -> list[Schema]:
    """What one input may be."""
    value = {"type": "number", "minimum": -LARGEST, "maximum": LARGEST}
    kinds: list[Schema] = []
    if model.takes_text:
        kinds.append({"type": "string", "pattern": r"\S"})
    if model.takes_vectors:
        n = model.n_features
        pair = {
            "type": "array",
            "prefixItems": [{"type": "integer", "minimum": 0, "maximum": n - 1}, value],
            "minItems": 2,
            "maxItems": 2,
        }
        kinds.append({"type": "array", "minItems": n, "maxItems": n, "items": value})
        kinds.append(
            {
                "type": "object",
                "additionalProperties": False,
                "required": ["sparse"],
                "properties": {"sparse": {"type": "array", "items": pair}},
            }
        )
    return kinds


def _post(name: str, summary: str, body: str, answer: str, errors: tuple[str, ...]) -> Schema:
    content = {"application/json": {"schema": _ref(body)}}
    operation = {"operationId": name, "summary": summary, "requestBody": {"required": True, "content": content}}
    return {"post": operation | {"responses": _responses(answer, errors)}}


def _get(
    name: str,
    summary: str,
    answer: str,
    errors: tuple[str, ...] = (),
    parameters: dict[str, Schema] | None = None,
    required: tuple[str, ...] = (),
) -> Schema:
    given = [
        {"name": key, "in": "query", "required": key in required, "schema": schema}
        for key, schema in (parameters or {}).items()
    ]
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "parameters": given,
            "responses": _responses(answer, ("400", *errors)),
        }
    }


def _plain(name: str, summary: str, media_type: str) -> Schema:
    answer = {"description": summary, "content": {media_type: {}}}
    return {"get": {"operationId": name, "summary": summary, "responses": {"200": answer}}}


def _responses(answer: str, errors: tuple[str, ...]) -> Schema:
    found: Schema = {"200": {"description": "Done.", "content": {"application/json": {"schema": _ref(answer)}}}}
    for status in sorted(set(errors)):
        codes = ", ".join(code for code, its in CODES.items() if str(its.value) == status)
        found[status] = {
            "description": f"Refused: {codes}.",
            "content": {"application/json": {"schema": _ref("Error")}},
        }
    return found


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(**properties: Schema) -> Schema:
    """An object that holds exactly these properties."""
    return {
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }


def _told(schema: Schema, description: str) -> Schema:
    return schema | {"description": description}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
NUMBER_OR_NULL: Schema = {"type": ["number", "null"]}


def _schemas(model: ServedModel, settings: Limits) -> dict[str, Schema]:
    label = _object(label=TEXT, score=NUMBER, probability=NUMBER_OR_NULL, chosen={"type": ["boolean", "null"]})
    neighbor = _object(row=WHOLE, similarity=NUMBER, contribution=NUMBER, labels=_list(TEXT), text=TEXT_OR_NULL)
    term = _object(feature=TEXT, value=NUMBER, contribution=NUMBER, words=_list(TEXT))
    relation = _object(
        label=TEXT,
        count=_told(WHOLE, "Training rows of the other label."),
        verb=_told(
            {"type": "string", "enum": list(VERBS)},
            "What the counts support, read from the rarer label to the more frequent one.",
        ),
        n_both=_told(WHOLE, "Training rows with both labels."),
        share=_told(NUMBER, "Share of the rarer label's rows that carry the more frequent one."),
        share_low=_told(NUMBER, "Lower bound of that share, with 95 % confidence."),
        confidence=_told(NUMBER, "How sure the direction is, from 0 to 1."),
        kl=_told(NUMBER_OR_NULL, "Divergence from the rarer label's Gaussian to the other; null without Gaussians."),
        kl_reverse=NUMBER_OR_NULL,
    )
    calibration = _object(threshold=NUMBER, left_out_f1=NUMBER, scores=_list(NUMBER), probabilities=_list(NUMBER))
    return {
        "PredictRequest": predict_schema(model, settings),
        "ExplainRequest": explain_schema(model, settings),
        "Error": _object(error=_object(code={"type": "string", "enum": list(CODES)}, message=TEXT)),
        "Predictions": _object(version=TEXT, predictions=_list(_object(features=WHOLE, labels=_list(label)))),
        "Explanation": _object(
            version=TEXT,
            label=TEXT,
            score=NUMBER,
            probability=NUMBER_OR_NULL,
            neighbors=_list(neighbor),
            terms=_list(term),
            terms_total=NUMBER,
            terms_meaning=TEXT,
        ),
        "Labels": _object(version=TEXT, total=WHOLE, labels=_list(_object(label=TEXT, count=WHOLE))),
        "Relations": _object(
            version=TEXT,
            label=TEXT,
            count=WHOLE,
            outgoing=_told(_list(relation), "Relations of this label to more frequent ones, strongest first."),
            incoming=_told(_list(relation), "Relations of rarer labels to this one, strongest first."),
        ),
        "Map": _object(
            version=TEXT,
            total={"type": "integer", "description": "Labels of the model; the map has the most frequent of many."},
            labels=_list(TEXT),
            counts=_list(WHOLE),
            x=_list(NUMBER),
            y=_list(NUMBER),
            source=_list(WHOLE),
            target=_list(WHOLE),
            strength=_told(_list(NUMBER), "Lower bound of the share of the source's rows that carry the target."),
        ),
        "Model": {
            "type": "object",
            "required": ["version", "name", "class", "created", "n_samples", "n_features", "n_labels", "parameters"],
            "properties": {
                "version": TEXT,
                "calibration": {"anyOf": [calibration, {"type": "null"}]},
                "frequencies": _list(NUMBER),
            },
        },
        "Health": _object(
            status={"type": "string", "enum": ["ok"]},
            version=TEXT,
            model=TEXT,
            problem={"type": ["string", "null"], "description": "Why a newer version in the folder is not served."},
        ),
    }
