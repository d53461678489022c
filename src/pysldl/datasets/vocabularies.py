"""Controlled vocabularies from files: SKOS (RDF/XML, Turtle, JSON-LD, N-Triples), TSV and CSV."""

import csv
import json
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pysldl.datasets.files import open_binary, open_text, require_file
from pysldl.exceptions import DataError, MissingDependencyError
from pysldl.preprocessing.vocabulary import NO_LANGUAGE, Concept, Vocabulary

RDF_FORMATS = {
    ".ttl": "turtle",
    ".turtle": "turtle",
    ".rdf": "xml",
    ".xml": "xml",
    ".owl": "xml",
    ".jsonld": "json-ld",
    ".json": "json-ld",
    ".nt": "nt",
}
TABLES = {".tsv": "tsv", ".csv": "csv"}
FORMATS = ("tsv", "csv", "turtle", "xml", "json-ld", "nt")
SEVERAL = "|"
YES = ("1", "true", "yes")


def read_vocabulary(path: str | os.PathLike[str], *, format: str = "auto", language: str | None = None) -> Vocabulary:
    """Read a vocabulary: SKOS in one of its syntaxes, or a table.

    Parameters
    ----------
    path : path
        ``.gz`` is unpacked while reading.
    format : {"auto", "tsv", "csv", "turtle", "xml", "json-ld", "nt"}
        "auto": by the suffix. TSV has a concept a line, without a header: identifier, name and, if there is one,
        notation. CSV has a header: ``uri``, ``label_en`` (a column for each language, or just ``label``) and, as far as
        they are known, ``notation``, ``alt_en``, ``broader``, ``related``, ``deprecated`` and ``replaced_by``; several
        values in one cell are separated by bars.
    language : str, optional
        The language of the names that people are shown; for TSV, and for the column ``label``, the one it is in.
        Default: English if there are English names, else the language with the most.

    Returns
    -------
    Vocabulary
        Concepts are sorted by identifier if they come from RDF, which has no order.

    Raises
    ------
    DataError
        The file cannot be read; it names the line if it can.
    MissingDependencyError
        SKOS needs rdflib, the extra ``skos``.
    """
    path = require_file(path)
    if format == "auto":
        format = _format_of(path)
    if format not in FORMATS:
        raise DataError(f"{path}: the vocabulary format {format!r} is unknown; choose one of {', '.join(FORMATS)}.")
    if format == "tsv":
        concepts: Iterable[Concept] = _tsv_concepts(path, NO_LANGUAGE if language is None else language)
    elif format == "csv":
        concepts = _csv_concepts(path, NO_LANGUAGE if language is None else language)
    else:
        concepts = _skos_concepts(path, format)
    try:
        return Vocabulary.from_concepts(concepts, language)
    except DataError as error:
        raise error if str(error).startswith(str(path)) else DataError(f"{path}: {error}") from error


def _format_of(path: Path) -> str:
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    found = TABLES.get(suffix) or RDF_FORMATS.get(suffix)
    if found is None:
        raise DataError(
            f"{path}: a vocabulary ends in {', '.join([*TABLES, *RDF_FORMATS])}; rename it, or give its format."
        )
    return found


def _without_brackets(identifier: str) -> str:
    identifier = identifier.strip()
    return identifier[1:-1] if identifier.startswith("<") and identifier.endswith(">") else identifier


def _tsv_concepts(path: Path, language: str) -> Iterator[Concept]:
    """One concept per line; one without a name is deprecated, as in Annif."""
    with open_text(path) as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            cells = [cell.strip() for cell in line.rstrip("\r\n").split("\t")]
            identifier = _without_brackets(cells[0])
            if not identifier or len(cells) > 3:
                raise DataError(f"{path}, line {number}: expected identifier, name and notation, separated by tabs.")
            name = cells[1] if len(cells) > 1 else ""
            notation = cells[2] if len(cells) > 2 else ""
            yield Concept(identifier, {language: name} if name else {}, notation=notation, deprecated=not name)


def _csv_concepts(path: Path, language: str) -> Iterator[Concept]:
    with open_text(path) as stream:
        table = csv.DictReader(stream, strict=True)
        try:
            columns = list(table.fieldnames or ())
            key = next((name for name in ("uri", "identifier", "id") if name in columns), None)
            labels = {name: name.removeprefix("label_") for name in columns if name.startswith("label_")}
            if "label" in columns:
                labels["label"] = language
            if key is None or not labels:
                raise DataError(
                    f"{path}, line 1: a vocabulary has the columns 'uri' and 'label_en' (or of another language), but "
                    f"here are {', '.join(map(repr, columns))}."
                )
            others = {name: name.removeprefix("alt_") for name in columns if name.startswith("alt_")}
            for row in table:
                if None in row or None in row.values() or not row[key].strip():
                    raise DataError(f"{path}, line {table.line_num}: expected {len(columns)} columns and a {key}.")
                yield _csv_concept(row, key, labels, others)
        except csv.Error as error:
            raise DataError(f"{path}, line {table.line_num + 1}: is not CSV ({error}).") from error


def _csv_concept(row: dict[str, str], key: str, labels: dict[str, str], others: dict[str, str]) -> Concept:
    def several(column: str) -> tuple[str, ...]:
        return tuple(_without_brackets(cell) for cell in (row.get(column) or "").split(SEVERAL) if cell.strip())

    names = {language: row[column].strip() for column, language in labels.items() if row[column].strip()}
    said = row.get("deprecated")
    return Concept(
        _without_brackets(row[key]),
        names,
        {language: several(column) for column, language in others.items() if several(column)},
        notation=(row.get("notation") or "").strip(),
        broader=several("broader"),
        narrower=several("narrower"),
        related=several("related"),
        deprecated=not names if said is None else said.strip().lower() in YES,
        replaced_by=next(iter(several("replaced_by")), ""),
    )


def _skos_concepts(path: Path, format: str) -> list[Concept]:
    try:
        from rdflib import Graph
        from rdflib.namespace import DCTERMS, OWL, RDF, RDFS, SKOS
    except ImportError as error:
        raise MissingDependencyError(
            f"{path}: SKOS vocabularies need the extra skos: pip install 'pysldl[skos]'."
        ) from error
    graph = Graph()
    with open_binary(path) as stream:
        content = stream.read()
    if format == "json-ld":
        _refuse_remote_contexts(path, content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # rdflib's, of its own parsers
            graph.parse(data=content, format=format, publicID=path.resolve().as_uri())
    except Exception as error:  # each syntax has errors of its own, and none of them is the library's
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(f"{path}: is not {format} that can be read ({first[:200]}).") from error

    def linked(node: Any, kind: Any) -> tuple[str, ...]:
        return tuple(sorted({str(other) for other in graph.objects(node, kind)}))

    concepts = []
    for node in sorted(set(graph.subjects(RDF.type, SKOS.Concept)), key=str):
        names, spare = _literals(graph.objects(node, SKOS.prefLabel))
        fallback, _ = _literals(graph.objects(node, RDFS.label))
        _, hidden = _literals(graph.objects(node, SKOS.altLabel), every=True)
        for language, others in hidden.items():
            spare[language] = (*spare.get(language, ()), *others)
        concepts.append(
            Concept(
                str(node),
                fallback | names,
                spare,
                notation=min(map(str, graph.objects(node, SKOS.notation)), default=""),
                broader=linked(node, SKOS.broader),
                narrower=linked(node, SKOS.narrower),
                related=linked(node, SKOS.related),
                deprecated=any(str(value).lower() in YES for value in graph.objects(node, OWL.deprecated)),
                replaced_by=next(iter(linked(node, DCTERMS.isReplacedBy)), ""),
            )
        )
    if not concepts:
        raise DataError(f"{path}: holds no skos:Concept.")
    return concepts


def _literals(values: Iterable[Any], *, every: bool = False) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """The first of the texts of each language, and the others; with ``every`` all of them are others."""
    by_language: dict[str, list[str]] = {}
    for value in values:
        if str(value).strip():
            by_language.setdefault(getattr(value, "language", None) or NO_LANGUAGE, []).append(str(value).strip())
    first, others = {}, {}
    for language in sorted(by_language):
        texts = sorted(set(by_language[language]))
        if not every:
            first[language] = texts.pop(0)
        if texts:
            others[language] = tuple(texts)
    return first, others


def _refuse_remote_contexts(path: Path, content: bytes) -> None:
    """Raise an error if reading JSON-LD would fetch something: a context given by its address."""
    try:
        waiting: list[Any] = [json.loads(content)]
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is not JSON ({error}).") from error
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
        elif isinstance(node, dict):
            contexts = node.get("@context", [])
            for context in contexts if isinstance(contexts, list) else [contexts]:
                if isinstance(context, str) or (isinstance(context, dict) and "@import" in context):
                    raise DataError(f"{path}: has a context at another address, which is not fetched: write it out.")
            waiting.extend(node.values())
