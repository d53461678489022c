"""The part of JSON Schema that the service describes itself with, checked by the service itself.

What the description says and what is accepted are then one thing.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pysldl.serve.errors import ServiceError

__all__ = ["check", "check_query", "json_type"]

Schema = Mapping[str, Any]

PLAIN_NUMBERS: dict[str, set[type]] = {"number": {int, float}, "integer": {int}}

_WHOLE = re.compile(r"-?[0-9]{1,15}")


class _MismatchError(Exception):
    """A value that does not satisfy its schema; the place is put together on the way out, from the inside."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.place = ""


def check(value: Any, schema: Schema, where: str = "the body") -> None:
    """Raise ``invalid_request`` with the place and the rule where ``value`` does not satisfy ``schema``."""
    try:
        _check(value, schema)
    except _MismatchError as error:
        raise _invalid(error.place.lstrip(".") or where, error.problem) from None


def _check(value: Any, schema: Schema) -> None:
    if "anyOf" in schema:
        _check_any(value, schema["anyOf"])
        return
    kind = schema.get("type")
    if kind is not None and not _is(kind, value):
        raise _MismatchError(f"must be {_article(kind)}, but is {_article(json_type(value))}")
    if "enum" in schema and value not in schema["enum"]:
        raise _MismatchError(f"must be one of {', '.join(map(repr, schema['enum']))}")
    if kind == "object":
        _check_object(value, schema)
    elif kind == "array":
        _check_array(value, schema)
    elif kind == "string":
        _check_size(len(value), schema, "Length", "characters")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            raise _MismatchError(f"must match {schema['pattern']}")
    elif kind in ("integer", "number"):
        _check_range(value, schema)


def _check_part(value: Any, schema: Schema, place: str | int) -> None:
    try:
        _check(value, schema)
    except _MismatchError as error:
        error.place = (f"[{place}]" if isinstance(place, int) else f".{place}") + error.place
        raise


def check_query(given: list[tuple[str, str]], parameters: Mapping[str, Schema]) -> dict[str, Any]:
    """The parameters of a query string by their schemas, with their defaults filled in."""
    found = {name: schema["default"] for name, schema in parameters.items() if "default" in schema}
    seen = set()
    for name, text in given:
        if name not in parameters or name in seen:
            problem = "is given twice" if name in seen else "is not a parameter"
            raise _invalid(name[:60] or "the empty name", f"{problem}; there are {', '.join(parameters) or 'none'}")
        seen.add(name)
        value: Any = text
        if parameters[name]["type"] == "integer":
            if not _WHOLE.fullmatch(text):
                raise _invalid(name, "must be a whole number")
            value = int(text)
        check(value, parameters[name], name)
        found[name] = value
    return found


def json_type(value: Any) -> str:
    """The name JSON Schema has for the type of a parsed value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _is(kind: str, value: Any) -> bool:
    found = json_type(value)
    if kind == "number":
        return found == "integer" or (found == "number" and math.isfinite(value))
    if kind == "integer" and found == "number":
        return value.is_integer()
    return found == kind


def _check_any(value: Any, branches: list[Schema]) -> None:
    """Report against the branch that was meant, which its type tells."""
    fitting = [branch for branch in branches if _is(branch["type"], value) and _is_meant(branch, value)]
    if not fitting:
        kinds = " or ".join(dict.fromkeys(_article(branch["type"]) for branch in branches))
        raise _MismatchError(f"must be {kinds} of the kind described, but is {_article(json_type(value))}")
    _check(value, fitting[0])


def _is_meant(branch: Schema, value: Any) -> bool:
    """Of two kinds of list, the one for what the list begins with."""
    if branch["type"] != "array" or not value or "type" not in branch.get("items", {}):
        return True
    return _is(branch["items"]["type"], value[0])


def _check_object(value: dict[str, Any], schema: Schema) -> None:
    properties = schema.get("properties", {})
    for name, part in value.items():
        if name not in properties:
            raise _MismatchError(f"has {name[:60]!r}, but may hold only {', '.join(properties)}")
        _check_part(part, properties[name], name)
    for name in schema.get("required", ()):
        if name not in value:
            raise _MismatchError(f"must hold {name!r}")
    if "oneOf" in schema:
        choices = [branch["required"][0] for branch in schema["oneOf"]]
        if sum(name in value for name in choices) != 1:
            raise _MismatchError(f"must hold exactly one of {' and '.join(map(repr, choices))}")


def _check_array(value: list[Any], schema: Schema) -> None:
    _check_size(len(value), schema, "Items", "entries")
    if "prefixItems" in schema:
        for position, (part, rule) in enumerate(zip(value, schema["prefixItems"], strict=True)):
            _check_part(part, rule, position)
        return
    items = schema["items"]
    if value and (_are_numbers(value, items) or _are_tuples(value, items)):
        return
    for position, part in enumerate(value):
        _check_part(part, items, position)


def _are_numbers(value: Sequence[Any], rule: Schema) -> bool:
    """The quick way for long vectors: whether all entries are numbers in range, of which NaN is none to the parser."""
    if not set(map(type, value)) <= PLAIN_NUMBERS.get(rule.get("type", ""), set()):
        return False
    return rule.get("minimum", -math.inf) <= min(value) and max(value) <= rule.get("maximum", math.inf)


def _are_tuples(value: Sequence[Any], rule: Schema) -> bool:
    """The same for lists of column and value."""
    rules = rule.get("prefixItems")
    if rules is None or set(map(type, value)) != {list} or set(map(len, value)) != {len(rules)}:
        return False
    return all(_are_numbers(entries, rule) for entries, rule in zip(zip(*value, strict=True), rules, strict=True))


def _check_size(size: int, schema: Schema, suffix: str, unit: str) -> None:
    least, most = schema.get(f"min{suffix}", 0), schema.get(f"max{suffix}", math.inf)
    if not least <= size <= most:
        wanted = f"exactly {least}" if least == most else f"at least {least}" if size < least else f"at most {most}"
        raise _MismatchError(f"must have {wanted} {unit}, but has {size}")


def _check_range(value: float, schema: Schema) -> None:
    least, most = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    if not least <= value <= most:
        raise _MismatchError(f"must lie between {least} and {most}")


def _article(kind: str) -> str:
    names = {
        "array": "a list",
        "string": "a text",
        "integer": "a whole number",
        "number": "a finite number",
        "object": "an object",
        "null": "null",
        "boolean": "true or false",
    }
    return names[kind]


def _invalid(where: str, problem: str) -> ServiceError:
    return ServiceError("invalid_request", f"{where}: {problem}.")
