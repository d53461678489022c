"""The text files of the extreme classification repository.

The first line says ``n_samples n_features n_labels``; each further line is a row, its labels and
its features: ``3,17 0:0.5 42:1.25``. Both are counted from 0. A row without labels starts with a
space.

Files of this kind have up to billions of numbers, so they are read in large blocks: NumPy finds
the separators, checks that they alternate as they should, and converts all numbers of a block at
once. Only a block that fails is looked at line by line, to name the line.
"""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from pysldl._utils.files import open_atomic
from pysldl.datasets.dataset import Dataset
from pysldl.datasets.files import open_binary, stem
from pysldl.exceptions import DataError

__all__ = ["is_xc_header", "read_xc", "write_xc"]

BLOCK_BYTES = 1 << 20  # larger ones fall out of the processor's cache
LARGEST = float(np.finfo(np.float32).max)
SPACE, NEWLINE, COLON, COMMA = b" \n:,"
PLAIN_SPACES = bytes.maketrans(b"\t\r", b"  ")
COLONS_AND_COMMAS_TO_SPACES = bytes.maketrans(b":,", b"  ")


class _Shape(NamedTuple):
    n_samples: int
    n_features: int
    n_labels: int


class _Rows(NamedTuple):
    """Rows of one block: how many labels and features each has, and these one after the other."""

    label_counts: NDArray[np.int64]
    labels: NDArray[np.int32]
    feature_counts: NDArray[np.int64]
    features: NDArray[np.int32]
    values: NDArray[np.float32]


class _BrokenBlockError(Exception):
    """Something in a block is not as it should be; the line is not yet known."""


def read_xc(
    path: str | os.PathLike[str], test_path: str | os.PathLike[str] | None = None, name: str | None = None
) -> Dataset:
    """Read a data set of the extreme classification repository.

    Parameters
    ----------
    path : path
        The file, or the file of the train rows. ``.gz`` is unpacked on the way.
    test_path : path, optional
        The file of the test rows; then the result has the splits "train" and "test".
    name : str, optional
        Default: the file's.
    """
    name = name or stem(Path(path))
    X, Y = _read_matrices(path)
    splits = {}
    if test_path is not None:
        X_test, Y_test = _read_matrices(test_path)
        if (X.shape[1], Y.shape[1]) != (X_test.shape[1], Y_test.shape[1]):
            raise DataError(
                f"{path} has {X.shape[1]} features and {Y.shape[1]} labels, but {test_path} has "
                f"{X_test.shape[1]} and {Y_test.shape[1]}: they are not of one data set."
            )
        rows = np.arange(X.shape[0] + X_test.shape[0])
        splits = {"train": rows[: X.shape[0]], "test": rows[X.shape[0] :]}
        X, Y = vstack([X, X_test], format="csr"), vstack([Y, Y_test], format="csr")
    return Dataset(name, X, Y, np.arange(Y.shape[1]).astype(np.str_), splits=splits)


def write_xc(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write ``dataset`` as one text file; it appears whole or not at all. Names and splits are not kept."""
    if dataset.X is None:
        raise DataError(f"data set {dataset.name!r} holds texts only: vectorize() it before writing.")
    X, Y = csr_array(dataset.X), dataset.Y
    with open_atomic(path) as stream:
        stream.write(f"{dataset.n_samples} {dataset.n_features} {dataset.n_labels}\n".encode())
        for row in range(dataset.n_samples):
            labels = Y.indices[Y.indptr[row] : Y.indptr[row + 1]].tolist()
            stored = slice(X.indptr[row], X.indptr[row + 1])
            # NumPy writes the shortest digits that give the same float32 back.
            pairs = zip(X.indices[stored].tolist(), X.data[stored].astype(np.str_).tolist(), strict=True)
            features = " ".join(f"{feature}:{value}" for feature, value in pairs)
            stream.write(f"{','.join(map(str, labels))} {features}\n".encode())


def is_xc_header(line: str) -> bool:
    """Whether a line is three whole numbers."""
    words = line.split()
    return len(words) == 3 and all(word.isdecimal() for word in words)


def _read_matrices(path: str | os.PathLike[str]) -> tuple[csr_array, csr_array]:
    with open_binary(path) as stream:
        shape = _read_header(stream, path)
        blocks: list[_Rows] = []
        line = 2
        for block in _blocks(stream):
            try:
                rows = _parse(block, shape)
            except _BrokenBlockError:
                raise DataError(f"{path}, {_first_fault(block, shape, line)}") from None
            blocks.append(rows)
            line += len(rows.label_counts)
    label_counts, labels, feature_counts, features, values = _joined(blocks)
    if (label_counts[shape.n_samples :] + feature_counts[shape.n_samples :]).any():
        raise DataError(
            f"{path}, line {shape.n_samples + 2}: the header promises {shape.n_samples} rows, but there are more."
        )
    if len(label_counts) < shape.n_samples:
        raise DataError(
            f"{path}: the header promises {shape.n_samples} rows, but there are {len(label_counts)}; "
            "the file may be cut off."
        )
    X = csr_array((values, features, _pointers(feature_counts, shape)), shape=(shape.n_samples, shape.n_features))
    ones = np.ones(len(labels), dtype=np.float32)
    Y = csr_array((ones, labels, _pointers(label_counts, shape)), shape=(shape.n_samples, shape.n_labels))
    Y.sum_duplicates()
    Y.data[:] = 1  # a label named twice is still one label
    return X, Y


def _read_header(stream: BinaryIO, path: str | os.PathLike[str]) -> _Shape:
    line = stream.readline().decode("utf-8", errors="replace").removeprefix("\ufeff")
    if not is_xc_header(line):
        shown = line.strip()[:40]
        raise DataError(
            f"{path}, line 1: expected the header 'n_samples n_features n_labels' (three whole numbers), "
            f"found {shown!r}."
        )
    return _Shape(*map(int, line.split()))


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Whole lines, about ``BLOCK_BYTES`` at a time, each block ending with a newline."""
    rest = b""
    while chunk := stream.read(BLOCK_BYTES):
        end = chunk.rfind(b"\n") + 1
        if end:
            yield rest + chunk[:end]
            rest = chunk[end:]
        else:
            rest += chunk
    if rest:
        yield rest + b"\n"


def _parse(block: bytes, shape: _Shape) -> _Rows:
    plain = block.translate(PLAIN_SPACES)
    text = np.frombuffer(plain, dtype=np.uint8)
    newlines = np.flatnonzero(text == NEWLINE)
    starts = np.concatenate([[0], newlines[:-1] + 1])
    colons = np.flatnonzero(text == COLON)
    is_gap = (text == SPACE) | (text == NEWLINE)

    # The labels of a line end at its first gap, unless a colon comes before: then there are none.
    gaps = np.flatnonzero(is_gap)
    label_ends = gaps[np.searchsorted(gaps, starts)]
    first_colons = np.append(colons, len(text))[np.searchsorted(colons, starts)]
    label_ends = np.where(first_colons < label_ends, starts, label_ends)
    of_labels = np.zeros(len(text) + 1, dtype=np.int8)
    of_labels[starts] += 1
    of_labels[label_ends] -= 1
    of_labels = np.cumsum(of_labels[:-1], dtype=np.int8).view(bool)

    commas = np.flatnonzero(text == COMMA)
    _require(bool(of_labels[commas].all()))
    _require_enclosed(commas, is_gap | (text == COMMA))
    label_counts = np.diff(np.searchsorted(commas, np.append(starts, len(text)))) + (label_ends > starts)
    with_gaps = of_labels.copy()
    with_gaps[label_ends[label_ends > starts]] = (
        True  # else the last label of a row would run into the first of the next
    )
    labels = _numbers(text[with_gaps], int(label_counts.sum()))

    # Each feature is a word with one colon inside: as many words as colons, in turn.
    after_gap = np.concatenate([[True], is_gap[:-1]])
    words = np.flatnonzero(after_gap & ~is_gap & ~of_labels)
    _require(len(words) == len(colons) and bool((words < colons).all() and (colons[:-1] < words[1:]).all()))
    _require_enclosed(colons, is_gap | (text == COLON))
    numbers = _numbers(text[~of_labels], 2 * len(colons))
    feature_counts = np.diff(np.searchsorted(colons, np.append(starts, len(text))))
    with np.errstate(over="ignore"):
        values = numbers[1::2].astype(np.float32)
    _require(bool(np.isfinite(values).all()))
    return _Rows(
        label_counts,
        _indices(labels, shape.n_labels),
        feature_counts,
        _indices(numbers[0::2], shape.n_features),
        values,
    )


def _require(condition: bool) -> None:
    if not condition:
        raise _BrokenBlockError


def _require_enclosed(separators: NDArray[np.intp], is_separator: NDArray[np.bool_]) -> None:
    """A separator has something to separate on both sides."""
    _require(not len(separators) or separators[0] > 0)  # a block ends with a newline, so never at its end
    _require(not (is_separator[separators - 1].any() or is_separator[separators + 1].any()))


def _numbers(text: NDArray[np.uint8], expected: int) -> NDArray[np.float64]:
    """All numbers of a text, which must be ``expected`` many."""
    if not expected:
        _require(not text.tobytes().strip())
        return np.empty(0)
    plain = text.tobytes().translate(COLONS_AND_COMMAS_TO_SPACES).strip()
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # NumPy's word for "this is no number"
        try:
            numbers = np.fromstring(plain, dtype=np.float64, sep=" ")
        except (DeprecationWarning, ValueError):
            raise _BrokenBlockError from None
    _require(len(numbers) == expected)
    return numbers


def _indices(numbers: NDArray[np.float64], length: int) -> NDArray[np.int32]:
    _require(bool(((numbers >= 0) & (numbers < length) & (numbers == np.floor(numbers))).all()))
    return numbers.astype(np.int32)


def _joined(blocks: list[_Rows]) -> _Rows:
    none = np.empty(0, dtype=np.int32)
    nothing = _Rows(none.astype(np.int64), none, none.astype(np.int64), none, none.astype(np.float32))
    return _Rows(*map(np.concatenate, zip(nothing, *blocks, strict=True)))


def _pointers(counts: NDArray[np.int64], shape: _Shape) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts[: shape.n_samples])])


def _first_fault(block: bytes, shape: _Shape, first_line: int) -> str:
    """What is wrong with a block that could not be parsed, and in which line."""
    for number, line in enumerate(block.decode("utf-8", errors="replace").split("\n"), start=first_line):
        fault = _fault(line, shape)
        if fault:
            return f"line {number}: {fault}."
    return f"lines {first_line} to {number}: not in the form 'label,label feature:value feature:value'."


def _fault(line: str, shape: _Shape) -> str | None:
    first, *words = line.split() or [""]
    if line[:1].isspace() or ":" in first:
        first, words = "", [first, *words]
    for label in first.split(",") if first else []:
        if fault := _index_fault("label", label, shape.n_labels):
            return fault
    for word in filter(None, words):
        feature, colon, value = word.partition(":")
        if not colon:
            return f"expected 'feature:value', found {word!r}"
        if fault := _index_fault("feature", feature, shape.n_features):
            return fault
        try:
            finite = abs(float(value)) <= LARGEST
        except ValueError:
            return f"the value of feature {feature} is not a number: {value!r}"
        if not finite:
            return f"the value of feature {feature} is not a finite float32 number: {value!r}"
    return None


def _index_fault(what: str, index: str, length: int) -> str | None:
    try:
        number = int(index)
    except ValueError:
        return f"expected a {what} number, found {index!r}"
    if not 0 <= number < length:
        return f"{what} {number} is out of range: the header promises {length} {what}s, counted from 0"
    return None
