"""Arrays that lie in files, passed between processes by name: a task carries where they are, not what they hold.

The client and all workers see one folder. Every large array of a fit is a file there, mapped once by each process.
What is sent beside it goes by Dask's own way.
"""

import io
import mmap
import os
import pickle
import secrets
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["dumps", "forget_maps", "loads", "new_array", "release_pages"]

SPILLED_BYTES = 1 << 16  # smaller arrays travel with their task

_maps: dict[str, mmap.mmap] = {}
_places: dict[str, tuple[int, int]] = {}  # address and length of every map


def new_array(folder: str, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Make a file of zeros in ``folder`` and return it as an array; it takes no disk until it is written."""
    shape = (shape,) if isinstance(shape, int) else shape
    dtype = np.dtype(dtype)
    path = str(Path(folder, f"{secrets.token_hex(8)}.bin"))
    with open(path, "xb") as file:  # noqa: PTH123
        file.truncate(max(1, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize))
    return open_array(path, 0, shape, dtype.str, None)


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
    for path in [path for path in _maps if path.startswith(folder + os.sep)]:
        del _maps[path], _places[path]


def release_pages() -> None:
    """Give back the memory of what was read from the maps; the system reads it again when it is needed."""
    for mapped in list(_maps.values()):
        mapped.madvise(mmap.MADV_DONTNEED)


def dumps(value: Any, folder: str) -> bytes:
    """Return ``value`` as bytes in which arrays of files are names; other large arrays are put into ``folder``."""
    stream = io.BytesIO()
    _Pickler(stream, folder).dump(value)
    return stream.getvalue()


def loads(data: bytes) -> Any:
    """Return what :func:`dumps` was given, its arrays mapped."""
    return pickle.loads(data)


class _Pickler(pickle.Pickler):
    def __init__(self, stream: io.BytesIO, folder: str) -> None:
        super().__init__(stream, protocol=5)
        self.folder = folder

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray) or value.dtype.hasobject or value.size == 0:
            return NotImplemented
        found = _locate(value)
        if found is None and value.nbytes >= SPILLED_BYTES:
            copied = new_array(self.folder, value.shape, value.dtype)
            copied[...] = value
            value, found = copied, _locate(copied)
        if found is None:
            return NotImplemented
        path, offset = found
        return open_array, (path, offset, value.shape, value.dtype.str, value.strides)


def _locate(array: NDArray[Any]) -> tuple[str, int] | None:
    """File and offset of an array that lies in a map."""
    address = int(array.__array_interface__["data"][0])
    if any(stride < 0 for stride in array.strides):
        return None
    for path, (start, length) in _places.items():
        if start <= address < start + length:
            return path, address - start
    return None
