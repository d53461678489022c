"""Features in any form: frames and columns of pandas, Polars and Arrow, canonical sparse rows, dense vectors.

No library of frames is imported unless it is used.
"""

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.linear_algebra import as_dense, l2_normalize, unit_vectors
from pysldl.exceptions import DataError, MissingDependencyError

MOSTLY = 0.5

FRAMES = ("pandas", "polars", "pyarrow")

NUMBERS = (int, float, complex, np.number, np.bool_)


def canonical_rows(X: Any) -> Any:
    """Sort the columns of each sparse row and add up duplicate entries; dense rows are returned unchanged.

    The caller's arrays are not modified and may be read-only.

    Examples
    --------
    >>> rows = sparse.csr_array((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    >>> canonical_rows(rows).toarray(), rows.nnz
    (array([[2., 0., 4.]]), 3)
    """
    if not sparse.issparse(X) or X.format != "csr":
        return X
    if X.shape[0] == 1 and (X.indices[1:] > X.indices[:-1]).all():
        return X
    # Asked of a new matrix over the same arrays: what a matrix says about itself may be out of date.
    rows = type(X)((X.data, X.indices, X.indptr), shape=X.shape, copy=False)
    if rows.has_canonical_format:
        return X
    rows = rows.copy()
    rows.sum_duplicates()
    return rows


def is_mostly_dense(X: Any) -> bool:
    """Whether more than half of the values are nonzero, so that centering loses no sparsity."""
    n_filled = X.count_nonzero() if sparse.issparse(X) else np.count_nonzero(X)
    return bool(X.shape[1] > 1 and n_filled > MOSTLY * X.shape[0] * X.shape[1])


def column_scales(X: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and deviation of every feature by scikit-learn's ``StandardScaler``, (n_features,) each."""
    from sklearn.preprocessing import StandardScaler  # not above: a model that only answers has its scales

    scaler = StandardScaler().fit(as_dense(X, None))
    return scaler.mean_.astype(np.float32), scaler.scale_.astype(np.float32)


def standardized(X: Any, means: NDArray[Any], scales: NDArray[Any] | None) -> NDArray[Any]:
    """``(X - means) / scales``, dense of shape (n_rows, n_features)."""
    rows = as_dense(X, None)
    return np.asarray((rows - means.astype(rows.dtype)) / (1 if scales is None else scales.astype(rows.dtype)))


def as_dense_rows(dense: Any, n_rows: int) -> NDArray[np.float32]:
    """Convert dense vectors (array, frame of numbers, or column of vectors) to float32, (n_rows, n_dense).

    Raises a ``DataError`` if there are not exactly ``n_rows`` rows.

    Examples
    --------
    >>> as_dense_rows([[1, 2], [3, 4]], 2).dtype
    dtype('float32')
    """
    if sparse.issparse(dense):
        raise DataError("dense must be a dense array; sparse features belong into X.")
    cells = as_column(dense)
    try:
        rows = np.asarray(dense if cells is None else [np.asarray(cell) for cell in cells], dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"dense must hold one vector of numbers per row, all of one length: {error}") from None
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise DataError(f"dense must have the shape (n_samples, n_dense), but has {rows.shape}.")
    if rows.shape[0] != n_rows:
        raise DataError(f"dense has {rows.shape[0]} rows, but X has {n_rows}.")
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise DataError(f"Row {int(np.argmin(finite))} of dense holds a number that is not finite.")
    return rows


def require_dense(dense: Any, n_rows: int, n_dense: int) -> NDArray[np.float32]:
    """Return the vectors of new rows for a model that was fitted with ``n_dense`` columns of them, 0 for none."""
    if dense is None:
        raise DataError(
            f"This model was fitted with dense vectors beside X: pass dense=, of shape (n_samples, {n_dense}), for "
            "these rows, too. A model for the command line or the service is fitted without them."
        )
    if not n_dense:
        raise DataError("dense= was passed, but this model was fitted without.")
    rows = as_dense_rows(dense, n_rows)
    if rows.shape[1] != n_dense:
        raise DataError(f"dense has {rows.shape[1]} columns, but the model was fitted with {n_dense}.")
    return rows


def append_dense(X: Any, dense: NDArray[np.float32]) -> Any:
    """Append dense vectors to the features as their last columns; both parts are scaled to rows of length 1.

    The result has the form (dense or CSR) and precision of ``X`` and the shape (n_rows, n_features + n_dense). In CSR a
    vector takes eight bytes per number, twelve in double precision.
    """
    vectors = unit_vectors(dense).astype(X.dtype, copy=False)
    if not sparse.issparse(X):
        return np.hstack([l2_normalize(X), vectors])
    return sparse.csr_array(sparse.hstack([l2_normalize(X), sparse.csr_array(vectors)], format="csr"))


def split_dense(X: sparse.csr_array, n_dense: int) -> tuple[sparse.csr_array, NDArray[np.float32]]:
    """Split the features that :func:`append_dense` joined into their two parts."""
    first = X.shape[1] - n_dense
    return sparse.csr_array(X[:, :first]), X[:, first:].toarray().astype(np.float32)


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


def first_missing(X: Any) -> tuple[int, int]:
    """Row and column of the first NaN of a matrix or a frame of numbers that holds one.

    Examples
    --------
    >>> first_missing([[1.0, 2.0], [3.0, float("nan")]])
    (1, 1)
    """
    if sparse.issparse(X):
        cells = sparse.coo_array(sparse.csr_array(X))
        at = int(np.argmax(np.isnan(cells.data)))
        return int(cells.row[at]), int(cells.col[at])
    if is_frame(X):
        missing = np.array([list(map(is_missing, cells)) for _, cells in frame_columns(X)]).T
    else:
        missing = np.isnan(np.asarray(X, dtype=np.float64))
    row, column = np.argwhere(missing)[0]
    return int(row), int(column)


def _cells_of_series(values: Any) -> list[Any] | None:
    """Cells of a Series or an Arrow array; None for anything else."""
    for method in ("to_list", "to_pylist"):  # pandas and Polars; Arrow
        if hasattr(values, method) and getattr(values, "ndim", 1) == 1:
            cells: list[Any] = getattr(values, method)()
            return cells
    return None
