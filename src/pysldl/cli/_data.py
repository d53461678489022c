"""From a word on the command line to rows that a model takes."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pysldl.cli._reading import STANDARD_INPUT, Reading
from pysldl.datasets import Dataset, dataset_info, load_dataset, read_dataset
from pysldl.datasets.readers import detect_format
from pysldl.exceptions import DataError, SLDLError

__all__ = ["choose_rows", "local_file", "read_data"]


def read_data(data: str, reading: Reading | None = None, *, n_features: int | None = None) -> Dataset:
    """The data set of a file, of a name in the catalog, or of standard input (``-``).

    Parameters
    ----------
    data : str
    reading : Reading, optional
    n_features : int, optional
        Columns that a model expects; only svmlight files, which do not say how many they have, need it.
    """
    reading = reading or Reading()
    if not Path(data).is_file() and data != STANDARD_INPUT and (name := _catalog_name(data)) is not None:
        refused = reading.given()
        if refused:
            raise DataError(f"{refused}: {name} is a data set of the catalog, which is read without such options.")
        return load_dataset(name, reading.data_dir)
    with local_file(data) as path:
        options = reading.options()
        format = detect_format(path) if reading.input_format == "auto" else reading.input_format
        if format == "svmlight" and n_features is not None:
            options.setdefault("n_features", n_features)
        return read_dataset(path, format, **options)


def choose_rows(dataset: Dataset, split: str | None, usual: str | None = None) -> tuple[Dataset, str]:
    """The rows of a split and its name; without one, the ``usual`` split where there is one, else all rows."""
    if split is None:
        split = usual if usual is not None and usual in dataset.splits else "all"
    return (dataset, split) if split == "all" else (dataset.split(split), split)


@contextmanager
def local_file(data: str) -> Iterator[Path]:
    """The path ``data``; standard input is put into a temporary file, and errors call it by its name."""
    if data != STANDARD_INPUT:
        path = Path(data)
        if not path.exists():
            raise DataError(f"{data}: no such file, and no data set of that name (see: sldl datasets).")
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stdin")
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield path
        except SLDLError as error:
            raise type(error)(str(error).replace(str(path), "standard input")) from error


def _catalog_name(data: str) -> str | None:
    try:
        return dataset_info(data).name
    except DataError:
        return None
