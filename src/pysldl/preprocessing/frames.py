"""Read and make frames of pandas, Polars and Arrow, none of which is imported unless it is used."""

from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse

from pysldl.exceptions import DataError, MissingDependencyError

FRAMES = ("pandas", "polars", "pyarrow")

NUMBERS = (int, float, complex, np.number, np.bool_)


def is_frame(values: Any) -> bool:
    """Whether ``values`` is a table with named columns."""
    return hasattr(values, "columns") and not sparse.issparse(values)


def column_names(frame: Any) -> list[str]:
    """Names of the columns of a data frame."""
    return [str(name) for name in (frame.column_names if hasattr(frame, "column_names") else frame.columns)]


def first_rows(frame: Any, n: int) -> Any:
    """The first rows of a data frame."""
    return frame.head(n) if hasattr(frame, "head") else frame.slice(0, n)  # Arrow


def frame_columns(frame: Any) -> list[tuple[str, list[Any]]]:
    """Names and values of the columns of a data frame."""
    names = column_names(frame)
    if hasattr(frame, "get_columns"):  # Polars
        return [(name, column.to_list()) for name, column in zip(names, frame.get_columns(), strict=True)]
    if hasattr(frame, "column_names"):  # Arrow
        return [(name, column.to_pylist()) for name, column in zip(names, frame.columns, strict=True)]
    return [(name, frame.iloc[:, at].to_list()) for at, name in enumerate(names)]


def library_of(values: Any) -> str | None:
    """The library of a frame or a column: "pandas", "polars" or "pyarrow"; None for all other input."""
    library = type(values).__module__.split(".")[0]
    return library if library in FRAMES else None


def row_index(values: Any, n_rows: int) -> list[Any]:
    """What identifies the rows: the index of pandas, else their numbers."""
    index = getattr(values, "index", None)
    return list(index) if library_of(values) == "pandas" and index is not None else list(range(n_rows))


def make_frame(columns: dict[str, Any], library: str) -> Any:
    """A frame of named columns, of pandas, Polars or Arrow; an error if the library is not installed."""
    if library not in FRAMES:
        raise DataError(f"library must be one of {', '.join(FRAMES)}, but is {library!r}.")
    try:
        module = import_module(library)
    except ImportError:
        raise MissingDependencyError(f"{library} is not installed: pip install {library}.") from None
    return module.table(columns) if library == "pyarrow" else module.DataFrame(columns)


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
