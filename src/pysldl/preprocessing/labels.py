"""Convert labels in any supported form to a CSR indicator and a list of names."""

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import as_int32_indices
from pysldl.exceptions import DataError
from pysldl.preprocessing.features import NUMBERS, as_column, column_names, is_frame, is_missing

UNORDERED = (set, frozenset)
COLLECTIONS = (list, tuple, *UNORDERED, np.ndarray)
SEPARATORS = (",", ";", "|")
WRITTEN_LIST = re.compile(r"\[.*\]|\{.*\}|\(.*\)", re.DOTALL)

TargetKind = Literal["indicator", "names", "classes"]


@dataclass(frozen=True)
class EncodedLabels:
    """Labels of a training set.

    ``Y`` is a CSR indicator of shape (n_samples, n_labels) in which every stored value is 1. ``names`` are the names of
    its columns, or the classes themselves if every row has exactly one. ``kind`` ("indicator", "names" or "classes") is
    the form in which they came, so that predictions can be returned in the same form.
    """

    Y: sparse.csr_array
    names: NDArray[Any]
    kind: TargetKind


def encode_labels(Y: Any, label_names: Sequence[str] | None = None) -> EncodedLabels:
    """Encode labels: an indicator (dense, sparse, DataFrame), rows of label names, or one class per row.

    Parameters
    ----------
    Y : array-like or sparse of shape (n_samples, n_labels), rows of label names, or array-like of shape (n_samples,)
        Columns of a DataFrame name the labels. Rows of label names are a list, an object array, a Series or the only
        column of a frame, with a list, tuple, set or array of str in each row. A one-dimensional ``Y`` of plain values
        means one class per row.
    label_names : sequence of str, optional
        Names of the columns of an indicator, or the vocabulary (and its order) for rows of names.

    Examples
    --------
    >>> encoded = encode_labels([["cloud", "sky"], ["sky"], []])
    >>> encoded.names.tolist(), encoded.Y.toarray().tolist()
    (['cloud', 'sky'], [[1.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    """
    if Y is None:
        raise DataError("requires y to be passed, but the target y is None: give one label row per sample.")
    rows = as_rows_of_names(Y)
    if rows is not None:
        names = (
            name_array(sorted({name for row in rows for name in row}))
            if label_names is None
            else check_label_names(label_names)
        )
        return EncodedLabels(indicator_of_names(rows, names), names, "names")
    if label_names is None and is_frame(Y):
        label_names = column_names(Y)
    if not sparse.issparse(Y):
        values = _as_array(Y, "Y")
        if values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1 and not _is_binary(values)):
            return _encode_classes(values)
    indicator = as_indicator(Y)
    names = (
        name_array(range(indicator.shape[1]))
        if label_names is None
        else check_label_names(label_names, indicator.shape[1])
    )
    return EncodedLabels(indicator, names, "indicator")


def as_indicator(Y: Any, name: str = "Y") -> sparse.csr_array:
    """Convert zeros and ones to a float32 CSR array that stores only the ones; ``Y`` is not modified.

    ``name`` is what error messages call the argument.
    """
    if not sparse.issparse(Y):
        Y = _as_array(Y, name)
    if Y.ndim != 2:
        raise DataError(f"{name} must have two dimensions, rows by labels, but has shape {Y.shape}.")
    if 0 in Y.shape:
        raise DataError(f"{name} is empty: it has shape {Y.shape}.")
    if Y.dtype.kind not in "biuf":
        raise DataError(
            f"{name} must hold numbers 0 and 1, but has the data type {Y.dtype}. "
            "Label names are passed as one list per row, as in [['cat', 'dog'], ['dog'], []]."
        )
    indicator = sparse.csr_array(Y)
    if not indicator.has_canonical_format or not indicator.data.all():
        indicator = indicator.copy()  # csr_array shares the caller's arrays
        indicator.sum_duplicates()
        indicator.eliminate_zeros()
    wrong = np.flatnonzero(indicator.data != 1)
    if wrong.size:
        first = wrong[0]
        row = int(np.searchsorted(indicator.indptr, first, side="right")) - 1
        raise DataError(
            f"{name} must hold only 0 and 1, but row {row}, column {indicator.indices[first]} is "
            f"{indicator.data[first]}. Pass ({name} > 0) if any positive number means that the label applies."
        )
    return as_int32_indices(indicator.astype(np.float32, copy=False))


def indicator_of_names(rows: Iterable[Iterable[str]], names: NDArray[Any]) -> sparse.csr_array:
    """Encode rows of label names as an indicator; a name outside ``names`` is an error that shows the row."""
    column = {name: i for i, name in enumerate(names.tolist())}
    indptr, indices = [0], []
    for number, row in enumerate(rows):
        try:
            indices.extend(sorted({column[name] for name in row}))
        except KeyError as unknown:
            raise DataError(
                f"Row {number} carries the label {unknown.args[0]!r}, "
                f"which is not one of the {len(names)} known labels."
            ) from None
        indptr.append(len(indices))
    data = np.ones(len(indices), dtype=np.float32)
    shape = (len(indptr) - 1, len(names))
    return as_int32_indices(sparse.csr_array((data, np.array(indices, np.int32), np.array(indptr)), shape=shape))


def name_array(names: Any) -> NDArray[np.object_]:
    """Convert names, or numbers used as names, to an array of Python strings.

    In an array of fixed width every name would take the space of the longest.

    Examples
    --------
    >>> name_array(["sky", "cloud"])
    array(['sky', 'cloud'], dtype=object)
    >>> name_array(range(3)).tolist()
    ['0', '1', '2']
    """
    array = np.asarray(names, dtype=object)
    texts = np.empty(array.size, dtype=object)
    texts[:] = [str(name) for name in array.ravel().tolist()]
    return texts.reshape(array.shape)


def columns_among(names: NDArray[Any], all_names: NDArray[Any]) -> NDArray[np.int32]:
    """Find the position of each name in ``all_names``, which may be in any order; -1 if it is not there.

    Examples
    --------
    >>> columns_among(name_array(["sea", "sky"]), name_array(["sky", "cloud"]))
    array([-1,  0], dtype=int32)
    """
    if not len(names) or not len(all_names):
        return np.full(len(names), -1, dtype=np.int32)
    order = np.argsort(all_names, kind="stable")
    place = np.minimum(np.searchsorted(all_names, names, sorter=order), len(all_names) - 1)
    columns = order[place].astype(np.int32)
    columns[all_names[columns] != names] = -1
    return columns


def join_encoded(parts: Sequence[EncodedLabels]) -> EncodedLabels:
    """Concatenate the labels of several blocks of rows; the names of all are sorted.

    Examples
    --------
    >>> joined = join_encoded([encode_labels([["sky"]]), encode_labels([["cloud"], ["sky"]])])
    >>> joined.names.tolist(), joined.Y.toarray().tolist()
    (['cloud', 'sky'], [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    """
    names = name_array(sorted({name for part in parts for name in part.names.tolist()}))
    blocks = []
    for part in parts:
        columns = columns_among(part.names, names)[part.Y.indices]  # both are sorted, and so the columns of a row are
        blocks.append(sparse.csr_array((part.Y.data, columns, part.Y.indptr), shape=(part.Y.shape[0], len(names))))
    return EncodedLabels(as_int32_indices(sparse.vstack(blocks, format="csr")), names, "names")


def rows_of_names(encoded: EncodedLabels) -> list[list[str]]:
    """Return one list of label names per row.

    Examples
    --------
    >>> rows_of_names(encode_labels([["sky", "cloud"], []]))
    [['cloud', 'sky'], []]
    """
    names = encoded.names[encoded.Y.indices].tolist()
    return [names[start:stop] for start, stop in pairwise(encoded.Y.indptr.tolist())]


def check_label_names(names: Sequence[str] | NDArray[Any], n_labels: int | None = None) -> NDArray[Any]:
    """Convert names to a string array; a wrong number of them or a name used twice is an error."""
    array = name_array(names)
    if array.ndim != 1:
        raise DataError(f"label_names must be one list of names, but has {array.ndim} dimensions.")
    if n_labels is not None and len(array) != n_labels:
        raise DataError(f"label_names holds {len(array)} names, but Y has {n_labels} columns.")
    unique, counts = np.unique(array, return_counts=True)
    if (counts > 1).any():
        twice = ", ".join(repr(str(name)) for name in unique[counts > 1][:5])
        raise DataError(f"Label names must be unique, but these occur more than once: {twice}.")
    return array


def as_classes(values: Any) -> NDArray[Any]:
    """Check labels that are one class per row, (n_samples,) or (n_samples, 1), and return them as a vector.

    Missing classes, and texts that may hold several labels, are errors.
    """
    flat = np.asarray(values).ravel()
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        raise DataError("Input y contains NaN or infinity.")
    if flat.dtype.kind == "f" and (flat != np.round(flat)).any():
        raise DataError("Unknown label type: continuous. A one-dimensional y must hold one class per row.")
    if flat.dtype.kind not in "OUT":
        return flat
    for row, value in enumerate(flat.tolist()):
        if is_missing(value):
            raise DataError(
                f"Row {row} of y is {value}; a one-dimensional y holds one class per row. Leave the row out or, if "
                "rows may have any number of labels, give a list of names for each and [] for no labels."
            )
        if isinstance(value, dict):
            raise DataError(f"Row {row} of y is a dict; give the names of its labels as a list.")
        if isinstance(value, COLLECTIONS):
            raise DataError(f"Row {row} of y is {value!r}, but rows above it are single classes: make all rows lists.")
    texts = [value for value in flat.tolist() if isinstance(value, str)]
    if len(texts) == len(flat):
        _refuse_lists_in_texts(texts)
    return flat


def _encode_classes(values: NDArray[Any]) -> EncodedLabels:
    """One class per row, as single-label classifiers take it."""
    if values.ndim == 2:
        from sklearn.exceptions import DataConversionWarning  # not above: a model that only answers would wait for it

        warnings.warn(
            "A column-vector y was passed when a 1d array was expected: one class per row is assumed.",
            DataConversionWarning,
            stacklevel=4,
        )
    flat = as_classes(values)
    classes, columns = np.unique(flat, return_inverse=True)
    rows = np.arange(len(flat) + 1)
    Y = sparse.csr_array((np.ones(len(flat), np.float32), columns.astype(np.int32), rows), (len(flat), len(classes)))
    return EncodedLabels(Y, classes, "classes")


def as_rows_of_names(Y: Any) -> list[list[str]] | None:
    """Convert ``Y`` to one list of label names per row; None if it is an indicator or holds one class per row.

    It may be a list, object array or Series of collections of strings, or an array or frame with one such column. A
    missing row, a name that is not text, and rows of numbers in a column of a frame are errors.

    Examples
    --------
    >>> as_rows_of_names([("sky",), {"cloud"}, []])
    [['sky'], ['cloud'], []]
    >>> as_rows_of_names([[0, 1], [1, 0]]) is None
    True
    """
    if isinstance(Y, str):
        raise DataError(f"y is the text {Y!r}, but labels for every row were expected, as in [['cat', 'dog'], []].")
    if isinstance(Y, Iterator):
        raise DataError("y is an iterator, which can be read only once: pass list(y).")
    cells = as_column(Y)
    if cells is None or not any(isinstance(cell, COLLECTIONS) for cell in cells):
        return None
    rows: list[list[Any]] = []
    for number, cell in enumerate(cells):
        if is_missing(cell):
            raise DataError(f"Row {number} of y is {cell}; use [] for no labels.")
        if not isinstance(cell, COLLECTIONS):
            raise DataError(f"Row {number} of y is {cell!r}, but other rows are lists of labels: write [{cell!r}].")
        rows.append(list(cell))
    values = [value for row in rows for value in row]
    if values and not any(isinstance(value, str) for value in values):
        same_length = len({len(row) for row in rows}) == 1
        if not same_length or not isinstance(Y, (list, tuple)) or any(isinstance(cell, UNORDERED) for cell in cells):
            example = next(row for row in rows if row)
            raise DataError(
                f"The rows of y are lists of numbers, such as {example}"
                f"{'.' if same_length else ', and its rows differ in length.'} Numbers that "
                "are labels are written as text: [[str(label) for label in row] for row in y]; rows of "
                "zeros and ones are passed as one matrix: numpy.array(list(y))."
            )
        return None  # a matrix written as lists
    for number, row in enumerate(rows):
        for value in row:
            if not isinstance(value, str):
                raise DataError(f"Row {number} of y holds {value!r}, but label names are texts.")
            if not value or value.isspace():
                raise DataError(
                    f"Row {number} of y holds the empty label {value!r}: leave it out, and write [] for no labels."
                )
    return rows


def _refuse_lists_in_texts(texts: Sequence[str]) -> None:
    """Raise an error if texts that should be one class each look like several labels in one text."""
    if 2 * sum(WRITTEN_LIST.fullmatch(text.strip()) is not None for text in texts) >= len(texts):
        example = next(text for text in texts if WRITTEN_LIST.fullmatch(text.strip()))
        raise DataError(
            f"y holds lists that are written as text, such as {example!r}: read them with "
            "[ast.literal_eval(text) for text in y]."
        )
    for separator in SEPARATORS:
        if _looks_joined(texts, separator):
            example = next(text for text in texts if separator in text)
            raise DataError(
                f"y holds texts such as {example!r}, which look like several labels in one text. For lists of labels "
                f"write [[label.strip() for label in text.split({separator!r}) if label.strip()] for text in y]; if "
                "every text is one class, pass LabelEncoder().fit_transform(y)."
            )


def _looks_joined(texts: Sequence[str], separator: str) -> bool:
    """Whether texts are lists joined by ``separator``, and not names that happen to contain it.

    Lists are made of fewer labels than there are different lists, and they differ in length; "Portland, OR" and "Doe,
    Jane" do not do both.
    """
    distinct = Counter(texts)
    lists = {tuple(part.strip() for part in text.split(separator)) for text in distinct}
    joined = sum(count for text, count in distinct.items() if separator in text)
    labels = {part for parts in lists for part in parts}
    lengths = {len(parts) for parts in lists}
    return 20 * joined >= len(texts) and len(labels) < len(lists) and len(lengths) > 1


def _as_array(Y: Any, name: str) -> NDArray[Any]:
    try:
        values = np.asarray(Y)
    except ValueError as error:
        raise DataError(f"{name} must be an indicator matrix, but its rows differ in length.") from error
    if values.dtype == object and values.ndim == 2 and all(isinstance(value, NUMBERS) for value in values.flat):
        values = values.astype(np.float64)  # a frame of nullable integers or of mixed types
    return values


def _is_binary(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "biuf" and bool(np.isin(values, (0, 1)).all())
