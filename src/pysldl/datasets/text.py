"""Raw texts with label names: JSON lines, or a CSV table; and texts alone, to predict labels for."""

import csv
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pysldl.datasets.dataset import Dataset
from pysldl.datasets.files import open_text, require_file, stem
from pysldl.exceptions import DataError
from pysldl.preprocessing.labels import indicator_of_names

__all__ = ["read_csv", "read_jsonl", "read_texts"]

USUAL_SPLIT = "split"
USUAL_SEPARATOR = ";"
OTHER_SEPARATORS = (",", "|")
TEXT_FORMATS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "csv", ".txt": "lines"}


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
    return _dataset(path, _csv_records(path, str(text), str(labels), split, separator, delimiter), name)


def read_texts(
    path: str | os.PathLike[str], *, text: str = "text", format: str = "auto", delimiter: str | None = None
) -> list[str]:
    """Read texts that need no labels.

    Parameters
    ----------
    path : path
        ``.gz`` is unpacked on the way.
    text : str
        The field of a JSON object, or the column of a table, that holds the text.
    format : {"auto", "jsonl", "csv", "lines"}
        JSON lines (objects or strings), a table with a header, or one text a line. "auto" goes by the suffix; where
        that does not say it, lines that begin with a brace are JSON.
    delimiter : str, optional
        Stands between two columns of a table, as in :func:`read_csv`.
    """
    path = require_file(path)
    if format == "auto":
        format = TEXT_FORMATS.get(Path(path.name.removesuffix(".gz")).suffix.lower()) or _guess_text_format(path)
    if format == "jsonl":
        texts = [_json_text(record, text, place) for place, record in _json_lines(path)]
    elif format == "csv":
        texts = [row[text] for _, row in _table_rows(path, delimiter, [text])]
    elif format == "lines":
        with open_text(path) as stream:
            texts = [line.rstrip("\r\n") for line in stream]
    else:
        raise DataError(f"{path}: texts are read from jsonl, csv, lines, not from the format {format!r}.")
    if not texts:
        raise DataError(f"{path}: holds no texts.")
    return texts


def _column_delimiter(path: Path, given: str | None) -> str:
    """What stands between two columns of a table: as given, or by the suffix of the file."""
    if given is None:
        return "\t" if path.name.removesuffix(".gz").endswith(".tsv") else ","
    if given in ("tab", "\\t"):  # as written in a shell
        return "\t"
    if not isinstance(given, str) or len(given) != 1 or given in "\r\n":
        raise DataError(f"{path}: delimiter must be one character or the word tab, but is {given!r}.")
    return given


def _guess_text_format(path: Path) -> str:
    with open_text(path) as stream:
        return "jsonl" if stream.readline().lstrip().startswith("{") else "lines"


def _json_lines(path: str | os.PathLike[str]) -> Iterator[tuple[str, Any]]:
    """The value of every line that is not blank, with the place to name in an error."""
    with open_text(path) as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                place = f"{path}, line {number}"
                try:
                    yield place, json.loads(line)
                except ValueError as error:
                    raise DataError(f"{place}: is not JSON ({error}).") from error


def _json_text(record: Any, field: str, place: str) -> str:
    text = record.get(field) if isinstance(record, dict) else record
    if not isinstance(text, str):
        raise DataError(f"{place}: expected a JSON object with a text in {field!r}.")
    return text


def _table_rows(
    path: str | os.PathLike[str], delimiter: str | None, needed: Sequence[str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a table that has the columns ``needed``, with the place to name in an error."""
    with open_text(path) as stream:
        table = csv.DictReader(stream, delimiter=_column_delimiter(Path(path), delimiter), strict=True)
        try:
            columns = table.fieldnames or ()
            for column in needed:
                if column not in columns:
                    raise DataError(
                        f"{path}, line 1: has no column {column!r}; it has {', '.join(map(repr, columns))}."
                    )
            for row in table:
                place = f"{path}, line {table.line_num}"
                if None in row or any(row[column] is None for column in needed):
                    raise DataError(f"{place}: expected {len(columns)} columns as in the header.")
                yield place, row
        except csv.Error as error:
            raise DataError(f"{path}, line {table.line_num + 1}: is not CSV ({error}).") from error


def _json_records(path: str | os.PathLike[str], text: str, labels: str, split: str | None) -> Iterator[_Record]:
    part_field, has_part = USUAL_SPLIT if split is None else str(split), False
    for place, record in _json_lines(path):
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
    path: str | os.PathLike[str],
    text: str,
    labels: str,
    split: str | None,
    separator: str | None,
    delimiter: str | None,
) -> Iterator[_Record]:
    part_column = USUAL_SPLIT if split is None else str(split)
    unseparated: str | None = None
    has_separator = False
    for place, row in _table_rows(path, delimiter, [text, labels, *([] if split is None else [part_column])]):
        written = row[labels]
        has_separator |= USUAL_SEPARATOR in written
        if unseparated is None and any(other in written for other in OTHER_SEPARATORS):
            unseparated = f"{place}: the labels are {written!r}"
        names = [name.strip() for name in written.split(separator or USUAL_SEPARATOR)]
        yield _Record(row[text], [name for name in names if name], row.get(part_column) or None)
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
