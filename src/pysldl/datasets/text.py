"""Raw texts with label names: JSON lines, or a CSV table."""

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pysldl.datasets.dataset import Dataset
from pysldl.datasets.files import open_text, stem
from pysldl.exceptions import DataError
from pysldl.labels import indicator_of_names

__all__ = ["read_csv", "read_jsonl"]


class _Record(NamedTuple):
    text: str
    labels: list[str]
    split: str | None


def read_jsonl(
    path: str | os.PathLike[str],
    *,
    text: str = "text",
    labels: str = "labels",
    split: str = "split",
    name: str | None = None,
) -> Dataset:
    """Read JSON lines: an object a line, with a text and a list of label names.

    Parameters
    ----------
    path : path
        ``.gz`` is unpacked on the way.
    text, labels, split : str
        The fields that hold them. The split is optional.
    name : str, optional
        Default: the file's.
    """
    return _dataset(path, _json_records(path, text, labels, split), name)


def read_csv(
    path: str | os.PathLike[str],
    *,
    text: str = "text",
    labels: str = "labels",
    split: str = "split",
    separator: str = ";",
    delimiter: str | None = None,
    name: str | None = None,
) -> Dataset:
    """Read a table with a header, a column of texts and one of label names.

    Parameters
    ----------
    path : path
        ``.gz`` is unpacked on the way.
    text, labels, split : str
        The columns that hold them. The split is optional.
    separator : str
        Stands between two labels of a row.
    delimiter : str, optional
        Stands between two columns. Default: a tab in ``.tsv`` files, a comma in all others.
    name : str, optional
        Default: the file's.
    """
    if delimiter is None:
        delimiter = "\t" if Path(path).name.removesuffix(".gz").endswith(".tsv") else ","
    return _dataset(path, _csv_records(path, text, labels, split, separator, delimiter), name)


def _json_records(path: str | os.PathLike[str], text: str, labels: str, split: str) -> Iterator[_Record]:
    with open_text(path) as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            place = f"{path}, line {number}"
            try:
                record = json.loads(line)
            except ValueError as error:
                raise DataError(f"{place}: is not JSON ({error}).") from error
            if not isinstance(record, dict):
                raise DataError(f"{place}: expected a JSON object, found {type(record).__name__}.")
            for key in (text, labels):
                if key not in record:
                    raise DataError(f"{place}: has no field {key!r}; it has {', '.join(map(repr, record))}.")
            if not isinstance(record[text], str):
                raise DataError(f"{place}: field {text!r} must be a string.")
            names = record[labels]
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise DataError(f"{place}: field {labels!r} must be a list of strings.")
            part = record.get(split)
            if part is not None and not isinstance(part, str):
                raise DataError(f"{place}: field {split!r} must be a string.")
            yield _Record(record[text], names, part)


def _csv_records(
    path: str | os.PathLike[str], text: str, labels: str, split: str, separator: str, delimiter: str
) -> Iterator[_Record]:
    with open_text(path) as stream:
        table = csv.DictReader(stream, delimiter=delimiter, strict=True)
        try:
            columns = table.fieldnames or ()
            for column in (text, labels):
                if column not in columns:
                    raise DataError(
                        f"{path}, line 1: has no column {column!r}; it has {', '.join(map(repr, columns))}."
                    )
            for row in table:
                if row[text] is None or row[labels] is None or None in row:
                    raise DataError(f"{path}, line {table.line_num}: expected {len(columns)} columns as in the header.")
                names = [name.strip() for name in row[labels].split(separator)]
                yield _Record(row[text], [name for name in names if name], row.get(split) or None)
        except csv.Error as error:
            raise DataError(f"{path}, line {table.line_num + 1}: is not CSV ({error}).") from error


def _dataset(path: str | os.PathLike[str], records: Iterator[_Record], name: str | None) -> Dataset:
    texts, rows, parts = [], [], []
    for record in records:
        texts.append(record.text)
        rows.append(record.labels)
        parts.append(record.split)
    if not texts:
        raise DataError(f"{path}: holds no rows.")
    names = np.array(sorted({label for row in rows for label in row}), dtype=np.str_)
    if not len(names):
        raise DataError(f"{path}: no row has a label.")
    splits = {
        part: np.array([row for row, its in enumerate(parts) if its == part])
        for part in dict.fromkeys(parts)
        if part is not None
    }
    return Dataset(name or stem(Path(path)), None, indicator_of_names(rows, names), names, splits=splits, texts=texts)
