"""Reading bodies within limits, and writing numbers and texts as JSON."""

import asyncio
import json

import numpy as np
import pytest
from starlette.requests import Request

from pysldl.serve.bodies import FORM, BodyReader, decode_body, decode_form, encode_plain, json_bytes
from pysldl.serve.errors import ServiceError
from pysldl.serve.limits import Limits
from pysldl.serve.schemas import LabelCount, LabelsResponse, PredictRequest, SuggestForm

LIMITS = Limits(max_body="20 B", read_timeout=0.05)


def read(*messages, headers=None, media_type="application/json"):
    """Read a body that comes in these messages of ASGI, and then no more."""
    left = list(messages)

    async def receive():
        if not left:
            await asyncio.sleep(60)
        return left.pop(0)

    given = {"content-type": "application/json"} | (headers or {})
    scope = {"type": "http", "headers": [(name.encode(), value.encode()) for name, value in given.items()]}
    return asyncio.run(BodyReader(LIMITS).read(Request(scope, receive), media_type))


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
    "body",
    [b"{", b"\xff", b'{"input": NaN}', b'{"input": "\xff"}', b'{"input": ["\\ud800", NaN]}', b'"\\ud8', b"{} {}", b""],
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
        "c": "\ufffd é",
        "d": {"e": "f"},
    }
    response = LabelsResponse("v", 1, [LabelCount("sky", None, 2)])
    plain = {"version": "v", "total": 1, "labels": [{"label": "sky", "uri": None, "count": 2}]}
    assert json.loads(json_bytes(response)) == json.loads(encode_plain(response)) == plain
    odd = LabelsResponse("v", 1, [LabelCount("\udc00", None, 2)])
    assert json.loads(encode_plain(odd))["labels"][0]["label"] == "\ufffd"


def test_half_a_surrogate_pair_is_replaced():
    asked = decode_body(b'{"input": "a \\ud800 b", "labels": ["\\uDC00"]}', PredictRequest)
    assert (asked.input, asked.labels) == ("a \ufffd b", ["\ufffd"])
    with pytest.raises(ServiceError) as refused:
        decode_body(b'{"input": 5, "labels": ["\\ud800"]}', PredictRequest)
    assert refused.value.code == "invalid_request"


def test_bodies_that_are_read_at_once_share_a_limit():
    reader = BodyReader(LIMITS)
    reader._n_bytes = 32 * 20 - 10

    async def scenario():
        async def receive():
            return part(b" " * 11, more=False)

        scope = {"type": "http", "headers": [(b"content-type", b"application/json")]}
        with pytest.raises(ServiceError) as refused:
            await reader.read(Request(scope, receive))
        assert refused.value.code == "overloaded" and reader._n_bytes == 32 * 20 - 10

    asyncio.run(scenario())


def test_forms():
    assert read(part(b"text=a", more=False), headers={"content-type": FORM}, media_type=FORM) == b"text=a"
    form = decode_form(b"text=a+b%C3%A9&limit=7&project=x", SuggestForm)
    assert (form.text, form.limit) == ("a bé", 7)
    for wrong in (b"limit=5", b"text=a&text=b", b"text=a&limit=x", "é".encode(), b"&".join([b"a=1"] * 300)):
        with pytest.raises(ServiceError) as refused:
            decode_form(wrong, SuggestForm)
        assert refused.value.code == "invalid_request"
