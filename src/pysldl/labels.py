"""Labels in every form people have them, turned into one: a CSR indicator and a list of names."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.exceptions import DataError

__all__ = [
    "EncodedLabels",
    "as_indicator",
    "check_label_names",
    "encode_labels",
    "indicator_of_names",
    "is_rows_of_names",
]

TargetKind = Literal["indicator", "names", "classes"]


@dataclass(frozen=True)
class EncodedLabels:
    """Labels of the rows of a training set.

    Attributes
    ----------
    Y : csr_array of shape (n_samples, n_labels), float32, every stored value 1
    names : ndarray of shape (n_labels,)
        What each column is called; the classes themselves where every row has exactly one.
    kind : {"indicator", "names", "classes"}
        The form they came in, so that predictions can be given back in the same form.
    """

    Y: sparse.csr_array
    names: NDArray[Any]
    kind: TargetKind


def encode_labels(Y: Any, label_names: Sequence[str] | None = None) -> EncodedLabels:
    """Understand ``Y``: an indicator (dense, sparse, DataFrame), rows of label names, or one class a row.

    Parameters
    ----------
    Y : array-like or sparse of shape (n_samples, n_labels), list of lists of str, or array-like (n_samples,)
        Columns of a DataFrame name the labels. A one-dimensional ``Y`` means one class per row.
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
    if is_rows_of_names(Y):
        rows = [list(row) for row in Y]
        names = (
            np.array(sorted({name for row in rows for name in row}), dtype=np.str_)
            if label_names is None
            else check_label_names(label_names)
        )
        return EncodedLabels(indicator_of_names(rows, names), names, "names")
    if label_names is None and hasattr(Y, "columns") and not sparse.issparse(Y):
        label_names = [str(column) for column in Y.columns]
    if not sparse.issparse(Y):
        values = _as_array(Y, "Y")
        if values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1 and not _is_binary(values)):
            return _encode_classes(values)
    indicator = as_indicator(Y)
    names = (
        np.arange(indicator.shape[1]).astype(f"U{len(str(indicator.shape[1] - 1))}")
        if label_names is None
        else check_label_names(label_names, indicator.shape[1])
    )
    return EncodedLabels(indicator, names, "indicator")


def as_indicator(Y: Any, name: str = "Y") -> sparse.csr_array:
    """``Y`` as a float32 CSR array whose stored entries are exactly the positives; it is not modified.

    Parameters
    ----------
    Y : array-like or sparse of shape (n_samples, n_labels)
        Zeros and ones.
    name : str
        What the caller calls it, for the error message.
    """
    if not sparse.issparse(Y):
        Y = _as_array(Y, name)
    if Y.ndim != 2:
        raise DataError(f"{name} must have two dimensions, rows by labels, but has shape {Y.shape}.")
    if 0 in Y.shape:
        raise DataError(f"{name} is empty: it has shape {Y.shape}.")
    if Y.dtype.kind not in "biuf":
        raise DataError(f"{name} must hold numbers 0 and 1, but has the data type {Y.dtype}.")
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
    return indicator.astype(np.float32, copy=False)


def indicator_of_names(rows: Iterable[Iterable[str]], names: NDArray[Any]) -> sparse.csr_array:
    """Indicator of rows of label names; a name outside ``names`` is an error that shows the row."""
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
    return sparse.csr_array((data, np.array(indices, np.int32), np.array(indptr)), shape=(len(indptr) - 1, len(names)))


def check_label_names(names: Sequence[str] | NDArray[Any], n_labels: int | None = None) -> NDArray[Any]:
    """Names as a string array; a wrong number of them or a name used twice is an error."""
    array = np.asarray(names).astype(np.str_)
    if array.ndim != 1:
        raise DataError(f"label_names must be one list of names, but has {array.ndim} dimensions.")
    if n_labels is not None and len(array) != n_labels:
        raise DataError(f"label_names holds {len(array)} names, but Y has {n_labels} columns.")
    unique, counts = np.unique(array, return_counts=True)
    if (counts > 1).any():
        twice = ", ".join(repr(str(name)) for name in unique[counts > 1][:5])
        raise DataError(f"Label names must be unique, but these occur more than once: {twice}.")
    return array


def _encode_classes(values: NDArray[Any]) -> EncodedLabels:
    """One class per row, as single-label classifiers take it."""
    if values.ndim == 2:
        from sklearn.exceptions import DataConversionWarning  # not above: a model that only answers would wait for it

        warnings.warn(
            "A column-vector y was passed when a 1d array was expected: one class per row is assumed.",
            DataConversionWarning,
            stacklevel=4,
        )
    flat = values.ravel()
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        raise DataError("Input y contains NaN or infinity.")
    if flat.dtype.kind == "f" and (flat != np.round(flat)).any():
        raise DataError("Unknown label type: continuous. A one-dimensional y must hold one class per row.")
    classes, columns = np.unique(flat, return_inverse=True)
    rows = np.arange(len(flat) + 1)
    Y = sparse.csr_array((np.ones(len(flat), np.float32), columns.astype(np.int32), rows), (len(flat), len(classes)))
    return EncodedLabels(Y, classes, "classes")


def is_rows_of_names(Y: Any) -> bool:
    """Whether ``Y`` is a sequence of collections of strings (possibly empty ones)."""
    if isinstance(Y, str) or (not isinstance(Y, (list, tuple)) and not _is_object_array(Y)):
        return False
    if not all(isinstance(row, (list, tuple, set, frozenset, np.ndarray)) for row in Y):
        return False
    return any(len(row) for row in Y) and all(isinstance(name, str) for row in Y for name in row)


def _is_object_array(Y: Any) -> bool:
    return isinstance(Y, np.ndarray) and Y.dtype == object and Y.ndim == 1


def _as_array(Y: Any, name: str) -> NDArray[Any]:
    try:
        return np.asarray(Y)
    except ValueError as error:
        raise DataError(f"{name} must be an indicator matrix, but its rows differ in length.") from error


def _is_binary(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "biuf" and bool(np.isin(values, (0, 1)).all())
