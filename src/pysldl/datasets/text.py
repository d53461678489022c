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
from pysldl.preprocessing.labels import indicator_of_names

__all__ = ["read_csv", "read_jsonl"]


USUAL_SPLIT = "split"
USUAL_SEPARATOR = ";"
OTHER_SEPARATORS = (",", "|")


class _Record(NamedTuple):
    text: str
    labels: list[str]
    split: str | None


def read_jsonl(
    path: str | os.PathLike[str],
    *,
    text: str = "text",
    labels: str = "labels",
    split: str | None = None,
    name: str | None = None,
) -> Dataset:
    """Read JSON lines: an object a line, with a text and a list of label names.

    Parameters
    ----------
    path : path
        ``.gz`` is unpacked on the way.
    text, labels : str
        The fields that hold them.
    split : str, optional
        The field that holds the split. Default: "split", which need not be there.
    name : str, optional
        Default: the file's.
    """
    return _dataset(path, _json_records(path, str(text), str(labels), split), name)


def read_csv(
    path: str | os.PathLike[str],
    *,
    text: str = "text",
    labels: str = "labels",
    split: str | None = None,
    separator: str | None = None,
    delimiter: str | None = None,
    name: str | None = None,
) -> Dataset:
    """Read a table with a header, a column of texts and one of label names.

    Parameters
    ----------
    path : path
        ``.gz`` is unpacked on the way.
    text, labels : str
        The columns that hold them.
    split : str, optional
        The column that holds the split. Default: "split", which need not be there.
    separator : str, optional
        Stands between two labels of a row. Default: a semicolon. Where no row has one, and labels contain commas or
        bars, it must be given.
    delimiter : str, optional
        Stands between two columns, one character or ``"tab"``. Default: a tab in ``.tsv`` files, a comma in all others.
    name : str, optional
        Default: the file's.
    """
    if separator is not None and (not isinstance(separator, str) or not separator):
        raise DataError(f"{path}: separator must be the text between two labels, such as ';', but is {separator!r}.")
    delimiter = column_delimiter(Path(path), delimiter)
    return _dataset(path, _csv_records(path, str(text), str(labels), split, separator, delimiter), name)


def column_delimiter(path: Path, given: str | None) -> str:
    """What stands between two columns of a table: as given, or by the suffix of the file."""
    if given is None:
        return "\t" if path.name.removesuffix(".gz").endswith(".tsv") else ","
    if given in ("tab", "\\t"):  # as written in a shell
        return "\t"
    if not isinstance(given, str) or len(given) != 1 or given in "\r\n":
        raise DataError(f"{path}: delimiter must be one character or the word tab, but is {given!r}.")
    return given


def _json_records(path: str | os.PathLike[str], text: str, labels: str, split: str | None) -> Iterator[_Record]:
    part_field, has_part = USUAL_SPLIT if split is None else str(split), False
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
            part = record.get(part_field)
            if part is not None and not isinstance(part, str):
                raise DataError(f"{place}: field {part_field!r} must be a string.")
            has_part |= part is not None
            yield _Record(record[text], names, part)
    if split is not None and not has_part:
        raise DataError(f"{path}: no line has a field {part_field!r} to read the split from.")


def _csv_records(
    path: str | os.PathLike[str], text: str, labels: str, split: str | None, separator: str | None, delimiter: str
) -> Iterator[_Record]:
    part_column = USUAL_SPLIT if split is None else str(split)
    unseparated: str | None = None
    has_separator = False
    with open_text(path) as stream:
        table = csv.DictReader(stream, delimiter=delimiter, strict=True)
        try:
            columns = table.fieldnames or ()
            for column in (text, labels, *([] if split is None else [part_column])):
                if column not in columns:
                    raise DataError(
                        f"{path}, line 1: has no column {column!r}; it has {', '.join(map(repr, columns))}."
                    )
            for row in table:
                if row[text] is None or row[labels] is None or None in row:
                    raise DataError(f"{path}, line {table.line_num}: expected {len(columns)} columns as in the header.")
                written = row[labels]
                has_separator |= USUAL_SEPARATOR in written
                if unseparated is None and any(other in written for other in OTHER_SEPARATORS):
                    unseparated = f"{path}, line {table.line_num}: the labels are {written!r}"
                names = [name.strip() for name in written.split(separator or USUAL_SEPARATOR)]
                yield _Record(row[text], [name for name in names if name], row.get(part_column) or None)
        except csv.Error as error:
            raise DataError(f"{path}, line {table.line_num + 1}: is not CSV ({error}).") from error
    if separator is None and unseparated is not None and not has_separator:
        raise DataError(
            f"{unseparated}, and no row has a {USUAL_SEPARATOR!r} between labels. Say what separates them: "
            f"separator=',' (in the shell: --read separator=,), or separator={USUAL_SEPARATOR!r} if this is one label."
        )


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
