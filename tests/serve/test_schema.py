"""The checker of requests: what it lets through, and what it says of the rest."""

import pytest

from pysldl.serve.errors import ServiceError
from pysldl.serve.schema import check, check_query

NUMBER = {"type": "number", "minimum": -10, "maximum": 10}
PAIR = {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [{"type": "integer", "minimum": 0}, NUMBER]}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["rows"],
    "properties": {
        "rows": {
            "anyOf": [
                {"type": "array", "items": {"type": "string", "pattern": r"\S"}},
                {"type": "array", "items": {"type": "array", "items": PAIR}},
                {"type": "array", "maxItems": 3, "items": NUMBER},
            ]
        },
        "how": {"type": "string", "enum": ["so"]},
    },
}


@pytest.mark.parametrize("rows", [["a"], [[[0, 1.5], [3.0, 2]]], [1, -10, 2.5], []])
def test_fits(rows):
    check({"rows": rows, "how": "so"}, SCHEMA)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "the body: must be an object, but is a list."),
        ({}, "the body: must hold 'rows'."),
        ({"rows": [], "more": 1}, "the body: has 'more', but may hold only rows, how."),
        ({"rows": [], "how": "not"}, "how: must be one of 'so'."),
        ({"rows": ["a", " "]}, r"rows[1]: must match \S."),
        ({"rows": ["a", 1]}, "rows[1]: must be a text, but is a whole number."),
        ({"rows": [[[0, 1], [-1, 1]]]}, "rows[0][1][0]: must lie between 0 and inf."),
        ({"rows": [[[0, 1, 2]]]}, "rows[0][0]: must have exactly 2 entries, but has 3."),
        ({"rows": [1, 11]}, "rows[1]: must lie between -10 and 10."),
        ({"rows": [1, True]}, "rows[1]: must be a finite number, but is true or false."),
        ({"rows": [1, 2, 3, 4]}, "rows: must have at most 3 entries, but has 4."),
        ({"rows": [1, 10**400]}, "rows[1]: must lie between -10 and 10."),
    ],
)
def test_says_where_and_why(value, said):
    with pytest.raises(ServiceError) as refused:
        check(value, SCHEMA)
    assert refused.value.message == said and refused.value.code == "invalid_request"


def test_queries_become_values():
    parameters = {"n": {"type": "integer", "minimum": 1, "default": 5}, "name": {"type": "string"}}
    assert check_query([], parameters) == {"n": 5}
    assert check_query([("n", "7"), ("name", "x")], parameters) == {"n": 7, "name": "x"}
    for wrong in ([("n", "0")], [("n", "1.0")], [("n", "٣")], [("m", "1")], [("n", "1"), ("n", "2")]):
        with pytest.raises(ServiceError):
            check_query(wrong, parameters)
