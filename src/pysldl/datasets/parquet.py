"""Parquet, Arrow and Feather files, whole or in parts: texts or sparse features, and lists of label names."""

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from pysldl._utils.files import open_atomic
from pysldl.backend.dispatch import as_int32_indices
from pysldl.datasets.dataset import Dataset
from pysldl.datasets.files import check_unpacked, require_file, stem
from pysldl.exceptions import DataError, MissingDependencyError
from pysldl.preprocessing.labels import EncodedLabels, join_encoded, name_array

ARROW_SUFFIXES = (".parquet", ".pq", ".arrow", ".feather")
PARQUET_SUFFIXES = (".parquet", ".pq")
WILDCARDS = "*?["
N_FEATURES = b"pysldl.n_features"  # key of the metadata of files that this library writes
USUAL_SPLIT = "split"
ROWS_AT_ONCE = 1024  # of a part, after which its size in memory is looked at
MOST_FEATURES = np.iinfo(np.int32).max


class Columns(NamedTuple):
    """Which columns hold what; ``indices`` and ``values``, where there is no text, list the features that are not 0."""

    text: str = "text"
    labels: str = "labels"
    indices: str = "indices"
    values: str = "values"


class Part(NamedTuple):
    """A piece of a file that is read at once: a row group of Parquet, a record batch of Arrow."""

    path: str
    number: int
    n_rows: int

    def __str__(self) -> str:
        return f"{self.path}, row group {self.number}"


class PartRows(NamedTuple):
    """The rows of a part: either texts or features, and labels, with sorted names, where they were asked for."""

    texts: list[str] | None
    X: sparse.csr_array | None
    labels: EncodedLabels | None
    split: list[str | None] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if self.texts is not None:
            return len(self.texts)
        return 0 if self.X is None else int(self.X.shape[0])


def is_arrow_path(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a Parquet or Arrow file by its name, a folder with such files, or a pattern for them."""
    text = os.fspath(path)
    if any(mark in text for mark in WILDCARDS):
        return text.lower().endswith((*ARROW_SUFFIXES, "*"))
    if Path(text).is_dir():
        return any(_is_part(entry) for entry in Path(text).iterdir())
    return text.lower().endswith(ARROW_SUFFIXES)


def list_parts(path: str | os.PathLike[str]) -> list[Part]:
    """Return the parts of a file, of all files of a folder, or of all that match a pattern, in the order of the names.

    Of a folder, files whose names begin with a dot or an underscore are left out.
    """
    return [part for file in _files(path) for part in _parts_of(file)]


def has_texts(part: Part, columns: Columns) -> bool:
    """Whether the file of a part has a column of texts; else it holds features."""
    with _open(part.path) as file:
        return columns.text in file.names


def read_part(
    part: Part, columns: Columns | None = None, *, labels: bool = True, n_features: int | None = None
) -> PartRows:
    """Read one part; a ``DataError`` that names it where it is damaged, or lacks a column, a type or a cell.

    Without ``labels`` the file need not have any. An index beyond ``n_features`` is an error; by default it is what the
    file says, or one more than the largest index.
    """
    columns = columns or Columns()
    with _open(part.path) as file:
        names = set(file.names)
        takes_text = columns.text in names
        wanted = [columns.text] if takes_text else [columns.indices, columns.values]
        wanted += [columns.labels] if labels else []
        for name in wanted:
            if file.names.count(name) > 1:
                raise DataError(f"{part.path}: has {file.names.count(name)} columns {name!r}.")
            if name not in names:
                there = ", ".join(map(repr, file.names)) or "none"
                expected = f"{columns.text!r}" if name == columns.indices else f"{name!r}"
                raise DataError(f"{part.path}: has no column {expected}; it has {there}.")
        has_split = file.names.count(USUAL_SPLIT) == 1
        table = file.read(part, [*wanted, *([USUAL_SPLIT] if has_split and USUAL_SPLIT not in wanted else [])])
        said = (file.schema.metadata or {}).get(N_FEATURES)
    if n_features is None and said is not None:
        if not said.isdigit() or len(said) > len(str(MOST_FEATURES)) or int(said) > MOST_FEATURES:
            raise DataError(f"{part.path}: says that it has {said[:20]!r} features, which is no number of columns.")
        n_features = int(said)
    return PartRows(
        _texts(table[columns.text], part, columns.text) if takes_text else None,
        None if takes_text else _features(table, part, columns, n_features),
        _labels(table[columns.labels], part, columns.labels) if labels else None,
        _splits(table[USUAL_SPLIT], part) if has_split else None,
    )


def read_parquet(
    path: str | os.PathLike[str],
    *,
    text: str = "text",
    labels: str = "labels",
    indices: str = "indices",
    values: str = "values",
    n_features: int | None = None,
    name: str | None = None,
) -> Dataset:
    """Read Parquet, Arrow or Feather: a file, all files of a folder, or all that match a pattern.

    Parameters
    ----------
    path : path or pattern
        See :func:`list_parts`.
    text : str
        The column of texts.
    labels : str
        The column of label names, a list of strings in each row.
    indices, values : str
        Where there is no column of texts: the features of a row that are not zero, as two lists.
    n_features : int, optional
        Number of features; default: what the file says, or one more than the largest index.
    name : str, optional
        Default: that of the file or folder.
    """
    columns = Columns(str(text), str(labels), str(indices), str(values))
    read = [read_part(part, columns, n_features=n_features) for part in list_parts(path)]
    if not any(part.n_rows for part in read):
        raise DataError(f"{path}: holds no rows.")
    encoded = join_encoded([part.labels for part in read if part.labels is not None])
    if not len(encoded.names):
        raise DataError(f"{path}: no row has a label.")
    blocks = [part.X for part in read if part.X is not None]
    if blocks and len(blocks) != len(read):
        raise DataError(f"{path}: some of its files have a column {columns.text!r}, others have none.")
    width = max((block.shape[1] for block in blocks), default=0)
    for block in blocks:
        block.resize((block.shape[0], width))
    split = [where for part in read for where in part.split or [None] * part.n_rows]
    return Dataset(
        name or stem(Path(os.fspath(path))).strip("*") or Path(os.fspath(path)).parent.name,
        sparse.vstack(blocks, format="csr") if blocks else None,
        encoded.Y,
        encoded.names,
        splits={
            key: np.array([row for row, where in enumerate(split) if where == key])
            for key in dict.fromkeys(split)
            if key is not None
        },
        texts=None if blocks else [cell for part in read for cell in part.texts or []],
    )


def write_parquet(dataset: Dataset, path: str | os.PathLike[str], *, rows_per_part: int | None = None) -> list[Path]:
    """Write a data set as Parquet, each file atomically.

    Parameters
    ----------
    dataset : Dataset
        Texts are written where there are any, else features.
    path : path
        A file ``.parquet``; with ``rows_per_part`` a folder, which is made, for ``part-00000.parquet`` and so on.
    rows_per_part : int, optional
        Rows of each file of a folder. Default: all in one file.

    Returns
    -------
    list of Path
        The files written.
    """
    path = Path(path)
    if rows_per_part is None:
        return [_write_rows(dataset, path)]
    path.mkdir(parents=True, exist_ok=True)
    starts = range(0, dataset.n_samples, rows_per_part)
    split = np.full(dataset.n_samples, None, dtype=object)
    for key, rows in dataset.splits.items():
        split[rows] = key
    written = []
    for number, start in enumerate(starts):
        rows = np.arange(start, min(start + rows_per_part, dataset.n_samples))
        target = path / f"part-{number:05d}.parquet"
        written.append(_write_rows(dataset.subset(rows), target, split[rows].tolist() if dataset.splits else None))
    return written


def _write_rows(dataset: Dataset, path: Path, split: Sequence[str | None] | None = None) -> Path:
    pa, parquet = _pyarrow(), _pyarrow_parquet()
    if split is None and dataset.splits:
        where = np.full(dataset.n_samples, None, dtype=object)
        for key, rows in dataset.splits.items():
            where[rows] = key
        split = where.tolist()
    table: dict[str, Any] = {}
    metadata = {}
    if dataset.texts is not None:
        table["text"] = pa.array(dataset.texts, pa.string())
    else:
        X = sparse.csr_array(dataset.X)
        table["indices"] = _list_array(X.indptr, pa.array(X.indices.astype(np.int32)))
        table["values"] = _list_array(X.indptr, pa.array(X.data.astype(np.float32)))
        metadata[N_FEATURES] = str(X.shape[1]).encode()
    names = pa.array(dataset.label_names[dataset.Y.indices].tolist(), pa.string())
    table["labels"] = _list_array(dataset.Y.indptr, names)
    if split is not None:
        table[USUAL_SPLIT] = pa.array(split, pa.string())
    with open_atomic(path) as stream:
        parquet.write_table(pa.table(table).replace_schema_metadata(metadata or None), stream, write_page_checksum=True)
    return path


def _list_array(indptr: Any, values: Any) -> Any:
    pa = _pyarrow()
    return pa.LargeListArray.from_arrays(pa.array(np.asarray(indptr, dtype=np.int64)), values)


def _files(path: str | os.PathLike[str]) -> list[Path]:
    text = os.fspath(path)
    if not Path(text).exists() and any(mark in text for mark in WILDCARDS):
        found = [Path(name) for name in sorted(glob.glob(text)) if Path(name).is_file()]  # noqa: PTH207
        if not found:
            raise DataError(f"{text}: no file matches this pattern.")
        return [require_file(file) for file in found]
    if Path(text).is_dir():
        found = sorted(entry for entry in Path(text).iterdir() if _is_part(entry))
        if not found:
            raise DataError(f"{text}: the folder holds no file that ends in {', '.join(ARROW_SUFFIXES)}.")
        return [require_file(file) for file in found]
    return [require_file(text)]


def _is_part(entry: Path) -> bool:
    return entry.suffix.lower() in ARROW_SUFFIXES and not entry.name.startswith((".", "_"))


def _parts_of(path: Path) -> list[Part]:
    with _open(str(path)) as file, file.errors(f"{path}"):
        return [Part(str(path), number, n_rows) for number, n_rows in enumerate(file.sizes())]


class _open:  # noqa: N801  # a context manager that is called like a function
    """A Parquet or Arrow file: its schema, the rows of its parts, and a part as a table."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_parquet = path.lower().endswith(PARQUET_SUFFIXES)

    def __enter__(self) -> "_open":
        pa = _pyarrow()
        require_file(self.path)
        kind = "Parquet" if self.is_parquet else "Arrow"
        with self.errors(self.path, f"is not a whole {kind} file"):
            # Not mapped: a file whose offsets lie beyond its end would end the process.
            self.source = pa.OSFile(self.path)
            if self.is_parquet:
                self.file = _pyarrow_parquet().ParquetFile(self.source, page_checksum_verification=True)
                self.schema = self.file.schema_arrow
            else:
                self.file = pa.ipc.open_file(self.source)
                self.schema = self.file.schema
            self.names: list[str] = list(self.schema.names)
        return self

    def __exit__(self, *_: object) -> None:
        self.source.close()

    @contextmanager
    def errors(self, where: str, problem: str = "is damaged") -> Iterator[None]:
        """Turn what pyarrow raises on damaged files into one error of the library."""
        try:
            yield
        except (_pyarrow().ArrowException, OSError, LookupError, ValueError, SystemError, MemoryError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{where}: {problem} ({_first_line(error)}).") from error

    def sizes(self) -> Iterator[int]:
        """Rows of each part."""
        if self.is_parquet:
            metadata = self.file.metadata
            return (metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
        return (self.file.get_batch(number).num_rows for number in range(self.file.num_record_batches))

    def read(self, part: Part, names: list[str]) -> Any:
        """Some columns of a part, every offset and every text of them checked.

        They may be many times larger than in the file, but not out of all proportion.
        """
        pa = _pyarrow()
        with self.errors(str(part)):
            if self.is_parquet:
                self._check_size(part)
                batches = self.file.iter_batches(ROWS_AT_ONCE, row_groups=[part.number], columns=names)
            else:
                batches = iter([self.file.get_batch(part.number).select(names)])
            read, n_bytes = [], 0
            for batch in batches:
                batch.validate(full=True)
                n_bytes += batch.nbytes
                check_unpacked(Path(self.path), n_bytes)
                read.append(batch)
        n_rows = sum(batch.num_rows for batch in read)
        if n_rows != part.n_rows:
            raise DataError(
                f"{part}: has {n_rows} rows, but had {part.n_rows} before. Leave files as they are meanwhile."
            )
        return pa.Table.from_batches(read) if read else self.schema.empty_table().select(names)

    def _check_size(self, part: Part) -> None:
        """Refuse what is too large by the file's own word, before anything is unpacked."""
        # Not column by column: pyarrow ends the process where the entry of one is damaged.
        check_unpacked(Path(self.path), self.file.metadata.row_group(part.number).total_byte_size)


def _texts(column: Any, part: Part, name: str) -> list[str]:
    pa = _pyarrow()
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise DataError(f"{part}: column {name!r} must hold texts, but its type is {column.type}.")
    _refuse_nulls(column, part, name, "write '' for a row without text")
    texts: list[str] = column.to_pylist()
    return texts


def _splits(column: Any, part: Part) -> list[str | None]:
    pa = _pyarrow()
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
        raise DataError(f"{part}: column {USUAL_SPLIT!r} must hold texts, but its type is {column.type}.")
    found: list[str | None] = column.to_pylist()
    return found


def _labels(column: Any, part: Part, name: str) -> EncodedLabels:
    """Lists of names as an indicator: each name becomes a text of Python once, however often it occurs."""
    pa = _pyarrow()
    inner = getattr(column.type, "value_type", None) if _is_list(column.type) else None
    if inner is not None and pa.types.is_dictionary(inner):
        inner = inner.value_type
    if inner is None or not (pa.types.is_string(inner) or pa.types.is_large_string(inner) or pa.types.is_null(inner)):
        raise DataError(f"{part}: column {name!r} must hold lists of strings, but its type is {column.type}.")
    _refuse_nulls(column, part, name, "write an empty list for a row without labels")
    sizes = pa.compute.list_value_length(column).to_numpy().astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    flat = pa.compute.list_flatten(column).combine_chunks()
    if flat.null_count:
        first = int(np.flatnonzero(flat.is_null().to_numpy(zero_copy_only=False))[0])
        row = int(np.searchsorted(indptr, first, side="right")) - 1
        raise DataError(f"{part}, row {row}: a label in column {name!r} is empty.")
    if not len(flat):
        return EncodedLabels(sparse.csr_array((len(sizes), 0), dtype=np.float32), name_array([]), "names")
    if not pa.types.is_dictionary(flat.type):
        flat = flat.dictionary_encode()
    found: list[str] = flat.dictionary.to_pylist()
    names = sorted(set(found))  # a dictionary of a file may have a name twice, or one that no row has
    place = {known: column for column, known in enumerate(names)}
    columns = np.array([place[known] for known in found], dtype=np.int32)[flat.indices.to_numpy()]
    Y = sparse.csr_array((np.ones(len(columns), np.float32), columns, indptr), shape=(len(sizes), len(names)))
    Y.sum_duplicates()
    Y.data[:] = 1
    used = np.bincount(Y.indices, minlength=len(names)) > 0
    if not used.all():
        Y, names = Y[:, used], [known for known, is_used in zip(names, used.tolist(), strict=True) if is_used]
    if not all(known.strip() for known in names):
        raise DataError(f"{part}: a label in column {name!r} is an empty text; leave it out.")
    return EncodedLabels(as_int32_indices(Y), name_array(names), "names")


def _features(table: Any, part: Part, columns: Columns, n_features: int | None) -> sparse.csr_array:
    pa = _pyarrow()
    flat = []
    for name, fits in ((columns.indices, pa.types.is_integer), (columns.values, _is_number)):
        column = table[name]
        if not _is_list(column.type) or not fits(column.type.value_type):
            wanted = "integers" if name == columns.indices else "numbers"
            raise DataError(f"{part}: column {name!r} must hold lists of {wanted}, but its type is {column.type}.")
        _refuse_nulls(column, part, name, "write an empty list for a row without features")
        sizes = pa.compute.list_value_length(column).to_numpy().astype(np.int64)
        values = pa.compute.list_flatten(column)
        if values.null_count:
            raise DataError(f"{part}: column {name!r} has an empty value within a list.")
        flat.append((sizes, values.to_numpy()))
    (sizes, indices), (value_sizes, values) = flat
    if not np.array_equal(sizes, value_sizes):
        row = int(np.flatnonzero(sizes != value_sizes)[0])
        raise DataError(
            f"{part}, row {row}: has {sizes[row]} {columns.indices!r}, but {value_sizes[row]} {columns.values!r}."
        )
    largest = int(indices.max(initial=-1))
    width = largest + 1 if n_features is None else n_features
    if indices.min(initial=0) < 0 or largest >= width:
        raise DataError(f"{part}: column {columns.indices!r} holds {largest}, but there are {width} features.")
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    index_type = np.int32 if max(width, indptr[-1]) < np.iinfo(np.int32).max else np.int64
    X = sparse.csr_array(
        (values.astype(np.float32), indices.astype(index_type), indptr.astype(index_type)), shape=(len(sizes), width)
    )
    X.sum_duplicates()
    if not np.isfinite(X.data).all():
        raise DataError(f"{part}: column {columns.values!r} holds a value that is missing or infinite.")
    return X


def _refuse_nulls(column: Any, part: Part, name: str, advice: str) -> None:
    if column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise DataError(f"{part}, row {row}: column {name!r} is empty; {advice}.")


def _is_list(kind: Any) -> bool:
    pa = _pyarrow()
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_number(kind: Any) -> bool:
    pa = _pyarrow()
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).split("\n")[0].rstrip(".")


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
    except ImportError as error:
        raise MissingDependencyError('Parquet and Arrow files need pyarrow: pip install "pysldl[arrow]".') from error
    return pyarrow


def _pyarrow_parquet() -> Any:
    _pyarrow()
    import pyarrow.parquet

    return pyarrow.parquet
