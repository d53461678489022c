"""Arrays that lie in files, passed between processes by name: a task carries where they are, not what they hold.

The client and all workers see one folder. Every large array of a fit is a file there, mapped once by each process.
What is sent beside it goes by Dask's own way.
"""

import math
import mmap
import os
import secrets
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pysldl.preprocessing.labels import name_array

SPILLED_BYTES = 1 << 16  # smaller arrays travel with their task
BYTES_OF_TEXT = 64  # beside its characters
WALKED = ("pysldl.", "scipy.sparse.")  # modules of the objects whose attributes may be large arrays

_maps: dict[str, mmap.mmap] = {}
_places: dict[str, tuple[int, int]] = {}  # address and length of every map, and of what is not yet written
_unwritten: dict[str, NDArray[Any]] = {}  # arrays of this process, by the files that they become
_unpacked: dict[str, Any] = {}  # what the tasks of the present stage share, on a worker


def new_array(folder: str, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Make a file of zeros in ``folder`` and return it as an array; it takes no disk until it is written."""
    shape = (shape,) if isinstance(shape, int) else shape
    dtype = np.dtype(dtype)
    path = _new_path(folder)
    with open(path, "xb") as file:  # noqa: PTH123
        file.truncate(max(1, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize))
    return open_array(path, 0, shape, dtype.str, None)


def new_unwritten_array(folder: str, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Make an array in memory that becomes a file of ``folder`` when it is first packed; then it is not to change."""
    array = np.empty(shape, dtype)
    if array.nbytes >= SPILLED_BYTES:
        path = _new_path(folder)
        _unwritten[path], _places[path] = array, (int(array.__array_interface__["data"][0]), array.nbytes)
    return array


def _new_path(folder: str) -> str:
    return str(Path(folder, f"{secrets.token_hex(8)}.bin"))


def open_array(
    path: str, offset: int, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...] | None
) -> NDArray[Any]:
    """Return the array that lies in a file; each process maps a file once."""
    if path not in _maps:
        with open(path, "r+b") as file:  # noqa: PTH123
            mapped = mmap.mmap(file.fileno(), 0)
        whole = np.frombuffer(mapped, dtype=np.uint8)
        _maps[path], _places[path] = mapped, (whole.ctypes.data, whole.nbytes)
    return np.ndarray(shape, np.dtype(dtype), buffer=_maps[path], offset=offset, strides=strides)


def forget_maps(folder: str) -> None:
    """Let go of the files of a folder that is about to be removed; arrays still in use keep theirs."""
    _unpacked.clear()
    for path in [path for path in _places if path.startswith(folder + os.sep)]:
        del _places[path]
        _maps.pop(path, None)
        _unwritten.pop(path, None)


def release_pages() -> None:
    """Give back the memory of what was read from the maps; the system reads it again when it is needed."""
    for mapped in list(_maps.values()):
        mapped.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True)
class FileArray:
    """Where an array lies: its file, and how it is laid out there."""

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of its entries."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class FileTexts:
    """Many texts: all of them one behind the other in UTF-8, and how many characters each has."""

    content: Any
    lengths: Any

    @property
    def nbytes(self) -> int:
        """Bytes of the texts in memory, about."""
        return int(self.content.nbytes) + BYTES_OF_TEXT // 8 * int(self.lengths.nbytes)


@dataclass(frozen=True)
class Packed:
    """A value whose large arrays are replaced by :class:`FileArray`; Dask sends it as any other object."""

    value: Any


def pack(value: Any, folder: str) -> Packed:
    """Replace the arrays of files by their places; other large arrays are put into ``folder`` first."""
    return Packed(_replaced(value, lambda part: _as_place(part, folder)))


def unpack(packed: Packed) -> Any:
    """Return what :func:`pack` was given, its arrays mapped."""
    return _replaced(packed.value, _as_array)


def n_bytes(value: Any) -> int:
    """Bytes of the arrays of a value, which may be packed."""
    sizes: list[int] = []
    _replaced(value, lambda part: sizes.append(part.nbytes))
    return sum(sizes)


def unpacked(token: str, payload: Packed) -> Any:
    """What the tasks of a stage share, unpacked once by each worker; that of the stage before is forgotten."""
    found = _unpacked.get(token)
    if found is None:
        _unpacked.clear()
        for path in [path for path in _maps if not Path(path).exists()]:  # of models that are gone
            del _maps[path], _places[path]
        found = _unpacked[token] = unpack(payload)
    return found


def _as_place(part: Any, folder: str) -> Any:
    if not isinstance(part, np.ndarray) or part.size == 0:
        return part
    if part.dtype.hasobject:
        return _as_texts(part, folder) if part.ndim == 1 and part.nbytes >= SPILLED_BYTES else part
    found = _locate(part)
    if found is None and part.nbytes >= SPILLED_BYTES:
        # Written and not mapped: a page that is first touched through a map costs more than to copy it.
        part, found = np.ascontiguousarray(part), (_new_path(folder), 0)
        part.tofile(found[0])
    # What travels is copied: it may be a piece of a map, which it would keep.
    return np.array(part) if found is None else FileArray(*found, part.shape, part.dtype.str, part.strides)


def _as_texts(names: NDArray[np.object_], folder: str) -> Any:
    """Names as arrays of bytes and lengths; other objects as they are."""
    texts = names.tolist()
    if not all(type(text) is str for text in texts):
        return names
    content = np.frombuffer("".join(texts).encode("utf-8", "surrogatepass"), dtype=np.uint8)
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    return FileTexts(_as_place(content, folder), _as_place(lengths, folder))


def _as_array(part: Any) -> Any:
    if isinstance(part, FileTexts):
        whole = _as_array(part.content).tobytes().decode("utf-8", "surrogatepass")
        ends = np.cumsum(_as_array(part.lengths)).tolist()
        return name_array([whole[start:stop] for start, stop in pairwise([0, *ends])])
    if not isinstance(part, FileArray):
        return part
    return open_array(part.path, part.offset, part.shape, part.dtype, part.strides)


def _replaced(value: Any, replace: Callable[[Any], Any]) -> Any:
    """``value`` with its arrays replaced, in containers, sparse matrices and objects of this library, too."""
    if isinstance(value, np.ndarray | FileArray | FileTexts):
        return replace(value)
    if isinstance(value, tuple):
        items = [_replaced(item, replace) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [_replaced(item, replace) for item in value]
    if isinstance(value, dict):
        return {key: _replaced(item, replace) for key, item in value.items()}
    if not isinstance(value, type) and type(value).__module__.startswith(WALKED) and hasattr(value, "__dict__"):
        changed = copy(value)
        vars(changed).update({name: _replaced(item, replace) for name, item in vars(value).items()})
        return changed
    return value


def _locate(array: NDArray[Any]) -> tuple[str, int] | None:
    """File and offset of an array that lies in a map."""
    address = int(array.__array_interface__["data"][0])
    if any(stride < 0 for stride in array.strides):
        return None
    for path, (start, length) in _places.items():
        if start <= address < start + length:
            if path in _unwritten and not Path(path).exists():
                _unwritten[path].tofile(path)
            return path, address - start
    return None
