"""NumPy and SciPy to torch."""

import warnings
from threading import Lock
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from torch import Tensor

from pysldl.backend.dispatch import current_device, device_copies

_lock = Lock()  # prediction may ask in several threads
_kept: dict[tuple[int, Any], "DeviceCSR"] = {}


class DeviceCSR(NamedTuple):
    """The three arrays of a CSR matrix on the device."""

    indptr: Tensor
    indices: Tensor
    values: Tensor


def torch_type(dtype: DTypeLike) -> torch.dtype:
    """The torch type of a NumPy type."""
    found: torch.dtype = getattr(torch, np.dtype(dtype).name)
    return found


def as_tensor(array: Any, dtype: torch.dtype | None = None) -> Tensor:
    """A dense array on the device in use."""
    if not isinstance(array, Tensor):
        array = np.ascontiguousarray(array)
        if not array.flags.writeable:  # torch warns of memory that it could change, such as that of a loaded model
            array = array.copy()
        array = torch.from_numpy(array)
    if dtype is not None and dtype.itemsize > array.dtype.itemsize:
        array = array.to(device=current_device())  # widened there, so that less is moved
    return array.to(device=current_device(), dtype=dtype)


def kept_tensor(array: NDArray[Any], dtype: torch.dtype | None = None) -> Tensor:
    """As :func:`as_tensor`; the tensor stays for whoever asks next, until the block of ``use_device`` ends.

    For arrays that several primitives are given and that nobody changes.
    """
    copies, key = device_copies(), (*memory_of(array), dtype)
    if key not in copies:
        copies[key] = array, as_tensor(array, dtype)  # with the array: its memory may else come to hold another one
    return copies[key][1]


def memory_of(array: NDArray[Any]) -> tuple[Any, ...]:
    """What tells an array from others: a matrix that is wrapped again has new arrays over the same memory."""
    return array.ctypes.data, array.shape, array.strides, array.dtype


def remember(tensor: Tensor) -> NDArray[Any]:
    """The tensor as an array, for which :func:`kept_tensor` finds it again."""
    array: NDArray[Any] = tensor.cpu().numpy()
    for dtype in (None, tensor.dtype):
        device_copies()[*memory_of(array), dtype] = array, tensor
    return array


def as_csr(matrix: Any, dtype: torch.dtype = torch.float32) -> Tensor:
    """A sparse matrix on the device, with 32-bit indices, which the products are fastest with."""
    matrix = sparse.csr_array(matrix)
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()
    index = torch.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else torch.int64
    starts, columns = as_tensor(matrix.indptr, index), as_tensor(matrix.indices, index)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse", category=UserWarning)  # torch calls its CSR a beta
        return torch.sparse_csr_tensor(
            starts, columns, as_tensor(matrix.data, dtype), size=matrix.shape, check_invariants=False
        )


def csr_on_device(matrix: Any, *, keep: bool = False) -> DeviceCSR:
    """The arrays of a CSR matrix on the device until the block of ``use_device`` ends.

    ``keep`` leaves them there as long as the matrix lives: for what a model asks for at every prediction.
    """
    key = (id(matrix), current_device())
    with _lock:
        if key in _kept:
            return _kept[key]
        columns, values = kept_tensor(matrix.indices, torch.int32), kept_tensor(matrix.data, torch.float32)
        arrays = DeviceCSR(kept_tensor(matrix.indptr, torch.int64), columns, values)
        if keep:
            _kept[key] = arrays
            finalize(matrix, _kept.pop, key, None)
        return arrays


def row_squares(matrix: Any) -> Tensor:
    """The squared length of every row of a CSR matrix, added up in double precision; kept like its arrays."""
    copies, key = device_copies(), (*memory_of(matrix.data), "squares")
    if key not in copies:
        values = kept_tensor(matrix.data, torch.float32).double()
        lengths = torch.diff(kept_tensor(matrix.indptr, torch.int64))
        copies[key] = matrix.data, segment_sums(values * values, lengths).float()
    return copies[key][1]


def ranges(starts: Tensor, lengths: Tensor) -> Tensor:
    """``start, start + 1, ...`` of every start, one after the other."""
    ends = torch.cumsum(lengths, 0)
    total = int(ends[-1]) if len(ends) else 0
    moved = torch.repeat_interleave(starts - (ends - lengths), lengths, output_size=total)
    return moved + torch.arange(total, device=starts.device)


def segment_sums(values: Tensor, lengths: Tensor) -> Tensor:
    """Sums of consecutive segments of ``values``, in the order of the values."""
    return torch.segment_reduce(values, "sum", lengths=lengths, initial=0.0)
