"""Request bodies in, JSON out."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from pysldl.serve.errors import ServiceError
from pysldl.serve.limits import Limits

__all__ = ["json_response", "read_json"]


async def read_json(request: Request, settings: Limits) -> Any:
    """The JSON document of a request, read within the limits of size and time."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise ServiceError("json_expected", "Send the request as JSON, with Content-Type: application/json.")
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated[:20]) > settings.max_body:
        raise _too_large(settings)
    body = bytearray()
    try:
        async with asyncio.timeout(settings.read_timeout):
            async for chunk in request.stream():
                body += chunk
                if len(body) > settings.max_body:
                    raise _too_large(settings)
    except TimeoutError:
        message = f"The body did not arrive within {settings.read_timeout:g} seconds."
        raise ServiceError("request_too_slow", message, Connection="close") from None
    except ClientDisconnect:
        raise ServiceError("request_too_slow", "The connection was closed before the body was complete.") from None
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError:
        raise ServiceError("invalid_json", "The body is nested too deeply.") from None
    except ValueError as error:
        raise ServiceError("invalid_json", f"The body is not JSON in UTF-8: {str(error)[:200]}.") from None


def json_response(document: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A document as JSON. Everything beyond ASCII is escaped, so that no text, however broken, cannot be sent."""
    body = json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")
    return Response(body, status, headers, media_type="application/json")


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number of JSON")


def _too_large(settings: Limits) -> ServiceError:
    return ServiceError("body_too_large", f"The body may have at most {settings.max_body} bytes.", Connection="close")
