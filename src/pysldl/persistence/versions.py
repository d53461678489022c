"""The versions of a model, each in its own folder, and the file that says which one is current.

A version is written once and never changed, so that a service which uses it is not disturbed by the next one. Readers
follow the pointer; writers hold the lock of the folder.
"""

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pysldl._utils.files import file_lock, is_leftover, open_atomic, open_regular, sync_folder
from pysldl.exceptions import DataError, ModelFormatError
from pysldl.persistence.manifest import (
    FORMAT_NAME,
    FORMAT_VERSION,
    MANIFEST,
    REQUIRED_LIBRARY,
    check_format,
    read_json_object,
)

POINTER = "current.json"
VERSIONS = "versions"
LOCK = "lock"
WAIT = 60.0  # seconds that a writer waits for another one
ATTEMPTS = 10
MOST_POINTER_BYTES = 4096

_VERSION_NAME = re.compile(r"[0-9a-f]{16}")

Result = TypeVar("Result")


def current_version(path: str | os.PathLike[str]) -> Path:
    """Find the folder of the current version of a model.

    A version never changes, so its path tells it from all others: if this function returns another path, the model
    was replaced, or a link while reading was turned to another one. :func:`load_model`, :func:`load_predictor` and
    :func:`read_manifest` take a version as well as a model, and then read this version and no other.

    Parameters
    ----------
    path : str or path
        A model folder, or a version of one, which is its own current version.

    Returns
    -------
    Path
        Absolute, without links. The folder that it names is not looked at.

    Raises
    ------
    ModelFormatError
        The folder is missing, is no model, or is of another format.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from pysldl.baselines import LabelPrior
    >>> from pysldl.persistence import current_version, save_model
    >>> with TemporaryDirectory() as folder:
    ...     save_model(LabelPrior().fit([[1], [2]], [[1, 0], [1, 1]]), f"{folder}/model")
    ...     version = current_version(f"{folder}/model")
    >>> version.parent.name, len(version.name)
    ('versions', 16)
    """
    folder = Path(os.path.realpath(path))  # once, so that a link that is turned meanwhile leads to one model only
    if not folder.exists():
        raise ModelFormatError(f"{path}: no such model folder.")
    if not folder.is_dir():
        raise ModelFormatError(f"{path}: is a file, but a model is a folder.")
    pointer = folder / POINTER
    if not os.path.lexists(pointer):
        if os.path.lexists(folder / MANIFEST):
            return folder
        raise ModelFormatError(f"{path}: is not a pysldl model: it has no {POINTER}.")
    return folder / VERSIONS / _read_pointer(pointer)


def read_current(path: str | os.PathLike[str], read: Callable[[Path], Result]) -> Result:
    """Call ``read`` with the current version of a model, and again if that was replaced in the meantime.

    Parameters
    ----------
    path : str or path
        A model folder, or a version of one.
    read : callable
        Takes the folder of a version; raises :class:`ModelFormatError` if it cannot be read.

    Returns
    -------
    object
        What ``read`` returned; all of it comes from one version.
    """
    version = current_version(path)
    for _ in range(ATTEMPTS):
        try:
            return read(version)
        except ModelFormatError:
            # A version is removed once two newer ones are there.
            version, failed = current_version(path), version
            if version == failed:
                raise
    raise ModelFormatError(f"{path}: is replaced again and again while it is being read.")


@contextmanager
def lock_model(path: str | os.PathLike[str], *, wait: float = WAIT) -> Iterator[None]:
    """Hold the lock of a model while reading, changing and saving it; other writers wait, readers do not.

    A thread that holds the lock may take it again, as :func:`save_model` does. It is free when its holder dies.

    Parameters
    ----------
    path : str or path
        A model folder that exists.
    wait : float
        Seconds to wait for another writer.

    Raises
    ------
    DataError
        Another writer held it for longer, or the folder cannot be written.
    """
    with _locked(Path(os.path.realpath(path)), wait):
        yield


@contextmanager
def _locked(folder: Path, wait: float) -> Iterator[None]:
    try:
        lock = file_lock(folder / LOCK, wait)
        lock.__enter__()
    except TimeoutError as error:
        raise DataError(
            f"{folder}: is being written by another process (waited {wait:.0f} s). Nothing was changed; try again."
        ) from error
    except OSError as error:
        raise DataError(f"{folder}: cannot be locked for writing: {error.strerror or error}.") from error
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


class HashedFile:
    """A stream that knows the size and SHA-256 of what went through it."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.size = 0
        self.sha256 = hashlib.sha256()

    def write(self, data: Any) -> int:
        """Write the bytes ``data`` and return how many were written."""
        self.sha256.update(data)
        self.size += len(data)
        return self.stream.write(data)


@contextmanager
def write_file(path: Path) -> Iterator[Any]:
    """Open a new file as a :class:`HashedFile`; it is flushed to the disk when the block ends."""
    with path.open("xb") as stream:
        yield HashedFile(stream)
        stream.flush()
        os.fsync(stream.fileno())


@contextmanager
def new_version(
    target: Path, *, overwrite: bool, expected: str | None = None, name: str | None = None, wait: float = WAIT
) -> Iterator[Path]:
    """Make an empty folder for a new version of ``target``, which becomes current when the block ends.

    ``target`` is a path without links and is made if missing; ``overwrite`` says whether a model may be there already.
    If ``expected`` is given and another version is current by now, the new one is refused. ``name`` is random by
    default. Raises a ``DataError`` if the model may not be replaced, and an ``OSError`` if something cannot be written;
    the current version then stays what it was.
    """
    with _locked_folder(target, wait):
        replaced = check_target(target, overwrite=overwrite, expected=expected)
        _remove_all_but(target, {replaced})  # what a killed writer left, and the version before the present one
        name = name or secrets.token_hex(8)
        version = target / VERSIONS / name
        try:
            version.mkdir(parents=True)
            yield version
            sync_folder(version)
            sync_folder(version.parent)
            sync_folder(target)  # the pointer must not outlive what it points to
            _write_pointer(target / POINTER, name)
            sync_folder(target.parent)
        except BaseException:
            if not _points_to(target, name):
                shutil.rmtree(version, ignore_errors=True)
            raise
        # The replaced version stays until the next save: a reader may have just found it.
        _remove_all_but(target, {replaced, name})


def copy_version(version: Path, target: Path) -> None:
    """Make the model ``target``, which must not exist, with a copy of ``version``, whole or not at all."""
    with new_version(target, overwrite=False, name=version.name) as folder:
        for entry in version.iterdir():
            with open_regular(entry) as stream, write_file(folder / entry.name) as file:
                shutil.copyfileobj(stream, file)


def check_target(target: Path, *, overwrite: bool, expected: str | None = None) -> str | None:
    """Return the name of the current version; None if there is no model, and an error if none may be put."""
    if not target.parent.is_dir():
        raise DataError(f"{target.parent}: no such folder to write the model {target.name} into.")
    current = None
    if os.path.lexists(target):
        if not target.is_dir():
            raise DataError(f"{target}: is a file, and a model is a folder: choose another name.")
        present = {entry.name for entry in target.iterdir()}
        if POINTER in present:
            current = _current_name(target)
        elif any(name not in (LOCK, VERSIONS) and not is_leftover(name, POINTER) for name in present):
            raise DataError(f"{target}: exists and is not a pysldl model, so it is not replaced.")
    if current is not None and not overwrite:
        raise DataError(f"{target}: there is a model already. Pass overwrite=True to replace it.")
    if expected is not None and current != expected:
        raise DataError(f"{target}: was replaced by another process meanwhile. Nothing was changed; try again.")
    return current


def _current_name(target: Path) -> str:
    try:
        return _read_pointer(target / POINTER)
    except ModelFormatError as error:
        raise DataError(f"{target}: exists and is not a pysldl model, so it is not replaced.") from error


def _points_to(target: Path, name: str) -> bool:
    try:
        return _read_pointer(target / POINTER) == name
    except ModelFormatError:
        return False


@contextmanager
def _locked_folder(target: Path, wait: float) -> Iterator[None]:
    """Make the model folder and lock it; remove it again if no model was saved."""
    if not target.parent.is_dir():
        raise DataError(f"{target.parent}: no such folder to write the model {target.name} into.")
    if os.path.lexists(target):
        check_target(target, overwrite=True)  # before a lock file is put into a folder that is something else
    made = not os.path.lexists(target)
    target.mkdir(exist_ok=True)
    with _locked(target, wait):
        try:
            yield
        except BaseException:
            if made and not os.path.lexists(target / POINTER):
                shutil.rmtree(target, ignore_errors=True)
            raise


def _remove_all_but(target: Path, names: set[str | None]) -> None:
    """Remove versions that nothing leads to; other people's files stay."""
    with suppress(FileNotFoundError):
        for entry in list((target / VERSIONS).iterdir()):
            if _VERSION_NAME.fullmatch(entry.name) and entry.name not in names:
                shutil.rmtree(entry, ignore_errors=True)


def _pointer(name: str) -> bytes:
    content = {
        "format": FORMAT_NAME,
        "format_version": FORMAT_VERSION,
        "required_library": REQUIRED_LIBRARY,
        "current": name,
    }
    return json.dumps(content, indent=1).encode() + b"\n"


def _write_pointer(path: Path, name: str) -> None:
    failed: BaseException | None = None
    try:
        with open_atomic(path) as stream:
            stream.write(_pointer(name))
    except DataError as error:
        failed = error.__cause__ or error
    if failed is not None:  # not above, where the error would lie behind the one that it lies behind
        raise failed


def _read_pointer(path: Path) -> str:
    """Return the name of the version that is current."""
    raw, content = read_json_object(path, MOST_POINTER_BYTES, "pointer")
    check_format(path.parent, raw)
    name = raw.get("current")
    # Every byte must be as it was written, so that no damage goes unseen.
    if not isinstance(name, str) or not _VERSION_NAME.fullmatch(name) or content != _pointer(name):
        raise ModelFormatError(f"{path}: does not name a version of the model: it was damaged or edited.")
    return name
