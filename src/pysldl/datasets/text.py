"""Raw texts with label names: JSON lines, a JSON array or a CSV table; and texts alone, to predict labels for."""

import csv
import io
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pysldl._utils.files import open_atomic
from pysldl.datasets.dataset import Dataset
from pysldl.datasets.files import TableFormat, column_delimiter, open_text, require_file, stem, table_rows
from pysldl.exceptions import DataError
from pysldl.preprocessing.labels import indicator_of_names, name_array

USUAL_TEXT, USUAL_LABELS, USUAL_SPLIT = "text", "labels", "split"
USUAL_ID, USUAL_TITLE = "id", "title"
USUAL_SEPARATOR = ";"
OTHER_SEPARATORS = ("|", ",")
BETWEEN_TEXTS = "\n"
NAME_THEM = " Name them, as in text='body', labels='tags' (in the shell: --text body --labels tags)."
IF_NO_HEADER = " If the first line is a row and not a header, say header=False (in the shell: --read header=false)."
TEXT_FORMATS = {
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "lines",
}


class TextRows(NamedTuple):
    """Texts without labels, and what identifies them; ids and titles are None if the file has none."""

    texts: list[str]
    ids: list[str] | None
    titles: list[str] | None


class _Record(NamedTuple):
    text: str
    labels: list[str]
    split: str | None
    id: str | None
    title: str | None


@dataclass(frozen=True)
class _Fields:
    """The fields or columns that hold the parts of a row; None: the usual one, if there is one."""

    text: tuple[str, ...]
    labels: str | None
    split: str | None
    id: str | None
    title: str | None

    @property
    def needed(self) -> list[str]:
        return [name for name in (*self.text, self.labels, self.split, self.id, self.title) if name is not None]

    @property
    def advice(self) -> str:
        """What to do where the usual text or labels are missing."""
        return NAME_THEM if USUAL_TEXT in self.text or self.labels == USUAL_LABELS else ""

    def optional(self, row: dict[str, Any], part: str, usual: str) -> Any:
        """The value of a part that a row need not have."""
        chosen = getattr(self, part)
        return row.get(usual if chosen is None else chosen)


def read_jsonl(
    path: str | os.PathLike[str],
    *,
    text: str | Sequence[str] = USUAL_TEXT,
    labels: str = USUAL_LABELS,
    split: str | None = None,
    id: str | None = None,
    title: str | None = None,
    encoding: str | None = None,
    name: str | None = None,
) -> Dataset:
    """Read JSON objects, one per line or all in one array, each with a text and a list of label names.

    Parameters
    ----------
    path : path
        ``.gz`` is unpacked while reading.
    text : str or sequence of str
        The field that holds the text; of several, as in ``"title,abstract"``, the texts are joined.
    labels : str
        The field that holds the label names.
    split : str, optional
        The field that holds the split. Default: "split", which need not be there.
    id, title : str, optional
        The fields that identify a row. Default: "id" and "title", which need not be there.
    encoding : str, optional
        Default: UTF-8, or UTF-16 if the file begins with its mark.
    name : str, optional
        Default: the file's.
    """
    fields = _Fields(_names(text), str(labels), *_as_texts(split, id, title))
    return _dataset(path, _json_records(path, fields, encoding), name)


def read_csv(
    path: str | os.PathLike[str],
    *,
    text: str | Sequence[str] | None = None,
    labels: str | None = None,
    split: str | None = None,
    id: str | None = None,
    title: str | None = None,
    separator: str | None = None,
    delimiter: str | None = None,
    header: bool = True,
    encoding: str | None = None,
    name: str | None = None,
) -> Dataset:
    """Read a table with a column of texts and one of label names.

    Parameters
    ----------
    path : path
        ``.gz`` is unpacked while reading.
    text : str or sequence of str, optional
        The column that holds the text; of several, as in ``"title,abstract"``, the texts are joined. Default: "text".
    labels : str, optional
        The column that holds the label names. Default: "labels".
    split : str, optional
        The column that holds the split. Default: "split", which need not be there.
    id, title : str, optional
        The columns that identify a row. Default: "id" and "title", which need not be there.
    separator : str, optional
        Stands between two labels of a row. Default: a semicolon. If no row has one, and labels contain commas or
        bars, it must be given.
    delimiter : str, optional
        Stands between two columns, one character or ``"tab"``. Default: a tab in ``.tsv`` files, a comma in all others.
    header : bool
        Whether the first line names the columns. If not, they are called "1", "2" and so on; the text is expected in
        the first and the labels in the second.
    encoding : str, optional
        Default: UTF-8, or UTF-16 if the file begins with its mark.
    name : str, optional
        Default: the file's.
    """
    if separator is not None and (not isinstance(separator, str) or not separator):
        raise DataError(f"{path}: separator must be the text between two labels, such as ';', but is {separator!r}.")
    usual_text, usual_labels = (USUAL_TEXT, USUAL_LABELS) if header else ("1", "2")
    texts = _names(usual_text if text is None else text)
    fields = _Fields(texts, usual_labels if labels is None else str(labels), *_as_texts(split, id, title))
    return _dataset(path, _csv_records(path, fields, separator, TableFormat(delimiter, header, encoding)), name)


def read_texts(
    path: str | os.PathLike[str],
    *,
    text: str | Sequence[str] | None = None,
    format: str = "auto",
    id: str | None = None,
    title: str | None = None,
    delimiter: str | None = None,
    header: bool = True,
    encoding: str | None = None,
) -> TextRows:
    """Read texts without labels, for example to predict labels for them.

    ``format`` is "jsonl" (objects or strings, one per line or in an array), "csv" or "lines" (one text per line).
    "auto": by the suffix or, failing that, by the first line. The other options are those of :func:`read_csv`.
    """
    path = require_file(path)
    if format == "auto":
        format = TEXT_FORMATS.get(Path(path.name.removesuffix(".gz")).suffix.lower()) or _guess_text_format(path)
    if format == "lines":
        with open_text(path, encoding) as stream:
            return _text_rows(path, [_Record(line.rstrip("\r\n"), [], None, None, None) for line in stream])
    usual = USUAL_TEXT if header or format == "jsonl" else "1"
    fields = _Fields(_names(usual if text is None else text), None, None, *_as_texts(id, title))
    if format == "jsonl":
        return _text_rows(path, [_json_text(record, fields, place) for place, record in _json_values(path, encoding)])
    if format == "csv":
        written = TableFormat(delimiter, header, encoding)
        rows = table_rows(path, fields.needed, written, fields.advice + IF_NO_HEADER)
        return _text_rows(path, [_row_record(row, fields, []) for _, row in rows])
    raise DataError(f"{path}: texts are read from jsonl, csv, lines, not from the format {format!r}.")


def write_jsonl(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write texts, labels and what else is known about the rows as JSON lines, atomically.

    Parameters
    ----------
    dataset : Dataset
        With texts. Ids, titles and the split of a row are written if there are any.
    path : path
        File to write.
    """
    with open_atomic(path) as stream:
        for row in _written_rows(dataset):
            stream.write((json.dumps(row, ensure_ascii=False) + "\n").encode())


def write_csv(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write texts, labels and what else is known about the rows as a table with a header, atomically.

    Parameters
    ----------
    dataset : Dataset
        With texts. Labels are joined by semicolons, which no label may contain.
    path : path
        File to write: ``.tsv`` files have tabs between the columns, all others commas.
    """
    wrong = next((name for name in dataset.label_names.tolist() if USUAL_SEPARATOR in name), None)
    if wrong is not None:
        raise DataError(
            f"{path}: the label {wrong!r} contains {USUAL_SEPARATOR!r}, which stands between labels in a table; write "
            "JSON lines."
        )
    content = io.StringIO()
    table = csv.writer(content, delimiter=column_delimiter(Path(path)), lineterminator="\n")
    for number, row in enumerate(_written_rows(dataset)):
        if number == 0:
            table.writerow(row)
        table.writerow([USUAL_SEPARATOR.join(value) if isinstance(value, list) else value for value in row.values()])
    with open_atomic(path) as stream:
        stream.write(content.getvalue().encode())


def _written_rows(dataset: Dataset) -> Iterator[dict[str, Any]]:
    """Every row by the usual names of its parts, all rows with the same ones."""
    if dataset.texts is None:
        raise DataError(f"data set {dataset.name!r} holds no texts: write it as npz.")
    part_of = {int(row): part for part, rows in dataset.splits.items() for row in rows}
    for number in range(dataset.n_samples):
        row: dict[str, Any] = {}
        for name, values in ((USUAL_ID, dataset.ids), (USUAL_TITLE, dataset.titles), (USUAL_TEXT, dataset.texts)):
            if values is not None:
                row[name] = values[number]
        columns = dataset.Y.indices[dataset.Y.indptr[number] : dataset.Y.indptr[number + 1]]
        row[USUAL_LABELS] = dataset.label_names[columns].tolist()
        if dataset.splits:
            row[USUAL_SPLIT] = part_of.get(number, "")
        yield row


def _names(text: str | Sequence[str]) -> tuple[str, ...]:
    """Names of one or several fields; in a shell they are written with commas between."""
    given = text.split(",") if isinstance(text, str) else [str(text)] if isinstance(text, int) else text
    return tuple(str(name).strip() for name in given)


def _as_texts(*names: Any) -> Iterator[str | None]:
    """Names of fields as texts: numbers among them were written in a shell."""
    return (None if name is None else str(name) for name in names)


def _text_rows(path: Path, records: Sequence[_Record]) -> TextRows:
    if not records:
        raise DataError(f"{path}: holds no texts.")
    return TextRows(
        [record.text for record in records],
        _all_or_none([record.id for record in records]),
        _all_or_none([record.title for record in records]),
    )


def _all_or_none(values: Sequence[str | None]) -> list[str] | None:
    """Values of all rows, empty if a row has none; None if no row has one."""
    return None if all(value is None for value in values) else [value or "" for value in values]


def _guess_text_format(path: Path) -> str:
    with open_text(path) as stream:
        return "jsonl" if stream.readline().lstrip().startswith(("{", "[{", '["')) else "lines"


def _json_values(path: str | os.PathLike[str], encoding: str | None) -> Iterator[tuple[str, Any]]:
    """The value of every line that is not blank, or of every entry of an array, with the place to name in an error."""
    with open_text(path, encoding) as stream:
        first = stream.readline()
        if first.lstrip().startswith("["):
            yield from _json_array(path, first + stream.read())
            return
        for number, line in enumerate(itertools.chain([first], stream), start=1):
            if line.strip():
                place = f"{path}, line {number}"
                try:
                    yield place, json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise DataError(f"{place}: is not JSON ({error}).") from error


def _json_array(path: str | os.PathLike[str], content: str) -> Iterator[tuple[str, Any]]:
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is not a JSON array ({error}).") from error
    for number, value in enumerate(values):
        yield f"{path}, entry {number} of the array", value


def _json_text(record: Any, fields: _Fields, place: str) -> _Record:
    """A record of an object, or of a plain text."""
    row = dict.fromkeys(fields.text, record) if isinstance(record, str) else record
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in fields.text):
        raise DataError(f"{place}: expected a JSON object with a text in {', '.join(map(repr, fields.text))}.")
    for name in fields.needed:
        if name not in row:
            raise DataError(f"{place}: has no field {name!r}; it has {', '.join(map(repr, row))}.")
    return _row_record(row, fields, [])


def _row_record(row: dict[str, Any], fields: _Fields, labels: list[str]) -> _Record:
    text = BETWEEN_TEXTS.join(row[name] for name in fields.text)
    split, id, title = (
        fields.optional(row, part, usual)
        for part, usual in (("split", USUAL_SPLIT), ("id", USUAL_ID), ("title", USUAL_TITLE))
    )
    return _Record(text, labels, split or None, None if id is None else str(id), None if title is None else str(title))


def _json_records(path: str | os.PathLike[str], fields: _Fields, encoding: str | None) -> Iterator[_Record]:
    has_part = False
    for place, row in _json_values(path, encoding):
        if not isinstance(row, dict):
            raise DataError(f"{place}: expected a JSON object, found {type(row).__name__}.")
        for key in (name for name in fields.needed if name != fields.split):
            if key not in row:
                told = fields.advice if key in (USUAL_TEXT, USUAL_LABELS) else ""
                raise DataError(f"{place}: has no field {key!r}; it has {', '.join(map(repr, row))}.{told}")
        for key in fields.text:
            if not isinstance(row[key], str):
                raise DataError(f"{place}: field {key!r} must be a string.")
        names = row[fields.labels]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DataError(f"{place}: field {fields.labels!r} must be a list of strings.")
        if not all(name.strip() for name in names):
            raise DataError(f"{place}: field {fields.labels!r} holds an empty label: leave it out.")
        record = _row_record(row, fields, names)
        if record.split is not None and not isinstance(record.split, str):
            raise DataError(f"{place}: field {fields.split or USUAL_SPLIT!r} must be a string.")
        has_part |= record.split is not None
        yield record
    if fields.split is not None and not has_part:
        raise DataError(f"{path}: no line has a field {fields.split!r} to read the split from.")


def _csv_records(
    path: str | os.PathLike[str], fields: _Fields, separator: str | None, written: TableFormat
) -> Iterator[_Record]:
    unseparated: tuple[str, str] | None = None
    has_separator = False
    for line, row in table_rows(path, fields.needed, written, fields.advice + IF_NO_HEADER):
        joined = row[str(fields.labels)]
        has_separator |= USUAL_SEPARATOR in joined
        other = next((other for other in OTHER_SEPARATORS if other in joined), None)
        if unseparated is None and other is not None:
            unseparated = f"{path}, line {line}: the labels are {joined!r}", other
        names = [name.strip() for name in joined.split(separator or USUAL_SEPARATOR)]
        yield _row_record(row, fields, [name for name in names if name])
    if separator is None and unseparated is not None and not has_separator:
        example, other = unseparated
        raise DataError(
            f"{example}, and no row has a {USUAL_SEPARATOR!r} between labels. Say what separates them: "
            f"separator={other!r} (in the shell: --read 'separator={other}'), or separator={USUAL_SEPARATOR!r} if this "
            "is one label."
        )


def _dataset(path: str | os.PathLike[str], records: Iterator[_Record], name: str | None) -> Dataset:
    found = list(records)
    if not found:
        raise DataError(f"{path}: holds no rows.")
    rows = [record.labels for record in found]
    names = name_array(sorted({label for row in rows for label in row}))
    if not len(names):
        raise DataError(f"{path}: no row has a label.")
    parts = [record.split for record in found]
    splits = {
        part: np.array([row for row, its in enumerate(parts) if its == part])
        for part in dict.fromkeys(parts)
        if part is not None
    }
    return Dataset(
        name or stem(Path(path)),
        None,
        indicator_of_names(rows, names),
        names,
        splits=splits,
        texts=[record.text for record in found],
        ids=_all_or_none([record.id for record in found]),
        titles=_all_or_none([record.title for record in found]),
    )
