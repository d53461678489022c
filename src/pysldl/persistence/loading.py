"""Reading a model folder, after making sure that it is one, whole, and of a known format."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pysldl.exceptions import ModelFormatError
from pysldl.persistence.decoding import TreeDecoder
from pysldl.persistence.folder import existing
from pysldl.persistence.manifest import ARRAYS, FORMAT_VERSION, Manifest, load_raw, parse_manifest
from pysldl.persistence.tensors import read_tensors

__all__ = ["load_model", "read_manifest", "read_model"]

ATTEMPTS = 10

Result = TypeVar("Result")


def load_model(path: str | os.PathLike[str], *, mmap: bool = True, verify: bool = True) -> Any:
    """Load a model that :func:`save_model` wrote.

    Nothing in the folder can run code: only classes of the library, or registered ones, are built.

    Parameters
    ----------
    path : str or path
        The model folder.
    mmap : bool
        Leave the arrays on the disk and read what is used when it is used; several processes share it. They are
        read-only. False reads them into memory, writeable.
    verify : bool
        Compare every file with its SHA-256, and check the indices of sparse matrices. Without, only sizes and
        bounds are checked: faster for large models that come from a place you trust.

    Raises
    ------
    ModelFormatError
        The folder is missing, damaged, foreign, or of a newer format.
    """
    return read_model(path, TreeDecoder, mmap=mmap, verify=verify)


def read_model(
    path: str | os.PathLike[str], decoder: type[TreeDecoder], *, mmap: bool = True, verify: bool = True
) -> Any:
    """What ``decoder`` makes of a model folder; see :func:`load_model`."""

    def load(folder: Path) -> Any:
        manifest = _manifest(folder, verify=verify)
        _check_files(folder, manifest, verify=verify)
        return _build(folder, manifest, decoder, mapped=mmap, check_indices=verify)

    return _from_one_folder(Path(path), load)


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """What a model folder says of itself, without loading the model.

    The manifest is checked against its checksum, the other files are not looked at.

    Parameters
    ----------
    path : str or path
        The model folder.

    Returns
    -------
    Manifest
        Its content.

    Raises
    ------
    ModelFormatError
        The folder is missing or foreign, its manifest is damaged, or its format is another.
    """
    return _from_one_folder(Path(path), lambda folder: _manifest(folder, verify=True))


def _from_one_folder(path: Path, read: Callable[[Path], Result]) -> Result:
    """Read again when the folder was replaced meanwhile, so that files of two models are never mixed."""
    for _ in range(ATTEMPTS):
        folder = existing(path)
        before = _identity(folder)
        failure: ModelFormatError | None = None
        try:
            result = read(folder)
        except ModelFormatError as error:
            failure = error
        if _identity(existing(path)) == before:
            if failure is not None:
                raise failure
            return result
    raise ModelFormatError(f"{path}: is replaced again and again while it is being read.")


def _identity(folder: Path) -> tuple[Path, int, int, int] | None:
    """What tells a folder from another one that took its name, even where the system uses its number again."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return folder, status.st_dev, status.st_ino, status.st_mtime_ns


def _manifest(folder: Path, *, verify: bool) -> Manifest:
    raw = load_raw(folder)
    version = raw.get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        needed = raw.get("required_library", raw.get("library_version"))
        raise ModelFormatError(
            f"{folder}: is a model of format {version}, and this library reads format {FORMAT_VERSION}. "
            f"Install pysldl {needed} or newer."
        )
    if version != FORMAT_VERSION or type(version) is not int:
        raise ModelFormatError(
            f"{folder}: is a model of format {version!r}, and this library reads format {FORMAT_VERSION}. Fit it again."
        )
    return parse_manifest(folder, raw, verify=verify)


def _check_files(folder: Path, manifest: Manifest, *, verify: bool) -> None:
    for name, record in manifest.files.items():
        path = folder / name
        try:
            size = path.stat().st_size
            if size != record.bytes:
                raise ModelFormatError(f"{path}: has {size} bytes instead of {record.bytes}: the model is damaged.")
            if verify:
                with path.open("rb") as stream:
                    if hashlib.file_digest(stream, "sha256").hexdigest() != record.sha256:
                        raise ModelFormatError(f"{path}: does not match its SHA-256: the model is damaged.")
        except FileNotFoundError as error:
            raise ModelFormatError(f"{path}: is missing: the model is damaged.") from error
        except OSError as error:
            raise ModelFormatError(f"{path}: cannot be read: {error.strerror}.") from error


def _build(folder: Path, manifest: Manifest, decoder: type[TreeDecoder], *, mapped: bool, check_indices: bool) -> Any:
    try:
        arrays = read_tensors(folder / ARRAYS, mapped=mapped)
        strings = {name: json.loads((folder / name).read_bytes()) for name in manifest.files if name != ARRAYS}
        return decoder(str(folder), arrays, strings, check_indices=check_indices).estimator(manifest.tree)
    except ModelFormatError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, OSError) as error:
        # The checksums hold, so this is no accident of the disk: another program wrote or edited the folder.
        raise ModelFormatError(
            f"{folder}: does not describe a model that this library can build ({type(error).__name__}: {error})."
        ) from error
