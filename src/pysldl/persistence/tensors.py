"""Arrays in one safetensors file, memory-mapped when they are read, or from a sealed copy in memory.

The format is eight bytes with the length of a JSON header, the header, and the arrays without gaps. The safetensors
package would copy every array as it reads; a memory map reads only what is used, and processes share it.

Arrays that are mapped from a file end the process when somebody shortens the file, and change when somebody writes to
it. A service maps a sealed copy instead, once for all of its processes.
"""

import json
import math
import mmap
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pysldl._utils.files import open_regular
from pysldl.exceptions import ModelFormatError
from pysldl.persistence.manifest import ARRAYS

ALIGNMENT = 64  # of the first array: a cache line
LENGTH_BYTES = 8

DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "C64": np.dtype("<c8"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def can_store(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of ``dtype`` have a place in the file."""
    return dtype.newbyteorder("<") in NAMES


def tensors_size(arrays: Mapping[str, NDArray[Any]]) -> int:
    """Bytes of the file that :func:`write_tensors` makes."""
    return len(_header(arrays)) + sum(array.nbytes for array in arrays.values())


def write_tensors(stream: BinaryIO, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write the arrays, widest numbers first, so that each one is aligned without gaps, which the format forbids."""
    stream.write(_header(arrays))
    for name in _order(arrays):
        array = arrays[name]
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        stream.write(little.reshape(-1).view(np.uint8).data)


def read_tensors(path: Path, *, mapped: bool) -> dict[str, NDArray[Any]]:
    """Read the arrays of a file: memory-mapped, or in memory.

    Pages of a map are shared until someone writes to them; what is written stays in this process. Read-only arrays
    would be of another type for compiled loops, and the first prediction of a loaded model would compile them anew.
    Every offset is checked against the file before it is used.
    """
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        length = int.from_bytes(stream.read(LENGTH_BYTES), "little")
        start = LENGTH_BYTES + length
        if not LENGTH_BYTES < start <= size:
            raise ModelFormatError(f"{path}: is not a whole safetensors file.")
        try:
            header = json.loads(stream.read(length))
            entries = {name: _Entry(**entry) for name, entry in header.items() if name != "__metadata__"}
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ModelFormatError(f"{path}: has a damaged header ({error}).") from error
        for name, entry in entries.items():
            if not entry.fits(size - start):
                raise ModelFormatError(f"{path}: the array {name!r} does not lie within the file.")
        stream.seek(0)
        buffer: Any = (
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY) if mapped else np.fromfile(stream, np.uint8)
        )
    return {name: entry.view(buffer, start) for name, entry in entries.items()}


class _Entry:
    """What the header says of one array."""

    def __init__(self, dtype: str, shape: list[int], data_offsets: list[int]) -> None:
        if dtype not in DTYPES:
            raise ValueError(f"unknown data type {dtype!r}")
        self.dtype = DTYPES[dtype]
        self.begin, self.end = data_offsets
        if not all(type(number) is int and number >= 0 for number in (*shape, self.begin, self.end)):
            raise ValueError("a size or an offset is not a number")
        self.shape = tuple(shape)

    def fits(self, size: int) -> bool:
        return self.end <= size and self.end - self.begin == math.prod(self.shape) * self.dtype.itemsize

    def view(self, buffer: Any, start: int) -> NDArray[Any]:
        array: NDArray[Any] = np.ndarray(self.shape, self.dtype, buffer=buffer, offset=start + self.begin)
        return np.require(array, requirements="A")  # copies an array that another program wrote unaligned


def _order(arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    return sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))


def _header(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Length and header, padded with spaces so that the arrays start at a multiple of ``ALIGNMENT``."""
    entries, end = {}, 0
    for name in _order(arrays):
        array = arrays[name]
        begin, end = end, end + array.nbytes
        dtype = NAMES[array.dtype.newbyteorder("<")]
        entries[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(LENGTH_BYTES + len(text)) % ALIGNMENT)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


class FrozenArrays:
    """A sealed copy in memory; other processes of the same user find it under ``path`` while it is open.

    Arrays that were mapped from it stay when it is closed. The memory is freed when nobody has it open or mapped.
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.path = Path(f"/proc/{os.getpid()}/fd/{handle}")

    def close(self) -> None:
        """Close the copy; arrays that were mapped from it stay valid."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        self.close()


def frozen_arrays(version: Path) -> FrozenArrays | None:
    """Copy the arrays of a version into sealed memory; None on systems that do not support it.

    An ``OSError`` is raised if the file cannot be read or there is not enough memory.
    """
    if sys.platform != "linux" or not hasattr(os, "memfd_create"):
        return None
    import fcntl

    try:
        handle = os.memfd_create("pysldl-arrays", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError:  # forbidden to this process
        return None
    frozen = FrozenArrays(handle)
    with open_regular(version / ARRAYS) as stream:
        while os.sendfile(handle, stream.fileno(), None, 1 << 30):
            pass
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
    fcntl.fcntl(handle, fcntl.F_ADD_SEALS, seals)
    return frozen
