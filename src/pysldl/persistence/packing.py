"""Lossless compression of sparse matrices: column gaps as bytes, values in half precision if that is exact.

A column is stored as its distance from the one before it, in bytes of seven bits each, the lowest first; all but the
last byte of a number have the eighth bit set. Most distances take one byte, where a column takes four.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pysldl.backend.workspace import current_workspace, row_parts

BITS, MORE = 7, 128
STEPS = 128  # of a number below 1 that is stored in a byte
LONGEST = 5  # bytes of a gap: 35 bits, of which an index of 31 bits needs no more
ENTRIES_AT_ONCE = 1 << 20
VALUES_AT_ONCE = 1 << 22
FIRST = 1024


def can_pack(matrix: Any) -> bool:
    """Whether columns ascend in every row and fit into 31 bits, and are stored as wide as the ends of rows."""
    same = matrix.indices.dtype == matrix.indptr.dtype
    return same and bool(matrix.has_canonical_format) and matrix.shape[1] < 2**31


def pack(matrix: Any) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Return the column gaps of a CSR matrix as bytes, and its values in the smallest form that loses nothing."""
    indices = np.asarray(matrix.indices)
    first = matrix.indptr[:-1][np.diff(matrix.indptr) > 0]
    # A part at a time: what makes a byte of a gap takes fifty times as much room.
    parts = row_parts(len(indices), ENTRIES_AT_ONCE)
    streams = current_workspace().for_pass(matrix).map("saving", _gaps_of, parts, indices, first)
    return np.concatenate([np.empty(0, dtype=np.uint8), *streams]), _narrowest(matrix.data)


def _gaps_of(part: slice, indices: NDArray[np.integer], first: NDArray[np.integer]) -> NDArray[np.uint8]:
    """The gaps of some entries as bytes; ``first`` are the entries with which rows begin."""
    own = indices[part]
    gaps = np.diff(own, prepend=own.dtype.type(indices[part.start - 1] if part.start else -1)) - 1
    some = first[slice(*np.searchsorted(first, (part.start, part.start + len(own))))]
    gaps[some - part.start] = indices[some]
    return _as_bytes(gaps.astype(np.uint32))


def unpack_indices(stream: NDArray[np.uint8], indptr: NDArray[np.integer], n_columns: int) -> NDArray[np.integer]:
    """Restore the columns of a matrix from their gaps, with the type of ``indptr``; ValueError if damaged."""
    n_entries = int(indptr[-1]) if len(indptr) else 0
    if stream.ndim != 1 or stream.dtype != np.uint8 or np.any(np.diff(indptr) < 0) or (len(indptr) and indptr[0]):
        raise ValueError("a packed matrix has other arrays than it needs.")
    if n_entries > len(stream):  # an entry takes a byte or more: more of them would only take memory
        raise ValueError("a packed matrix has more or fewer columns than values.")
    indices = current_workspace().empty(n_entries, indptr.dtype)
    place, done, before_row = 0, 0, 0
    while place < len(stream):
        # A part at a time, up to the end of a gap, so that little more than the result is needed.
        own = stream[place : place + ENTRIES_AT_ONCE]
        last = np.flatnonzero(own < MORE)
        if not len(last) or done + len(last) > n_entries:
            raise ValueError("a packed matrix has more or fewer columns than values.")
        sums = np.cumsum(_as_numbers(own, np.concatenate([[0], last[:-1] + 1]), last) + 1)
        rows = indptr[slice(*np.searchsorted(indptr, (done, done + len(last))))] - done  # those that begin here
        before = np.concatenate([[before_row], np.concatenate([[0], sums])[rows]])
        columns = sums - np.repeat(before, np.diff(rows, prepend=0, append=len(last))) - 1
        if columns.max() >= n_columns:
            raise ValueError("a packed matrix has a column beyond its shape.")
        indices[done : done + len(last)] = columns
        place, done, before_row = place + int(last[-1]) + 1, done + len(last), before[-1] - sums[-1]
    if done != n_entries:
        raise ValueError("a packed matrix has more or fewer columns than values.")
    return indices


def unpack_values(values: NDArray[Any], n_entries: int, dtype: Any) -> NDArray[Any]:
    """Expand packed values to one per entry, in their original precision."""
    if values.shape not in ((1,), (n_entries,)):
        raise ValueError("a packed matrix has more or fewer values than columns.")
    if values.shape == (n_entries,) and values.dtype == dtype:
        return values
    expanded = current_workspace().empty(n_entries, dtype)
    expanded[...] = values
    return expanded


def narrowed(array: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """Return a single-precision array of several dimensions in the smallest form that loses nothing, and its scale.

    Multiples of 1/128 below 1 become bytes, and what fits half precision becomes that.
    """
    if array.dtype != np.float32 or array.ndim < 2 or array.size == 0:
        return array, 1
    if _are_steps(array.ravel()[:FIRST]) and _are_steps(array):
        return (array * np.float32(STEPS)).astype(np.int8), STEPS
    halves = _narrowest(array.ravel()).reshape(-1)
    return (halves.reshape(array.shape), 1) if halves.size == array.size else (array, 1)


def _are_steps(array: NDArray[np.float32]) -> bool:
    """Whether all values are multiples of 1/128 below 1, and no zero has a sign."""
    if not np.abs(array).max() < 1:
        return False
    steps = array * np.float32(STEPS)
    return bool((steps == np.rint(steps)).all()) and not np.signbit(steps[steps == 0]).any()


def widened(array: NDArray[Any], scale: int) -> NDArray[np.float32]:
    """Restore what :func:`narrowed` gave, in the same memory order."""
    if scale not in (1, STEPS) or array.dtype not in (np.int8, np.float16):
        raise ValueError("a narrow array is of another kind than it needs.")
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        return widened(array.T, scale).T
    wide = current_workspace().empty(array.shape, np.float32)
    np.divide(array, np.float32(scale), out=wide, dtype=np.float32)
    return wide


def _narrowest(data: NDArray[Any]) -> NDArray[Any]:
    parts = row_parts(len(data), VALUES_AT_ONCE)
    if len(data) > 1 and all((data[part] == data[0]).all() for part in parts):
        return np.array(data[:1])
    if data.dtype != np.float32:
        return data
    workspace = current_workspace().for_pass(data)
    halves = workspace.empty(len(data), np.float16)
    if not _put_halves(slice(0, FIRST), data, halves):
        return data
    return halves if all(workspace.map("saving", _put_halves, parts, data, halves)) else data


def _put_halves(part: slice, data: NDArray[np.float32], halves: NDArray[np.float16]) -> bool:
    """Convert some values to half precision; whether that loses nothing."""
    with np.errstate(over="ignore"):
        halves[part] = data[part]
    return bool((halves[part] == data[part]).all())


def _as_bytes(numbers: NDArray[np.uint32]) -> NDArray[np.uint8]:
    lengths = np.ones(len(numbers), dtype=np.int64)
    for n_bytes in range(1, LONGEST):
        lengths += numbers >= np.uint32(1 << BITS * n_bytes)
    ends = np.cumsum(lengths)
    stream = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    for place in range(LONGEST):
        there = np.flatnonzero(lengths > place)
        digits = (numbers[there] >> np.uint32(BITS * place)) & np.uint32(MORE - 1)
        stream[ends[there] - lengths[there] + place] = digits + np.where(lengths[there] > place + 1, MORE, 0)
    return stream


def _as_numbers(stream: NDArray[np.uint8], first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    longest = int((last - first).max(initial=0)) + 1
    if longest > LONGEST:
        raise ValueError("a packed matrix has a gap of more than five bytes.")
    numbers = np.zeros(len(first), dtype=np.int64)
    for place in range(longest):
        there = np.flatnonzero(last - first >= place) if place else slice(None)
        numbers[there] |= (stream[first[there] + place] & np.uint8(MORE - 1)).astype(np.int64) << BITS * place
    return numbers
