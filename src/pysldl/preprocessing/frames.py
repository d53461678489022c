"""Columns of data frames as plain Python lists; works for pandas, Polars and Arrow and imports none of them."""

from typing import Any

import numpy as np
from scipy import sparse

__all__ = ["NUMBERS", "as_column", "frame_columns", "is_frame", "is_missing"]

NUMBERS = (int, float, complex, np.number, np.bool_)


def is_frame(values: Any) -> bool:
    """Whether ``values`` is a table with named columns."""
    return hasattr(values, "columns") and not sparse.issparse(values)


def frame_columns(frame: Any) -> list[tuple[str, list[Any]]]:
    """Names and values of the columns of a data frame."""
    if hasattr(frame, "get_columns"):  # Polars
        return [(str(column.name), column.to_list()) for column in frame.get_columns()]
    return [(str(name), frame.iloc[:, at].to_list()) for at, name in enumerate(frame.columns)]


def as_column(values: Any) -> list[Any] | None:
    """The cells of one column of anything but numbers, as a list; None for all other input.

    Taken are lists, tuples, one-dimensional object or string arrays, Series, and arrays and frames with a single
    column.
    """
    if is_frame(values):
        if len(values.columns) != 1:
            return None
        values = frame_columns(values)[0][1]
    elif isinstance(values, np.ndarray):
        if values.dtype.kind not in "OUST" or (values.ndim != 1 and (values.ndim != 2 or values.shape[1] != 1)):
            return None
        values = values.ravel()
    elif not isinstance(values, (list, tuple)):
        values = _cells_of_series(values)
        if values is None:
            return None
    cells = list(values)
    first = next((cell for cell in cells if not is_missing(cell)), None)
    return None if first is None or isinstance(first, NUMBERS) else cells


def is_missing(value: Any) -> bool:
    """Whether a cell is empty: None, NaN, or what pandas puts in their place."""
    if value is None or (isinstance(value, (float, np.floating)) and value != value):
        return True
    return type(value).__name__ in ("NAType", "NaTType")


def _cells_of_series(values: Any) -> list[Any] | None:
    """Cells of a Series or an Arrow array; None for anything else."""
    for method in ("to_list", "to_pylist"):  # pandas and Polars; Arrow
        if hasattr(values, method) and getattr(values, "ndim", 1) == 1:
            cells: list[Any] = getattr(values, method)()
            return cells
    return None
