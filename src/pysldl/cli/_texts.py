"""Texts to predict for, which need no labels."""

import csv
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from pysldl.datasets.files import open_text, require_file
from pysldl.datasets.text import column_delimiter
from pysldl.exceptions import DataError

__all__ = ["read_texts"]

FORMAT_OF_SUFFIX = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "csv", ".txt": "lines"}


def read_texts(path: Path, *, field: str = "text", format: str = "auto", delimiter: str | None = None) -> list[str]:
    """The texts of a file.

    Parameters
    ----------
    path : Path
        ``.gz`` is unpacked on the way.
    field : str
        The field of a JSON object, or the column of a table, that holds the text.
    format : {"auto", "jsonl", "csv", "lines"}
        JSON lines, a table with a header, or one text a line. "auto" goes by the suffix, and where that does not say it
        takes lines that begin with a brace as JSON.
    delimiter : str, optional
        Stands between two columns of a table; see :func:`~pysldl.datasets.text.read_csv`.
    """
    require_file(path)
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if format == "auto":
        format = FORMAT_OF_SUFFIX.get(suffix, "") or _guess(path)
    readers: dict[str, Any] = {"jsonl": _of_json_lines, "csv": _of_table, "lines": _of_lines}
    if delimiter is not None and format == "csv":
        readers["csv"] = partial(_of_table, delimiter=delimiter)
    if format not in readers:
        raise DataError(f"{path}: texts are read from {', '.join(readers)}, not from the format {format!r}.")
    with open_text(path) as stream:
        texts = list(readers[format](stream, path, field))
    if not texts:
        raise DataError(f"{path}: holds no texts.")
    return texts


def _guess(path: Path) -> str:
    with open_text(path) as stream:
        return "jsonl" if stream.readline().lstrip().startswith("{") else "lines"


def _of_json_lines(stream: TextIO, path: Path, field: str) -> Iterator[str]:
    for number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise DataError(f"{path}, line {number}: is not JSON ({error}).") from error
        text = record.get(field) if isinstance(record, dict) else record
        if not isinstance(text, str):
            raise DataError(f"{path}, line {number}: expected a JSON object with a text in {field!r}.")
        yield text


def _of_table(stream: TextIO, path: Path, field: str, delimiter: str | None = None) -> Iterator[str]:
    table = csv.DictReader(stream, delimiter=column_delimiter(path, delimiter), strict=True)
    try:
        if field not in (table.fieldnames or ()):
            raise DataError(f"{path}, line 1: has no column {field!r}; it has {', '.join(table.fieldnames or ())}.")
        for row in table:
            if row[field] is None:
                raise DataError(f"{path}, line {table.line_num}: has fewer columns than the header.")
            yield row[field]
    except csv.Error as error:
        raise DataError(f"{path}, line {table.line_num}: is not CSV ({error}).") from error


def _of_lines(stream: TextIO, path: Path, field: str) -> Iterator[str]:
    return (line.rstrip("\r\n") for line in stream)
