"""Request types: what is decoded, and what is said of the rest."""

import pytest

from pysldl.serve.bodies import decode_body, decode_query
from pysldl.serve.errors import ServiceError
from pysldl.serve.limits import Limits
from pysldl.serve.schemas import SparseRow, request_types

TYPES = request_types(Limits(max_rows=3, max_k=7), 4, calibrated=True)


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ('["a", "\\ud83d\\ude00"]', ["a", "\U0001f600"]),
        ("[[1, 2.5, -3e2, 0]]", [[1.0, 2.5, -300.0, 0.0]]),
        ('[{"sparse": [[0, 1.5], [3.0, 2]]}]', [SparseRow([(0.0, 1.5), (3.0, 2.0)])]),
    ],
)
def test_inputs(body, inputs):
    asked = decode_body(f'{{"inputs": {body}, "k": 7, "threshold": "learned"}}'.encode(), TYPES.predict)
    found = [row.sparse if isinstance(row, SparseRow) else row for row in asked.inputs]
    assert found == [row.sparse if isinstance(row, SparseRow) else row for row in inputs]
    assert (asked.input, asked.k, asked.threshold, asked.labels) == (None, 7, "learned", None)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("[]", "the body: Expected `object`, got `array`."),
        (
            '{"more": 1}',
            "the body: Object contains unknown field `more`. It may have input, inputs, k, threshold, labels.",
        ),
        ('{"input": 5}', "input: Expected `str | object | array | null`, got `int`."),
        ('{"input": [1, 2]}', "input: Expected `array` of length >= 4."),
        ('{"inputs": [[1, 2, 3, 4], [1, 2, 3, true]]}', "inputs[1][3]: Expected `float`, got `bool`."),
        ('{"inputs": []}', "inputs: Expected `array` of length >= 1."),
        ('{"inputs": ["a", "b", "c", "d"]}', "inputs: Expected `array` of length <= 3."),
        ('{"input": {"sparse": [[0, 1], [4, 1]]}}', "input.sparse[1][0]: Expected `float` <= 3.0."),
        ('{"input": {"sparse": [[0.5, 1]]}}', "input.sparse[0][0]: Expected `float` that's a multiple of 1.0."),
        ('{"input": {"sparse": [[0, 1, 2]]}}', "input.sparse[0]: Expected `array` of length 2."),
        ('{"input": {"sparse": [[0, 1e13]]}}', "input.sparse[0][1]: Expected `float` <= 1000000000000.0."),
        ('{"input": "a", "k": 8}', "k: Expected `int` <= 7."),
        ('{"input": "a", "threshold": 1.5}', "threshold: Expected `float` <= 1.0."),
        ('{"input": "a", "threshold": "best"}', "threshold: Invalid enum value 'best'."),
        ('{"input": "a", "labels": []}', "labels: Expected `array` of length >= 1."),
    ],
)
def test_errors_name_the_place_and_the_rule(body, message):
    with pytest.raises(ServiceError) as refused:
        decode_body(body.encode(), TYPES.predict)
    assert (refused.value.code, refused.value.message) == ("invalid_request", message)


def test_a_model_without_calibration_takes_scores_as_thresholds():
    predict = request_types(Limits(), 4, calibrated=False).predict
    assert decode_body(b'{"input": "a", "threshold": -2.5}', predict).threshold == -2.5
    with pytest.raises(ServiceError):
        decode_body(b'{"input": "a", "threshold": "learned"}', predict)


@pytest.mark.parametrize(("texts", "vectors", "taken"), [(True, False, b'"a"'), (False, True, b"[1, 2, 3, 4]")])
def test_only_the_kinds_that_a_model_takes(texts, vectors, taken):
    explain = request_types(Limits(), 4, calibrated=True, texts=texts, vectors=vectors).explain
    assert decode_body(b'{"label": "x", "input": ' + taken + b"}", explain).label == "x"
    other = b"[1, 2, 3, 4]" if texts else b'"a"'
    with pytest.raises(ServiceError):
        decode_body(b'{"label": "x", "input": ' + other + b"}", explain)


def test_queries_become_values():
    assert decode_query([], TYPES.labels).limit == 7
    asked = decode_query([("limit", "5"), ("query", "x")], TYPES.labels)
    assert (asked.limit, asked.query, asked.offset, asked.min_count) == (5, "x", 0, 0)
    relations = decode_query([("label", "5")], TYPES.relations)
    assert (relations.label, relations.limit, relations.min_count) == ("5", 7, 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([("limit", "0")], "limit: Expected `int` >= 1."),
        ([("limit", "x")], "limit: Expected `int`, got `str`."),
        ([("limit", "٣")], "limit: Expected `int`, got `str`."),
        (
            [("m", "1")],
            "the query: Object contains unknown field `m`. It may have query, min_count, offset, limit.",
        ),
        ([("limit", "1"), ("limit", "2")], "the query: gives a parameter twice."),
        ([("query", "x" * 201)], "query: Expected `str` of length <= 200."),
    ],
)
def test_errors_of_queries(given, message):
    with pytest.raises(ServiceError) as refused:
        decode_query(given, TYPES.labels)
    assert refused.value.message == message
