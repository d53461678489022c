"""Requests that nobody should send, as bytes on the wire."""

import json
import random
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

__all__ = ["described_requests", "hostile_requests", "raw_exchange"]

PATHS = (
    "/v1/predict",
    "/v1/explain",
    "/v1/labels",
    "/v1/relations",
    "/v1/map",
    "/v1/model",
    "/health",
    "/",
    "/metrics",
)
TRICKS = (
    "/../../etc/passwd",
    "/page/../../app.py",
    "/page/%2e%2e%2f%2e%2e%2fetc/passwd",
    "/v1/%00",
    "/%ff%fe%fd",
    "//v1//predict",
    "/v1/predict/../../..",
    "/page/style.css%00.html",
    "http://example.org/",
    "*",
)
NUMBERS = (
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "1e308",
    "-0.0",
    "1e-320",
    "9" * 400,
    "0x10",
    "1.",
    "true",
    "null",
    '"1"',
)
STRINGS = ("", "\x00", "\ud800", "a" * 100_000, "../../etc/passwd", "<script>", "'; drop table", "\u202e", "𝕏" * 500)


def hostile_requests(source: random.Random, n: int, n_features: int) -> Iterator[bytes]:
    """``n`` requests, the same for the same state of ``source``."""
    makers = (_wrong_types, _broken_numbers, _deep_nesting, _broken_bytes, _broken_heads, _path_tricks, _odd_queries)
    for _ in range(n):
        yield source.choice(makers)(source, n_features)


def raw_exchange(port: int, request: bytes, seconds: float = 120) -> tuple[int | None, bytes]:
    """Status and body of the first answer to some bytes; no status where the connection was only closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as wire:
        answer = b""
        try:
            wire.sendall(request)
            while block := wire.recv(65536):
                answer += block
                head, found, body = answer.partition(b"\r\n\r\n")
                if found and len(body) >= _length(head):
                    break
        except (ConnectionResetError, BrokenPipeError):
            pass  # the service closes a connection whose request it does not read to the end
    if not answer.startswith(b"HTTP/1.1 "):
        return None, answer
    return int(answer[9:12]), answer.partition(b"\r\n\r\n")[2]


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 1 << 30


def _post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, *headers, "Connection: close", "", ""]).encode("latin-1", "replace") + body


def _anything(source: random.Random, depth: int = 0) -> Any:
    simple: tuple[Any, ...] = (None, True, False, 0, -1, 2**63, -(2**70), 1.5, 1e300, source.choice(STRINGS))
    if depth > 3 or source.random() < 0.6:
        return source.choice(simple)
    if source.random() < 0.5:
        return [_anything(source, depth + 1) for _ in range(source.randrange(4))]
    keys = ("input", "inputs", "k", "label", "labels", "threshold", "top", "sparse", "", "\ud800", "__proto__")
    return {source.choice(keys): _anything(source, depth + 1) for _ in range(source.randrange(4))}


def _wrong_types(source: random.Random, n_features: int) -> bytes:
    body: Any = {"input": source.choice(["cloud", [0.0] * n_features, {"sparse": [[0, 1]]}, _anything(source)])}
    for key in ("inputs", "k", "threshold", "labels", "label", "top", "path"):
        if source.random() < 0.3:
            body[key] = _anything(source)
    if source.random() < 0.2:
        body = _anything(source)
    return _post(source.choice(PATHS[:2]), json.dumps(body).encode())


def _broken_numbers(source: random.Random, n_features: int) -> bytes:
    entries = [source.choice(NUMBERS) for _ in range(source.choice([1, 3, n_features]))]
    vector = f"[{','.join(entries)}]"
    pairs = f'{{"sparse": [[{source.choice(NUMBERS)}, {source.choice(NUMBERS)}]]}}'
    body = f'{{"input": {source.choice([vector, pairs])}, "label": "sky", "k": {source.choice(NUMBERS)}}}'
    return _post(source.choice(PATHS[:2]), body.encode())


def _deep_nesting(source: random.Random, n_features: int) -> bytes:
    depth = source.choice([50, 2000, 200_000])
    opening, closing = source.choice([("[", "]"), ('{"input":', "}")])
    return _post(PATHS[0], ('{"input":' + opening * depth + "1" + closing * depth + "}").encode())


def _broken_bytes(source: random.Random, n_features: int) -> bytes:
    noise = source.randbytes(source.randrange(1, 400))
    inside = b'{"input": "' + noise + b'"}'
    return _post(source.choice(PATHS[:2]), source.choice([noise, inside]))


def _broken_heads(source: random.Random, n_features: int) -> bytes:
    body = b'{"input": "cloud"}'
    return source.choice(
        [
            b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\n\r\n" + body,
            b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n" + body,
            b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n" + body,
            b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n" + body,
            b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + body,
            b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-Long: " + b"a" * 70_000 + b"\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Bad\x00: 1\r\n\r\n",
            b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + source.randbytes(40) + b"\r\n\r\n",
            source.randbytes(200) + b"\r\n\r\n",
            b"GET /health HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\n\r\n",
            b"BREW /v1/predict HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5000000\r\n"
            b"Content-Type: application/json\r\n\r\n",
        ]
    )


def _path_tricks(source: random.Random, n_features: int) -> bytes:
    method = source.choice(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT"])
    path = source.choice(TRICKS + PATHS)
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode("latin-1")


def _odd_queries(source: random.Random, n_features: int) -> bytes:
    keys = ("query", "limit", "offset", "min_count", "label", "x", "%00", "%ff", "")
    values = ("", "1", "-1", "9" * 30, "1e9", "%ff%fe", "%00", "a" * 5000, "../..", "%f0%9f%92%a9", "%", "+", "1;2")
    pairs = "&".join(f"{source.choice(keys)}={source.choice(values)}" for _ in range(source.randrange(1, 5)))
    path = source.choice(("/v1/labels", "/v1/relations", "/v1/map", "/v1/model", "/health", "/"))
    return f"GET {path}?{pairs} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode("latin-1")


def described_requests(source: random.Random, n: int, document: dict[str, Any]) -> Iterator[bytes]:
    """``n`` requests for what an OpenAPI document describes: nearly right, and wrong in one or more places."""
    operations = [
        (path, method, about) for path, methods in document["paths"].items() for method, about in methods.items()
    ]
    for _ in range(n):
        path, method, about = source.choice(operations)
        path = path.replace("{project}", source.choice(["words", "..", "%2e%2e", "a" * 3000, "%00", "stackex-chess"]))
        given = [one for one in about.get("parameters", []) if one["in"] == "query" and source.random() < 0.8]
        pairs = [(one["name"], _of_schema(source, one["schema"], document, 0)) for one in given]
        if source.random() < 0.2:
            pairs.append((source.choice(["x", "limit", "label", "\x00"]), source.choice(STRINGS[:3])))
        query = urlencode([(name, _broken(source, value)) for name, value in pairs], errors="replace")
        line = f"{path}?{query}" if query else path
        head = [f"{method.upper()} {line[:60_000]} HTTP/1.1", "Host: localhost", "Connection: close"]
        body = b""
        if "requestBody" in about:
            ((media_type, content),) = about["requestBody"]["content"].items()
            made = _of_schema(source, content["schema"], document, 0)
            if source.random() < 0.7 and isinstance(made, dict):
                made = _spoiled(source, made)
            if media_type == "application/json":
                body = json.dumps(made).encode()
            else:
                body = urlencode({str(k): str(v) for k, v in made.items()}, errors="replace").encode() if made else b"&"
            if source.random() < 0.1:
                at = source.randrange(len(body) + 1)
                body = body[:at] + source.randbytes(3) + body[at:]
            head += [f"Content-Type: {media_type}", f"Content-Length: {len(body)}"]
        yield "\r\n".join([*head, "", ""]).encode("latin-1", "replace") + body


def _of_schema(source: random.Random, schema: dict[str, Any], document: dict[str, Any], depth: int) -> Any:
    """Something that a schema allows, or nearly: numbers may lie beyond their limits."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return _of_schema(source, source.choice(schema["anyOf"]), document, depth)
    if "enum" in schema:
        return source.choice(schema["enum"])
    kind = schema.get("type")
    if kind in ("integer", "number"):
        low, high = schema.get("minimum", -5), schema.get("maximum", 50)
        value = source.choice([low, high, low - 1, high + 1, source.uniform(low, min(high, low + 100))])
        return int(value) if kind == "integer" else value
    if kind == "string":
        return source.choice(["cloud", "sky rain", "chess opening", *STRINGS])
    if kind == "array":
        few = schema.get("minItems", source.randrange(4))
        if "prefixItems" in schema:
            return [_of_schema(source, one, document, depth + 1) for one in schema["prefixItems"]]
        inside = schema.get("items", {})
        n_items = source.choice([few, few, min(few + 1, 5000)])
        return [_of_schema(source, inside, document, depth + 1) for _ in range(n_items)] if inside else []
    if kind == "object":
        wanted = set(schema.get("required", ()))
        return {
            name: _of_schema(source, one, document, depth + 1)
            for name, one in schema.get("properties", {}).items()
            if name in wanted or source.random() < 0.4
        }
    return None


def _spoiled(source: random.Random, made: dict[str, Any]) -> dict[str, Any]:
    spoiled = dict(made)
    for name in list(spoiled):
        if source.random() < 0.3:
            spoiled[name] = _anything(source)
        elif source.random() < 0.15:
            del spoiled[name]
    if source.random() < 0.2:
        spoiled[source.choice(["more", "", "__proto__", "\ud800"])] = _anything(source)
    return spoiled


def _broken(source: random.Random, value: Any) -> Any:
    return source.choice([value, value, value, *STRINGS[:3], "9" * 40, -1])
