"""Reading bodies within limits, and writing numbers and texts as JSON."""

import asyncio
import json

import numpy as np
import pytest
from starlette.requests import Request

from pysldl.serve.bodies import decode_body, json_bytes, read_body
from pysldl.serve.errors import ServiceError
from pysldl.serve.limits import Limits
from pysldl.serve.schemas import LabelCount, LabelsResponse, PredictRequest

LIMITS = Limits(max_body="20 B", read_timeout=0.05)


def read(*messages, headers=None):
    """Read a body that comes in these messages of ASGI, and then no more."""
    left = list(messages)

    async def receive():
        if not left:
            await asyncio.sleep(60)
        return left.pop(0)

    given = {"content-type": "application/json"} | (headers or {})
    scope = {"type": "http", "headers": [(name.encode(), value.encode()) for name, value in given.items()]}
    return asyncio.run(read_body(Request(scope, receive), LIMITS))


def part(body, more=True):
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_in_parts():
    assert (
        read(part(b"{"), part(b"}", more=False), headers={"content-type": "Application/JSON; charset=utf-8"}) == b"{}"
    )


@pytest.mark.parametrize(
    ("messages", "headers", "code"),
    [
        ([], {"content-type": "text/plain"}, "json_expected"),
        ([], {"content-length": "21"}, "body_too_large"),
        ([part(b" " * 15), part(b" " * 15)], {}, "body_too_large"),
        ([part(b"{")], {}, "request_too_slow"),
        ([part(b"{"), {"type": "http.disconnect"}], {}, "request_too_slow"),
    ],
)
def test_refusals(messages, headers, code):
    with pytest.raises(ServiceError) as refused:
        read(*messages, headers=headers)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "body", [b"{", b"\xff", b'{"input": NaN}', b'{"input": "\xff"}', b'{"input": "\\ud800"}', b"{} {}", b""]
)
def test_what_is_not_json(body):
    with pytest.raises(ServiceError) as refused:
        decode_body(body, PredictRequest)
    assert refused.value.code == "invalid_json" and refused.value.message.endswith(".")


def test_numbers_and_texts_that_json_cannot_hold():
    document = {"a": np.float32(0.1), "b": [np.int64(3), np.inf, 1 / 3], "c": "\ud800 é", "d": {"e": np.str_("f")}}
    assert json.loads(json_bytes(document)) == {
        "a": 0.1,
        "b": [3, 0.0, 0.333333],
        "c": "\ud800 é",
        "d": {"e": "f"},
    }
    response = LabelsResponse("v", 1, [LabelCount("sky", 2)])
    assert json.loads(json_bytes(response)) == {"version": "v", "total": 1, "labels": [{"label": "sky", "count": 2}]}
