"""The part of JSON Schema that the service describes itself with, checked by the service itself.

What the description says and what is accepted are then one thing.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from pysldl.serve.errors import ServiceError

__all__ = ["check", "check_query", "json_type"]

Schema = Mapping[str, Any]

_WHOLE = re.compile(r"-?[0-9]{1,15}")


def check(value: Any, schema: Schema, where: str = "the body") -> None:
    """Raise ``invalid_request`` with the place and the rule where ``value`` does not satisfy ``schema``."""
    if "anyOf" in schema:
        _check_any(value, schema["anyOf"], where)
        return
    kind = schema.get("type")
    if kind is not None and not _is(kind, value):
        raise _invalid(where, f"must be {_article(kind)}, but is {_article(json_type(value))}")
    if "enum" in schema and value not in schema["enum"]:
        raise _invalid(where, f"must be one of {', '.join(map(repr, schema['enum']))}")
    match kind:
        case "object":
            _check_object(value, schema, where)
        case "array":
            _check_array(value, schema, where)
        case "string":
            _check_size(len(value), schema, "Length", "characters", where)
            if "pattern" in schema and not re.search(schema["pattern"], value):
                raise _invalid(where, f"must match {schema['pattern']}")
        case "integer" | "number":
            _check_range(value, schema, where)


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


def _check_any(value: Any, branches: list[Schema], where: str) -> None:
    """Report against the branch that was meant, which its type tells."""
    fitting = [branch for branch in branches if _is(branch["type"], value) and _is_meant(branch, value)]
    if not fitting:
        kinds = " or ".join(dict.fromkeys(_article(branch["type"]) for branch in branches))
        raise _invalid(where, f"must be {kinds} of the kind described, but is {_article(json_type(value))}")
    check(value, fitting[0], where)


def _is_meant(branch: Schema, value: Any) -> bool:
    """Of two kinds of list, the one for what the list begins with."""
    if branch["type"] != "array" or not value or "type" not in branch.get("items", {}):
        return True
    return _is(branch["items"]["type"], value[0])


def _check_object(value: dict[str, Any], schema: Schema, where: str) -> None:
    properties = schema.get("properties", {})
    for name, part in value.items():
        if name not in properties:
            raise _invalid(where, f"has {name[:60]!r}, but may hold only {', '.join(properties)}")
        check(part, properties[name], name if where == "the body" else f"{where}.{name}")
    for name in schema.get("required", ()):
        if name not in value:
            raise _invalid(where, f"must hold {name!r}")
    if "oneOf" in schema:
        choices = [branch["required"][0] for branch in schema["oneOf"]]
        if sum(name in value for name in choices) != 1:
            raise _invalid(where, f"must hold exactly one of {' and '.join(map(repr, choices))}")


def _check_array(value: list[Any], schema: Schema, where: str) -> None:
    _check_size(len(value), schema, "Items", "entries", where)
    if "prefixItems" in schema:
        for position, (part, rule) in enumerate(zip(value, schema["prefixItems"], strict=True)):
            check(part, rule, f"{where}[{position}]")
        return
    items = schema["items"]
    if value and items.get("type") == "number" and all(type(part) in (int, float) for part in value):
        # The quick way for long vectors, whose entries a parser that refuses NaN can compare.
        _check_range(min(value), items, where)
        _check_range(max(value), items, where)
        return
    for position, part in enumerate(value):
        check(part, items, f"{where}[{position}]")


def _check_size(size: int, schema: Schema, suffix: str, unit: str, where: str) -> None:
    least, most = schema.get(f"min{suffix}", 0), schema.get(f"max{suffix}", math.inf)
    if not least <= size <= most:
        wanted = f"exactly {least}" if least == most else f"at least {least}" if size < least else f"at most {most}"
        raise _invalid(where, f"must have {wanted} {unit}, but has {size}")


def _check_range(value: float, schema: Schema, where: str) -> None:
    least, most = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    if not least <= value <= most:
        raise _invalid(where, f"must lie between {least} and {most}")


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
