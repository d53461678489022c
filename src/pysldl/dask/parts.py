"""Rows in blocks: dask arrays, frames and bags, lists of delayed blocks, and Parquet or Arrow files."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.dask.cluster import require_dask
from pysldl.dask.workspace import gather
from pysldl.datasets.parquet import Columns, Part, list_parts, read_part
from pysldl.exceptions import DataError, SLDLError
from pysldl.preprocessing.features import is_frame
from pysldl.preprocessing.labels import EncodedLabels, as_rows_of_names, encode_labels, name_array

READ_AHEAD = 2  # blocks, of those that are learned one after the other


class Block(NamedTuple):
    """Rows that are in memory together: features or texts, and labels in any form; errors call them ``name``."""

    name: str
    X: Any
    y: Any


class LazyBlock(NamedTuple):
    """Rows that nobody has read yet: a delayed :class:`Block`, and the number of its rows where somebody knows it."""

    name: str
    rows: Any
    n_rows: int | None = None


class Parts:
    """Parquet or Arrow files that are read part by part, by whoever needs the rows."""

    def __init__(self, parts: list[Part], columns: Columns, n_features: int | None = None) -> None:
        self.parts = parts
        self.columns = columns
        self.n_features = n_features

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def n_rows(self) -> int:
        """Rows of all parts."""
        return sum(part.n_rows for part in self.parts)


def read_parts(
    path: str | os.PathLike[str],
    *,
    text: str = "text",
    labels: str = "labels",
    indices: str = "indices",
    values: str = "values",
    n_features: int | None = None,
) -> Parts:
    """Rows of Parquet or Arrow files for :class:`DaskSLDLClassifier`, which reads them part by part.

    Parameters
    ----------
    path : path or pattern
        A file, a folder, or a pattern such as ``"records/*.parquet"``, on a disk that all workers see.
    text, labels : str
        Columns of texts and of lists of label names.
    indices, values : str
        Where there is no column of texts: the features of a row that are not zero, as two lists.
    n_features : int, optional
        Number of features; default: what the files say.

    Returns
    -------
    Parts
    """
    # Only the metadata of the files is read here. Row groups without rows hold nothing to learn from.
    parts = [part for part in list_parts(path) if part.n_rows]
    if not parts:
        raise DataError(f"{path}: holds no rows.")
    return Parts(parts, Columns(str(text), str(labels), str(indices), str(values)), n_features)


def blocks_of(
    X: Any, y: Any = None, *, labels: bool = True, text: str = "text", label_lists: str = "labels"
) -> list[LazyBlock]:
    """``X`` and ``y`` in blocks, in the order of the rows.

    Both are :class:`Parts`, a dask array, DataFrame, Series or bag, or a list of delayed or plain blocks; ``y`` is None
    where ``X`` has columns of labels. ``text`` and ``label_lists`` are columns of frames, or keys of the records of a
    bag, then.
    """
    require_dask()
    from dask import delayed

    read = delayed(_read_block)
    if isinstance(X, Parts):
        return [LazyBlock(str(part), read(part, X.columns, X.n_features, labels), part.n_rows) for part in X.parts]
    pieces = _pieces(X, "X")
    names = [f"block {number}" for number in range(len(pieces))]
    if y is None:
        make = delayed(_from_records)
        return [
            LazyBlock(name, make(name, piece, text, label_lists, labels))
            for name, piece in zip(names, pieces, strict=True)
        ]
    others = _pieces(y, "y")
    if len(pieces) != len(others):
        raise DataError(f"X has {len(pieces)} blocks of rows, but y has {len(others)}: make their partitions the same.")
    make = delayed(_pair)
    return [LazyBlock(name, make(name, *both)) for name, *both in zip(names, pieces, others, strict=True)]


def read_in_order(client: Any, blocks: Sequence[LazyBlock], stage: str) -> Iterator[Block]:
    """Read blocks by the workers, two ahead of whoever takes them, and yield them in their order."""
    ahead: list[Any] = []
    for at, block in enumerate(blocks):
        while len(ahead) < READ_AHEAD and at + len(ahead) < len(blocks):
            ahead.append(client.compute(blocks[at + len(ahead)].rows))
        read: Block = gather(client, stage, [ahead.pop(0)], [block.name])[0]
        yield read


@contextmanager
def named_errors(block: Block) -> Iterator[None]:
    """Make errors within name the block."""
    try:
        yield
    except SLDLError as error:
        if block.name in str(error):
            raise
        raise type(error)(f"{block.name}: {error}") from error
    except (TypeError, ValueError) as error:
        raise DataError(f"{block.name}: {error}") from error


def named_labels(y: Any) -> EncodedLabels | None:
    """Lists of label names as an indicator with the names that occur, sorted; None where ``y`` is no such thing.

    Rows of which none has a label are taken, too.
    """
    if isinstance(y, EncodedLabels):
        return y
    rows = as_rows_of_names(y)
    if rows is not None:
        return encode_labels(rows) if any(rows) else _without_labels(len(rows))
    if isinstance(y, (list, tuple)) and all(isinstance(row, (list, tuple)) and not row for row in y):
        return _without_labels(len(y))
    return None


def labeled_rows(block: Block, known: NDArray[Any]) -> tuple[Any, Any, list[str] | None]:
    """``X``, ``y`` and ``label_names`` of a block, as ``partial_fit`` takes them."""
    encoded = named_labels(block.y)
    if encoded is None:
        return block.X, block.y, None
    names, Y = (encoded.names if len(encoded.names) else known), encoded.Y
    Y = sparse.csr_array((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], len(names)))
    return block.X, Y, names.tolist()


def _without_labels(n_rows: int) -> EncodedLabels:
    return EncodedLabels(sparse.csr_array((n_rows, 0), dtype=np.float32), name_array([]), "names")


def _pieces(values: Any, name: str) -> list[Any]:
    """Delayed or plain blocks of a collection."""
    if hasattr(values, "to_delayed"):
        pieces = values.to_delayed()
        if hasattr(pieces, "ravel"):  # a dask array: blocks by rows and columns
            if pieces.ndim == 2 and pieces.shape[1] != 1:
                raise DataError(
                    f"{name} is cut into {pieces.shape[1]} blocks of columns; rows must be whole: "
                    f"{name}.rechunk({{1: -1}})."
                )
            pieces = pieces.ravel()
        return list(pieces)
    if isinstance(values, Sequence) and not isinstance(values, str) and len(values):
        return list(values)
    raise DataError(
        f"{name} must be read_parts(...), a dask array, frame or bag, or a list of blocks, but is a "
        f"{type(values).__name__}."
    )


def _read_block(part: Part, columns: Columns, n_features: int | None, labels: bool) -> Block:
    rows = read_part(part, columns, labels=labels, n_features=n_features)
    return Block(str(part), rows.X if rows.texts is None else rows.texts, rows.labels)


def _pair(name: str, X: Any, y: Any) -> Block:
    return Block(name, _plain(X), _plain(y))


def _from_records(name: str, piece: Any, text: str, label_lists: str, labels: bool) -> Block:
    """A block of a frame, or of a bag of records, with texts and labels among its columns."""
    if is_frame(piece):
        _require_columns(name, [str(column) for column in piece.columns], [text, *([label_lists] if labels else [])])
        rows = list(piece[label_lists]) if labels else None
        if rows and isinstance(rows[0], str):
            raise DataError(
                f"{name}: column {label_lists!r} holds texts such as {rows[0][:60]!r}, not lists of labels. Dask turns "
                'lists into texts unless dask.config.set({"dataframe.convert-string": False}) comes before.'
            )
        return Block(name, list(piece[text]), rows)
    piece = _plain(piece)
    if isinstance(piece, list) and piece and isinstance(piece[0], dict):
        _require_columns(name, list(piece[0]), [text, *([label_lists] if labels else [])])
        return Block(name, [row[text] for row in piece], [row[label_lists] for row in piece] if labels else None)
    if labels:
        raise DataError(f"{name}: without y, X must be a frame or a bag of records with a column {label_lists!r}.")
    return Block(name, piece, None)


def _require_columns(name: str, there: list[str], wanted: list[str]) -> None:
    for column in wanted:
        if column not in there:
            raise DataError(f"{name}: has no column {column!r}; it has {', '.join(map(repr, there))}.")


def _plain(values: Any) -> Any:
    """A block as the estimators take it: partitions of bags may be iterators, columns of frames are Series."""
    if hasattr(values, "to_list"):
        return values.to_list()
    if hasattr(values, "shape") or isinstance(values, (list, tuple)):
        return values
    return list(values)
