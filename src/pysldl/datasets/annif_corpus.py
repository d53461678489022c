"""Document corpora as Annif has them: a folder of texts with their subjects beside them, or one table or JSON file."""

import json
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pysldl.datasets.dataset import Dataset
from pysldl.datasets.files import TableFormat, open_text, stem, table_rows
from pysldl.datasets.text import TextRows
from pysldl.exceptions import DataError, SLDLWarning
from pysldl.preprocessing.labels import indicator_of_names, name_array

TABLE_LINE = re.compile(r"[^\t]*\t\s*(<[^<>\s]+>|https?://\S+)(\s+(<[^<>\s]+>|https?://\S+))*\s*")
SUBJECT_COLUMN = "subject_uris"
LONGEST_LINE = 1 << 20  # characters of the first line that are looked at


class _Document(NamedTuple):
    text: str
    subjects: list[str] | None
    id: str | None


def read_annif(path: str | os.PathLike[str], *, encoding: str | None = None, name: str | None = None) -> Dataset:
    """Read a corpus of Annif: documents with subjects, by URI if there is one and else by name.

    Parameters
    ----------
    path : path
        A folder with a text in each ``.txt`` file and its subjects in a file of the same name, ``.tsv`` (a URI a line,
        then a tab and the name) or ``.key`` (one name per line), or with a document in each ``.json`` file; or a file:
        ``.tsv`` without a header (text, tab, URIs with spaces between), ``.csv`` with the columns ``text`` and
        ``subject_uris``, ``.jsonl`` with ``text`` and ``subjects``. Files may be packed as ``.gz``. Documents without
        subjects are left out, and a warning says how many there are.
    encoding : str, optional
        Default: UTF-8, or UTF-16 if a file begins with its mark.
    name : str, optional
        Default: that of the folder or file.

    Returns
    -------
    Dataset
        Rows are identified by the name of their file, or their ``document_id``.
    """
    path = Path(path)
    found = list(_documents(path, encoding))
    kept = [document for document in found if document.subjects]
    if not kept:
        raise DataError(f"{path}: holds no document with subjects.")
    if len(kept) < len(found):
        warnings.warn(
            f"{path}: {len(found) - len(kept)} of {len(found)} documents have no subjects and are left out.",
            SLDLWarning,
            stacklevel=2,
        )
    rows = [document.subjects or [] for document in kept]
    names = name_array(sorted({subject for row in rows for subject in row}))
    texts = _text_rows(kept)
    Y = indicator_of_names(rows, names)
    return Dataset(name or stem(path), None, Y, names, texts=texts.texts, ids=texts.ids)


def read_annif_texts(path: str | os.PathLike[str], *, encoding: str | None = None) -> TextRows:
    """Read the texts of a corpus of Annif, with or without subjects; see :func:`read_annif`."""
    found = list(_documents(Path(path), encoding))
    if not found:
        raise DataError(f"{path}: holds no .txt or .json file.")
    return _text_rows(found)


def is_annif_corpus(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a folder with texts, or a table or JSON file with subjects as Annif writes them."""
    path = Path(path)
    if path.is_dir():
        return any(entry.suffix in (".txt", ".json") for entry in path.iterdir())
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix not in (".tsv", ".csv", ".jsonl", ".ndjson") or not path.is_file():
        return False
    try:
        with open_text(path) as stream:
            first = stream.readline(LONGEST_LINE)
    except DataError:
        return False  # its own reader says what is wrong
    if suffix == ".tsv":
        return TABLE_LINE.fullmatch(first.rstrip("\r\n")) is not None
    if suffix == ".csv":
        return SUBJECT_COLUMN in first.strip().replace('"', "").split(",")
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and "subjects" in record and "labels" not in record


def _text_rows(documents: list[_Document]) -> TextRows:
    known = any(document.id is not None for document in documents)
    ids = [document.id or "" for document in documents] if known else None
    return TextRows([document.text for document in documents], ids, None)


def _documents(path: Path, encoding: str | None) -> Iterator[_Document]:
    if not path.exists():
        raise DataError(f"{path}: no such file or folder.")
    if path.is_dir():
        yield from _folder_documents(path, encoding)
        return
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix == ".csv":
        yield from _csv_documents(path, encoding)
    elif suffix in (".jsonl", ".ndjson", ".json"):
        with open_text(path, encoding) as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    yield _json_document(line, f"{path}, line {number}", None)
    else:
        yield from _tsv_documents(path, encoding)


def _folder_documents(folder: Path, encoding: str | None) -> Iterator[_Document]:
    for path in sorted(folder.glob("*.txt")):
        with open_text(path, encoding) as stream:
            text = stream.read()
        beside = [path.with_suffix(suffix) for suffix in (".tsv", ".key")]
        subjects = next((file for file in beside if file.is_file()), None)
        yield _Document(text, None if subjects is None else _subjects_of(subjects, encoding), path.stem)
    for path in sorted(folder.glob("*.json")):
        with open_text(path, encoding) as stream:
            yield _json_document(stream.read(), str(path), path.stem)


def _subjects_of(path: Path, encoding: str | None) -> list[str]:
    """Subjects of one document: the URI before the first tab, or the whole line; an empty file has none."""
    if path.stat().st_size == 0:
        return []
    with open_text(path, encoding) as stream:
        lines = [line.strip() for line in stream if line.strip()]
    if path.suffix == ".key":
        return lines
    return [_cleaned(uri.strip()) or name.strip() for uri, _, name in (line.partition("\t") for line in lines)]


def _tsv_documents(path: Path, encoding: str | None) -> Iterator[_Document]:
    with open_text(path, encoding) as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            text, tab, uris = line.rstrip("\r\n").partition("\t")
            if "\t" in uris:
                raise DataError(f"{path}, line {number}: expected a text, one tab, and URIs with spaces between.")
            yield _Document(text, [_cleaned(uri) for uri in uris.split()] if tab else None, None)


def _csv_documents(path: Path, encoding: str | None) -> Iterator[_Document]:
    for _, row in table_rows(path, ["text"], TableFormat(encoding=encoding)):
        uris = [_cleaned(uri) for uri in row.get(SUBJECT_COLUMN, "").split()]
        yield _Document(row["text"], uris, row.get("document_id"))


def _json_document(content: str, place: str, id: str | None) -> _Document:
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: is not JSON ({error}).") from error
    if not isinstance(record, dict) or not isinstance(record.get("text", ""), str):
        raise DataError(f"{place}: expected a JSON object with a text in 'text'.")
    subjects: Any = record.get("subjects")
    if subjects is not None and not isinstance(subjects, list):
        raise DataError(f"{place}: 'subjects' must be a list of objects with a 'uri' or a 'label'.")
    names = []
    for subject in subjects or []:
        called = subject.get("uri") or subject.get("label") if isinstance(subject, dict) else None
        if not isinstance(called, str):
            raise DataError(f"{place}: 'subjects' must be a list of objects with a 'uri' or a 'label'.")
        names.append(_cleaned(called))
    known = record.get("document_id", id)
    return _Document(record.get("text", ""), names, None if known is None else str(known))


def _cleaned(uri: str) -> str:
    return uri[1:-1] if uri.startswith("<") and uri.endswith(">") else uri
