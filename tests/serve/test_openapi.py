"""The description of the service: complete, consistent, and true of real responses."""

import json
import re

import msgspec
import pytest

from pysldl.serve import schemas
from pysldl.serve.errors import CODES

TEXT = "Distant cloud, rain, rainbow: OLD SKY!"


@pytest.fixture(scope="module")
def document(service):
    return service.get("/openapi.json").document


def test_every_reference_has_its_schema(document):
    names = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(document)))
    assert names <= set(document["components"]["schemas"]) and len(names) > 15


def test_requests_are_described_with_their_limits(document):
    request = document["components"]["schemas"]["PredictRequest"]
    assert request["oneOf"] == [{"required": ["input"]}, {"required": ["inputs"]}]
    text, dense, sparse, _ = request["properties"]["input"]["anyOf"]
    assert text["pattern"] == r"\S" and dense["minItems"] == dense["maxItems"] == 240
    assert sparse == {"$ref": "#/components/schemas/SparseRow"}
    assert request["properties"]["k"]["anyOf"][0]["maximum"] == 100 and not request["additionalProperties"]
    relations = document["paths"]["/v1/relations"]["get"]["parameters"]
    assert [(p["name"], p["required"]) for p in relations] == [("label", True), ("limit", False), ("min_count", False)]


def test_errors_are_described_with_their_codes(document):
    refused = document["paths"]["/v1/predict"]["post"]["responses"]
    assert set(refused) == {"200", "400", "403", "404", "408", "413", "415", "421", "429", "503"}
    assert "unknown_label" in refused["404"]["description"] and "overloaded" in refused["503"]["description"]
    assert "security" not in document["paths"]["/v1/predict"]["post"]


def test_a_token_is_described(guarded_service):
    document = guarded_service.get("/openapi.json", Authorization="Bearer open-sesame").document
    predict, live = document["paths"]["/v1/predict"]["post"], document["paths"]["/health/live"]["get"]
    assert predict["security"] == [{"bearer": []}] and "401" in predict["responses"] and "security" not in live
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"


def test_every_response_has_its_type(service):
    responses = {
        schemas.PredictResponse: service.post("/v1/predict", {"input": TEXT}),
        schemas.ExplainResponse: service.post("/v1/explain", {"input": TEXT, "label": "sky"}),
        schemas.LabelsResponse: service.get("/v1/labels"),
        schemas.RelationsResponse: service.get("/v1/relations?label=sky"),
        schemas.MapResponse: service.get("/v1/map"),
        schemas.ModelResponse: service.get("/v1/model"),
        schemas.HealthResponse: service.get("/health"),
        schemas.ErrorResponse: service.get("/nowhere"),
    }
    for kind, response in responses.items():
        msgspec.json.decode(response.body, type=kind)
    assert set(CODES) >= {responses[schemas.ErrorResponse].code}
