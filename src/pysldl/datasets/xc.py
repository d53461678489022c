"""The text files of the extreme classification repository.

The first line says ``n_samples n_features n_labels``; each further line is a row, its labels and its features, both
counted from 0: ``3,17 0:0.5 42:1.25``. A row without labels starts with a space.

Files of this kind have up to billions of numbers, so NumPy converts all numbers of a block of lines at once, after the
separators of the block have been checked. Only a block that fails is looked at line by line, to name the line.
scikit-learn's svmlight parser is no faster, refuses features out of order, and leaves out rows that have nothing.
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
from pysldl.datasets.files import open_binary, stem, unpack_limit
from pysldl.datasets.svmlight import value_fault
from pysldl.exceptions import DataError
from pysldl.preprocessing.labels import name_array

LABELS_OF_ANY_FILE = 2_000_000
BLOCK_BYTES = 1 << 20  # larger ones fall out of the processor's cache
TABS_TO_SPACES = bytes.maketrans(b"\t\r", b"  ")
OF_NUMBERS = b"0123456789.+-eE"


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
        The file, or the file of the train rows. ``.gz`` is unpacked while reading.
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
    return Dataset(name, X, Y, name_array(range(Y.shape[1])), splits=splits)


def write_xc(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a data set as one text file, atomically. Names and splits are not kept.

    Parameters
    ----------
    dataset : Dataset
        With features: texts are vectorized first.
    path : path
        File to write.
    """
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
    shape = _Shape(*map(int, line.split()))
    if max(shape) > np.iinfo(np.int32).max:
        raise DataError(f"{path}, line 1: the header promises more rows, features or labels than 2^31 - 1.")
    size = Path(path).stat().st_size * unpack_limit()
    if shape.n_labels > max(size, LABELS_OF_ANY_FILE):  # each gets a name, its number, which takes memory
        raise DataError(f"{path}, line 1: the header promises {shape.n_labels} labels, too many for so short a file.")
    return shape


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Whole lines, about ``BLOCK_BYTES`` at a time, each block ending with a newline."""
    rest: list[bytes] = []  # joined once: a line may be as long as the file
    while chunk := stream.read(BLOCK_BYTES):
        end = chunk.rfind(b"\n") + 1
        if end:
            yield b"".join((*rest, chunk[:end]))
            rest = [chunk[end:]] if end < len(chunk) else []
        else:
            rest.append(chunk)
    if rest:
        yield b"".join((*rest, b"\n"))


def _parse(block: bytes, shape: _Shape) -> _Rows:
    """Labels and features of whole lines; anything out of order raises :class:`_BrokenBlockError`."""
    heads, tails = [], []
    for line in block.translate(TABS_TO_SPACES).split(b"\n")[:-1]:
        head, _, tail = line.partition(b" ")
        heads.append(b"" if b":" in head else head)
        tails.append(line if b":" in head else tail)
    label_counts = np.array([head.count(b",") + 1 if head else 0 for head in heads], dtype=np.int64)
    labels = _numbers(b",".join(filter(None, heads)).replace(b",", b" "), int(label_counts.sum()))

    feature_counts = np.array([tail.count(b":") for tail in tails], dtype=np.int64)
    features = b" ".join(tails)
    # Every word is a number, one colon, a number: there is nothing else in it, and no gap beside the colon.
    _require(set(features.translate(None, OF_NUMBERS).split()) <= {b":"})
    _require(b" :" not in features and b": " not in features and features[-1:] != b":" and features[:1] != b":")
    numbers = _numbers(features.replace(b":", b" "), 2 * int(feature_counts.sum()))
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


def _numbers(text: bytes, expected: int) -> NDArray[np.float64]:
    """All numbers of a text, which must be ``expected`` many."""
    if not expected:
        _require(not text.strip())
        return np.empty(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # NumPy's word for "this is no number"
        try:
            numbers = np.fromstring(text.strip(), dtype=np.float64, sep=" ")
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
        if fault := value_fault(feature, value):
            return fault
    return None


def _index_fault(what: str, index: str, length: int) -> str | None:
    try:
        number = int(index)
    except ValueError:
        return f"expected a {what} number, found {index!r}"
    if not 0 <= number < length:
        return f"{what} {number} is out of range: the header promises {length} {what}s, counted from 0"
    return None
