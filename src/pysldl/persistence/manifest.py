"""The manifest of a model folder: its content, its format, and checksums of its files."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pysldl._utils.files import open_regular
from pysldl._utils.memory import format_bytes
from pysldl.exceptions import ModelFormatError

FORMAT_NAME = "pysldl-model"

# Raise the version when a reader of the present one could not read the folder, or would read it wrongly: a file or a
# node of the tree is renamed, moved, added or given another meaning. Then write the golden folder under
# `tests/persistence/golden` anew, and set REQUIRED_LIBRARY to the release that brings the new version. Once a format is
# released, its reader stays. A new parameter or fitted attribute of a class does not need it: parameters absent from a
# folder take their defaults.
FORMAT_VERSION = 4
REQUIRED_LIBRARY = "0.1.0"

MANIFEST = "manifest.json"
ARRAYS = "arrays.safetensors"
MOST_MANIFEST_BYTES = 64 * 2**20  # long lists lie in files of their own
_FILE_NAME = re.compile(r"[a-z]+\.(json|safetensors)")


@dataclass(frozen=True)
class FileRecord:
    """Size and SHA-256 of one file of the folder.

    Parameters
    ----------
    bytes : int
        Size of the file.
    sha256 : str
        SHA-256 of its content, in hexadecimal digits.

    Examples
    --------
    >>> content = b"some bytes"
    >>> record = FileRecord(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    >>> record.bytes, record.sha256[:8]
    (10, '0d22cdcc')
    """

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Description of a model folder: its format, class, sizes, files and parameters.

    Parameters
    ----------
    format_version : int
        Version of the folder's format.
    library_version : str
        The library that wrote the folder.
    required_library : str
        The oldest library that can read it.
    created : str
        Time of writing, UTC, ISO 8601.
    model_class : str
        Name of the model's class.
    n_labels : int or None
        Number of labels; None if the model does not know.
    n_features : int or None
        Number of features; None if the model does not know.
    n_bytes : int
        Size of all files but the manifest.
    files : dict of str to FileRecord
        Every file but the manifest.
    extra : dict
        What the caller of :func:`save_model` added.
    tree : dict
        Parameters and fitted state; arrays and names are references into the other files.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from pysldl.baselines import LabelPrior
    >>> from pysldl.persistence import read_manifest, save_model
    >>> with TemporaryDirectory() as folder:
    ...     save_model(LabelPrior().fit([[1], [2]], [[1, 0], [1, 1]]), f"{folder}/model")
    ...     manifest = read_manifest(f"{folder}/model")
    >>> manifest.model_class, manifest.n_labels, manifest.parameters["calibrate"]
    ('LabelPrior', 2, True)
    """

    format_version: int
    library_version: str
    required_library: str
    created: str
    model_class: str
    n_labels: int | None
    n_features: int | None
    n_bytes: int
    files: dict[str, FileRecord]
    extra: dict[str, Any]
    tree: dict[str, Any]

    @property
    def parameters(self) -> dict[str, Any]:
        """Constructor parameters for people to read: nested stages are dicts with their ``class``."""
        return {name: _readable(node) for name, node in self.tree["params"].items()}


# The key of each field in the JSON.
_KEYS = {
    field.name: {"model_class": "class", "tree": "model"}.get(field.name, field.name) for field in fields(Manifest)
}


def seal(manifest: Manifest) -> bytes:
    """Return the bytes of ``manifest.json``, with a checksum of its own content, so that damage to it shows too."""
    content = {"format": FORMAT_NAME} | {key: getattr(manifest, name) for name, key in _KEYS.items()}
    content["files"] = {name: vars(record) for name, record in manifest.files.items()}
    return dump_json({**content, "sha256": _checksum(content)}, indent=1)


def dump_json(content: Any, indent: int | None = None) -> bytes:
    """JSON in UTF-8. Lone surrogates, which UTF-8 cannot hold, become JSON's own escapes."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=indent).encode("utf-8", "backslashreplace")


def read_json_object(path: Path, most_bytes: int, what: str) -> tuple[dict[str, Any], bytes]:
    """Read a JSON file of a model, of whatever format version; returns the object and its bytes."""
    try:
        with open_regular(path) as stream:
            content = stream.read(most_bytes + 1)
    except FileNotFoundError as error:
        raise ModelFormatError(f"{path}: is missing: the model is damaged.") from error
    except OSError as error:
        raise ModelFormatError(f"{path}: cannot be read: {error.strerror}.") from error
    if len(content) > most_bytes:
        raise ModelFormatError(f"{path}: has more than {format_bytes(most_bytes)}, so it is no {what}.")
    try:
        raw = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"{path}: is not valid JSON, so the model is damaged ({error}).") from error
    if not isinstance(raw, dict) or raw.get("format") != FORMAT_NAME:
        raise ModelFormatError(f"{path}: is not the {what} of a pysldl model.")
    return raw, content


def check_format(folder: Path, raw: Mapping[str, Any]) -> None:
    """Refuse a model of another format with what to do about it; of a newer one, only three keys are relied on."""
    version = raw.get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        needed = raw.get("required_library", raw.get("library_version"))
        raise ModelFormatError(
            f"{folder}: is a model of format {version}, and this library reads format {FORMAT_VERSION}. "
            f"Install pysldl {str(needed)[:40]} or newer."
        )
    if version != FORMAT_VERSION or type(version) is not int:
        raise ModelFormatError(
            f"{folder}: is a model of format {str(version)[:40]}, and this library reads format {FORMAT_VERSION}. "
            "Fit it again."
        )


def load_manifest(folder: Path, *, verify: bool) -> Manifest:
    """Read the manifest of a version, after checking that it is whole and of this format.

    ``verify`` compares it with its own checksum.
    """
    path = folder / MANIFEST
    content, _ = read_json_object(path, MOST_MANIFEST_BYTES, "manifest")
    check_format(folder, content)
    stated = content.pop("sha256", None)
    if verify and stated != _checksum(content):
        raise ModelFormatError(f"{path}: does not match its checksum: it was damaged or edited.")
    try:
        values = {name: content[key] for name, key in _KEYS.items()}
        files = {name: FileRecord(**record) for name, record in content["files"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelFormatError(f"{path}: is incomplete ({error}).") from error
    manifest = Manifest(**values | {"files": files})
    if ARRAYS not in files or not isinstance(manifest.tree, dict) or not isinstance(manifest.tree.get("params"), dict):
        raise ModelFormatError(f"{path}: is incomplete: it describes no model.")
    for name in files:
        if not _FILE_NAME.fullmatch(name):
            raise ModelFormatError(f"{path}: names {name!r}, which is no file of a model.")
    return manifest


def _checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content in one spelling, whatever the order of keys and the white space."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _readable(node: Any) -> Any:
    match node:
        case list():
            return [_readable(item) for item in node]
        case {"kind": "estimator" | "vectorizer", "class": name, "params": params}:
            return {"class": name, **{key: _readable(value) for key, value in params.items()}}
        case {"kind": "tuple", "items": items}:
            return [_readable(item) for item in items]
        case {"kind": "dict", "keys": list(keys), "values": list(values)}:
            return {str(_readable(key)): _readable(value) for key, value in zip(keys, values, strict=True)}
        case {"kind": "float" | "scalar" | "dtype", "value": value}:
            return _readable(value)
        case {"kind": "dropped"}:
            return None
        case {"kind": kind, **rest}:
            return f"{kind} {rest.get('name', '')}".strip()
        case _:
            return node
