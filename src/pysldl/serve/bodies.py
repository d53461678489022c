"""Reading and checking requests, and writing responses as JSON.

Bodies are decoded by msgspec, which checks the types while it parses. On 4 MB of numbers that takes a quarter to a
third of the time of the json module followed by a check of our own; jsonschema takes thirty to forty times as long.
"""

import asyncio
import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request

from pysldl.serve.errors import ServiceError
from pysldl.serve.limits import Limits

T = TypeVar("T", bound=msgspec.Struct)

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
# Bodies of the largest size that may be in memory at once while they are read.
BODIES_AT_ONCE = 32
MOST_FIELDS = 200

_WITH_PLACE = re.compile(r"(?P<problem>.*) - at `\$\.?(?P<place>.*)`", re.DOTALL)


class BodyReader:
    """Reads bodies within the limits of size and time; all that are being read together have a limit, too."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._n_bytes, self._most_bytes = 0, BODIES_AT_ONCE * limits.body_bytes

    async def read(self, request: Request, media_type: str = JSON) -> bytes:
        """Return the body of a request, which must be of the media type."""
        limits = self._limits
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != media_type:
            code = "json_expected" if media_type == JSON else "form_expected"
            raise ServiceError(code, f"Send the request with Content-Type: {media_type}.")
        stated = request.headers.get("content-length", "")
        if stated.isdecimal() and int(stated[:20]) > limits.body_bytes:
            raise _too_large(limits)
        body = bytearray()
        try:
            async with asyncio.timeout(limits.read_timeout):
                async for chunk in request.stream():
                    self._n_bytes += len(chunk)
                    body += chunk
                    if len(body) > limits.body_bytes:
                        raise _too_large(limits)
                    if self._n_bytes > self._most_bytes:
                        raise ServiceError("overloaded", "The service is busy: try again soon.", Retry_After="1")
        except TimeoutError:
            message = f"The body did not arrive within {limits.read_timeout:g} seconds."
            raise ServiceError("request_too_slow", message, Connection="close") from None
        except ClientDisconnect:
            raise ServiceError("request_too_slow", "The connection was closed before the body was complete.") from None
        finally:
            self._n_bytes -= len(body)
        return bytes(body)


def decode_body(body: bytes, kind: type[T]) -> T:
    """Return a body as a request type; an error names the place and the rule that it breaks."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise _invalid(error, "the body", kind) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if b"\\ud" in body.lower():
            with suppress(ValueError, RecursionError):
                return _decode_surrogates(body, kind)
        raise ServiceError("invalid_json", f"The body is not JSON in UTF-8: {str(error)[:200]}.") from None


def _decode_surrogates(body: bytes, kind: type[T]) -> T:
    """Decode a body with an escaped half of a surrogate pair, which browsers send and msgspec does not take."""
    plain = json.loads(body, parse_constant=_no_number)
    try:
        return msgspec.convert(well_formed(plain), kind)
    except msgspec.ValidationError as error:
        raise _invalid(error, "the body", kind) from None


def _no_number(name: str) -> None:
    raise ValueError(name)


def well_formed(node: Any) -> Any:
    """Return a document without halves of surrogate pairs, which no encoding can write."""
    if isinstance(node, str):
        return node.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(node, list):
        return [well_formed(part) for part in node]
    if isinstance(node, dict):
        return {well_formed(name): well_formed(part) for name, part in node.items()}
    return node


def decode_form(body: bytes, kind: type[T]) -> T:
    """Return a form that was sent as a request type; fields that the type does not have are left out."""
    try:
        given = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="replace")
    except ValueError as error:
        raise ServiceError("invalid_request", f"the body: is not a form ({str(error)[:200]}).") from None
    known = kind.__struct_fields__
    return decode_query([(name, value) for name, value in given if name in known], kind)


def decode_query(given: Sequence[tuple[str, str]], kind: type[T]) -> T:
    """Return the parameters of a query string as a request type."""
    parameters = dict(given)
    if len(parameters) < len(given):
        raise ServiceError("invalid_request", "the query: gives a parameter twice.")
    try:
        return msgspec.convert(parameters, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error, "the query", kind) from None


def json_bytes(document: msgspec.Struct | Mapping[str, Any]) -> bytes:
    """Return a document as JSON in UTF-8, with numbers of six digits, which is the precision of float32."""
    plain = _rounded(msgspec.to_builtins(document, enc_hook=lambda value: value.item()))  # of NumPy's numbers
    try:
        return msgspec.json.encode(plain)
    except UnicodeEncodeError:
        return msgspec.json.encode(well_formed(plain))


def encode_plain(document: msgspec.Struct) -> bytes:
    """Return a document that holds Python's own numbers, rounded already, as JSON in UTF-8."""
    try:
        return msgspec.json.encode(document)
    except UnicodeEncodeError:
        return json_bytes(document)


def six_digits(value: float) -> float:
    """Return a number with six digits; 0 for what JSON does not have."""
    return float(f"{value:.6g}") if math.isfinite(value) else 0.0


def _rounded(node: Any) -> Any:
    if isinstance(node, float):
        return six_digits(node)
    if isinstance(node, list):
        return [_rounded(part) for part in node]
    return {name: _rounded(part) for name, part in node.items()} if isinstance(node, dict) else node


def _invalid(error: msgspec.ValidationError, where: str, kind: type[msgspec.Struct]) -> ServiceError:
    found = _WITH_PLACE.fullmatch(str(error))
    place, problem = (where, str(error)) if found is None else (found["place"], found["problem"])
    told = f" It may have {', '.join(kind.__struct_fields__)}." if found is None and "unknown field" in problem else ""
    return ServiceError("invalid_request", f"{place}: {problem[:200]}.{told}")


def _too_large(limits: Limits) -> ServiceError:
    return ServiceError("body_too_large", f"This text is too long (limit {limits.max_body}).")
