"""ARFF files of the multi-label collections, dense and sparse.

Which attributes are labels is said by MULAN's XML file, given or of the same name beside the ARFF
file, by MEKA's ``-C n`` in the relation's name (the first n attributes; the last, if n is
negative), or by the caller.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO
from xml.etree import ElementTree

import numpy as np
from scipy.sparse import csr_array

from pysldl.datasets.dataset import Dataset
from pysldl.datasets.files import open_text, require_file, stem
from pysldl.exceptions import DataError
from pysldl.preprocessing.labels import name_array

QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
ATTRIBUTE = re.compile(rf"@attribute\s+({QUOTED}|[^\s{{]+)\s*(.*)", re.IGNORECASE)
RELATION = re.compile(rf"@relation\s+({QUOTED}|.+)", re.IGNORECASE)
MEKA_LABELS = re.compile(r"(?:^|[\s:])-[cC]\s+(-?\d{1,9})(?!\d)")
CELL = re.compile(rf"((?:{QUOTED}|[^,'\"])*)(?:,|$)")
SPARSE_CELL = re.compile(rf"(\d+)\s+({QUOTED}|\S+)")


@dataclass(frozen=True)
class _Attribute:
    """A column: its name, what the values of a nominal one stand for (None: numbers), and which means 0."""

    name: str
    codes: dict[str, float] | None = None
    zero: str | None = "0"

    def value(self, cell: str) -> float:
        """What a cell says as a number; ValueError says what is wrong with it."""
        if cell == "?":
            raise ValueError(f"the value of {self.name!r} is missing ('?'); fill it in first")
        cell = _unquote(cell)
        if self.codes is not None:
            if cell not in self.codes:
                known = ", ".join(self.codes)
                raise ValueError(f"{cell!r} is not a value of {self.name!r}, which has {{{known}}}")
            return self.codes[cell]
        try:
            number = float(cell)
        except ValueError:
            raise ValueError(f"the value of {self.name!r} is not a number: {cell!r}") from None
        if not np.isfinite(number):
            raise ValueError(f"the value of {self.name!r} is not finite: {cell!r}")
        return number


@dataclass
class _Table:
    """The content of an ARFF file, as CSR rows over all attributes."""

    relation: str = ""
    attributes: list[_Attribute] = field(default_factory=list)
    data: list[float] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    indptr: list[int] = field(default_factory=lambda: [0])
    sparse: bool = False


def read_arff(
    path: str | os.PathLike[str],
    labels: str | os.PathLike[str] | int | Sequence[str] | None = None,
    *,
    test_path: str | os.PathLike[str] | None = None,
    name: str | None = None,
) -> Dataset:
    """Read an ARFF file; X is dense or CSR, depending on how the file stores its rows.

    Parameters
    ----------
    path : path
        ``.gz`` is unpacked while reading.
    labels : path, int or sequence of str, optional
        MULAN's XML file; or MEKA's number (negative: the last attributes); or the names of the label
        attributes. Default: the XML file of the same name beside the ARFF file, or the number in
        the relation's name.
    test_path : path, optional
        A second file with the test rows; then the result has the splits "train" and "test".
    name : str, optional
        Default: the file's.
    """
    path = Path(path)
    table = _read_table(path)
    columns = _label_columns(table, labels, path)
    n_train = len(table.indptr) - 1
    splits = {}
    if test_path is not None:
        _append(table, _read_table(Path(test_path)), path, Path(test_path))
        rows = np.arange(len(table.indptr) - 1)
        splits = {"train": rows[:n_train], "test": rows[n_train:]}
    matrix = csr_array(
        (np.array(table.data), np.array(table.indices, dtype=np.int32), np.array(table.indptr)),
        shape=(len(table.indptr) - 1, len(table.attributes)),
    )
    matrix.eliminate_zeros()
    names = name_array([attribute.name for attribute in table.attributes])
    features = np.setdiff1d(np.arange(len(names)), columns)
    by_column = matrix.tocsc()
    X = csr_array(by_column[:, features])
    return Dataset(
        name or stem(path),
        X if table.sparse else X.toarray(),
        by_column[:, columns],
        names[columns],
        feature_names=names[features],
        splits=splits,
    )


def _read_table(path: Path) -> _Table:
    table = _Table()
    with open_text(path) as stream:
        lines = _lines(stream)
        for number, line in lines:
            try:
                if line.lower().startswith("@data"):
                    break
                _read_declaration(table, line)
            except ValueError as error:
                raise DataError(f"{path}, line {number}: {error}.") from error
        else:
            raise DataError(f"{path}: has no @data line, so it is not an ARFF file, or it is cut off.")
        if not table.attributes:
            raise DataError(f"{path}: declares no @attribute.")
        for number, line in lines:
            try:
                _read_row(table, line)
            except ValueError as error:
                raise DataError(f"{path}, line {number}: {error}.") from error
    if len(table.indptr) == 1:
        raise DataError(f"{path}: holds no rows after @data.")
    if table.sparse:
        _check_first_values(table, path)
    return table


def _lines(stream: TextIO) -> Iterator[tuple[int, str]]:
    """Lines that are neither blank nor comments, with their numbers."""
    for number, line in enumerate(stream, start=1):
        line = line.strip()
        if line and not line.startswith("%"):
            yield number, line


def _read_declaration(table: _Table, line: str) -> None:
    if match := RELATION.match(line):
        table.relation = _unquote(match[1].strip())
    elif match := ATTRIBUTE.match(line):
        table.attributes.append(_attribute(_unquote(match[1]), match[2].strip()))
    else:
        raise ValueError(f"expected @relation, @attribute or @data, found {line[:40]!r}")


def _attribute(name: str, kind: str) -> _Attribute:
    if kind.lower().split(None, 1)[:1] in (["numeric"], ["real"], ["integer"]):
        return _Attribute(name)
    if not (kind.startswith("{") and kind.endswith("}")):
        raise ValueError(f"attribute {name!r} is of type {kind!r}; only numbers and {{a,b}} can be read")
    values = [_unquote(cell) for cell in _cells(kind[1:-1])]
    try:
        codes = {value: float(value) for value in values}
    except ValueError:
        if len(values) > 2:
            raise ValueError(
                f"attribute {name!r} has {len(values)} values that are not numbers; encode it first"
            ) from None
        codes = {value: float(code) for code, value in enumerate(values)}
    return _Attribute(name, codes, next((value for value, code in codes.items() if code == 0), None))


def _read_row(table: _Table, line: str) -> None:
    attributes = table.attributes
    if line.startswith("{"):
        if not line.endswith("}"):
            raise ValueError("a sparse row must end with '}'")
        table.sparse = True
        for cell in _cells(line[1:-1]) if line[1:-1].strip() else []:
            match = SPARSE_CELL.fullmatch(cell)
            if not match:
                raise ValueError(f"expected 'index value', found {cell!r}")
            index = int(match[1])
            if index >= len(attributes):
                raise ValueError(f"attribute {index} is out of range: there are {len(attributes)}, from 0")
            table.indices.append(index)
            table.data.append(attributes[index].value(match[2]))
    else:
        cells = _cells(line)
        if len(cells) != len(attributes):
            raise ValueError(f"has {len(cells)} values, but there are {len(attributes)} attributes")
        for index, (attribute, cell) in enumerate(zip(attributes, cells, strict=True)):
            if cell != attribute.zero:
                table.indices.append(index)
                table.data.append(attribute.value(cell))
    table.indptr.append(len(table.indices))


def _check_first_values(table: _Table, path: Path) -> None:
    """What a sparse row leaves out has the first value declared, so that must be zero."""
    for attribute in table.attributes:
        if attribute.codes and next(iter(attribute.codes.values())) != 0:
            raise DataError(
                f"{path}: sparse rows leave out the first value of {attribute.name!r}, which is not 0; "
                "declare it as {0,1} or write dense rows."
            )


def _cells(line: str) -> list[str]:
    """The parts between commas; quotes protect commas."""
    if "'" not in line and '"' not in line:
        return [cell.strip() for cell in line.split(",")]
    cells, position = [], 0
    while position <= len(line):
        match = CELL.match(line, position)
        if match is None:
            raise ValueError(f"a quote is not closed: {line[position : position + 40]!r}")
        cells.append(match[1].strip())
        position = match.end() + (match.end() == len(line) and not match[0].endswith(","))
    return cells


def _unquote(word: str) -> str:
    if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"":
        return re.sub(r"\\(.)", r"\1", word[1:-1])
    return word


def _label_columns(
    table: _Table, labels: str | os.PathLike[str] | int | Sequence[str] | None, path: Path
) -> np.ndarray:
    n_attributes = len(table.attributes)
    if labels is None:
        labels = _labels_said_by_the_files(table, path)
    if isinstance(labels, int):
        if not 0 < abs(labels) < n_attributes:
            raise DataError(f"{path}: {labels} of {n_attributes} attributes cannot be the labels.")
        return np.arange(labels) if labels > 0 else np.arange(n_attributes + labels, n_attributes)
    names = _xml_labels(Path(labels)) if isinstance(labels, (str, os.PathLike)) else list(labels)
    column_of = {attribute.name: column for column, attribute in enumerate(table.attributes)}
    missing = [name for name in names if name not in column_of]
    if missing or not names:
        shown = ", ".join(map(repr, missing[:5])) or "no label is named"
        raise DataError(f"{path}: these labels are not among its {n_attributes} attributes: {shown}.")
    return np.array([column_of[name] for name in names])


def _labels_said_by_the_files(table: _Table, path: Path) -> Path | int:
    xml = path.with_name(stem(path) + ".xml")
    of_both_parts = path.with_name(re.sub(r"[-_](train|test)$", "", stem(path)) + ".xml")
    for candidate in (xml, of_both_parts):
        if candidate.is_file():
            return candidate
    match = MEKA_LABELS.search(table.relation)
    if match:
        return int(match[1])
    raise DataError(
        f"{path}: which attributes are labels? There is no {xml.name} beside it and no '-C n' in its relation "
        "name; say it by labels= (an XML file, a number, or names)."
    )


def _xml_labels(path: Path) -> list[str]:
    """Names in MULAN's label file, those of nested labels too."""
    try:
        root = ElementTree.parse(require_file(path)).getroot()
    except ElementTree.ParseError as error:
        raise DataError(f"{path}, line {error.position[0]}: is not XML ({error}).") from error
    except (LookupError, ValueError) as error:  # an encoding that nobody knows
        raise DataError(f"{path}, line 1: is not XML that can be read ({error}).") from error
    names = [element.get("name") for element in root.iter() if element.tag.rpartition("}")[2] == "label"]
    if not names or None in names:
        raise DataError(f"{path}: holds no <label name=...>, so it is not a label file.")
    return [name for name in names if name is not None]


def _append(table: _Table, more: _Table, path: Path, more_path: Path) -> None:
    if table.attributes != more.attributes:
        raise DataError(f"{path} and {more_path} declare different attributes: they are not of one data set.")
    start = table.indptr[-1]
    table.data += more.data
    table.indices += more.indices
    table.indptr += [start + pointer for pointer in more.indptr[1:]]
    table.sparse = table.sparse or more.sparse
