"""`sldl predict`: predict labels for rows of data."""

import csv
import io
import json as json_format
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple

from pysldl.cli._dask import NO_CLUSTER, Cluster
from pysldl.cli._input import STANDARD_INPUT, USUAL_READING, Data, Features, ModelFolder, Reading
from pysldl.cli._output import print_json, say
from pysldl.exceptions import DataError, MissingDependencyError

if TYPE_CHECKING:
    from pysldl.cli._model import Model, UnlabeledRows

USUAL_K = 5
K_WITH_THRESHOLD = 100
K_OF_SETS = 200


class Row(NamedTuple):
    """The labels of one row, best first, and what identifies the row in its file."""

    number: int
    id: str | None
    title: str | None
    columns: list[int]
    ids: list[str] | None
    names: list[str]
    scores: list[float]


def predict(
    model: ModelFolder,
    data: Data = STANDARD_INPUT,
    /,
    *,
    k: int | None = None,
    threshold: float | Literal["learned"] | None = None,
    recall: float | None = None,
    precision: float | None = None,
    proba: bool = False,
    hierarchy: Literal["broader", "narrower"] | None = None,
    match_names: bool = False,
    out: Path | None = None,
    format: Literal["jsonl", "csv", "tsv", "parquet", "xc"] | None = None,
    split: str | None = None,
    features: Features = "auto",
    reading: Reading = USUAL_READING,
    cluster: Cluster = NO_CLUSTER,
    json: bool = False,
) -> None:
    """Predict the labels of every row, by name, best first.

    Examples: `sldl predict chess stackex-chess --k 3 --out labels.csv`,
    `echo "a text to label" | sldl predict posts`

    A model of texts takes JSON lines, CSV or one text per line; labels in the file are ignored. If rows have an id or
    a title (fields of these names, or those of `--read id=NAME` and `--read title=NAME`), the predictions carry them.

    Parameters
    ----------
    k : int, optional
        Maximum labels per row. Default: 5; 100 with a threshold, 200 with --recall or --precision.
    threshold : float or "learned", optional
        Leave out labels that score less; learned takes the threshold that was best on held-out training examples.
    recall : float, optional
        Predict as few labels per row as possible at this mean recall (0.9: nine of ten true labels), by a bound from
        held-out training examples.
    precision : float, optional
        Predict as many labels per row as possible while this share of them is right.
    proba : bool
        Give calibrated probabilities instead of scores.
    hierarchy : {"broader", "narrower"}, optional
        With a vocabulary: broader adds the broader labels of each label, narrower leaves out labels that have a
        narrower one among the k best.
    match_names : bool
        Also consider labels whose names occur in the text; the model must have been fitted with --match-names.
    out : Path, optional
        File to write, atomically. Default: standard output. With --dask a folder, which gets a Parquet file for every
        part of the data; a command that was stopped resumes when it is run again.
    format : {"jsonl", "csv", "tsv", "parquet", "xc"}, optional
        A JSON object per row; a table of row, rank, label and score, with commas or tabs; Parquet, with lists of labels
        and scores; or the repository's score file, with columns in place of names. Default: by the suffix of --out
        (.jsonl, .ndjson, .csv, .tsv, .parquet); jsonl on standard output.
    split : str, optional
        Only the rows of this split.
    json : bool
        Print one JSON object: the predictions, or with --out a summary.
    """
    from pysldl.cli._model import open_model, read_unlabeled

    if cluster.dask is not None:
        _predict_on_dask(model, data, k, threshold, proba, out, split, reading, cluster, json)
        return
    written_as = format or _format_of(out)
    if written_as == "parquet" and out is None:
        raise DataError("--format parquet: a table of bytes, which needs a file: give --out FILE.")
    opened = open_model(model)
    given = [value for value in (threshold, recall, precision) if value is not None]
    if len(given) > 1:
        raise DataError("--threshold, --recall and --precision each choose where to cut: give one of them.")
    usual = USUAL_K if not given else K_OF_SETS if threshold is None else K_WITH_THRESHOLD
    limit = usual if k is None else k
    cut = (
        _set_threshold(opened, recall, precision, proba) if threshold is None else _threshold(opened, threshold, proba)
    )
    options: dict[str, Any] = {"proba": proba, "hierarchy": hierarchy, "match_names": match_names}
    unlabeled = read_unlabeled(opened, data, split, features, reading)
    rows = list(predict_rows(opened.classifier, unlabeled, limit, cut, **options))
    kind = "probabilities" if proba else "scores"
    if out is not None:
        _write(out, written_as, rows, kind, len(opened.classifier.label_names_))
        summary = {"model": str(model), "out": str(out), "format": written_as, "rows": len(rows)}
        summary["labels"] = sum(len(row.names) for row in rows)
        if json:
            print_json(summary)
        else:
            say(f"wrote {out}: {len(rows)} rows")
    elif json:
        print_json({"model": str(model), "predictions": [_as_json(row, kind) for row in rows]})
    else:
        sys.stdout.writelines(_LINES[written_as](rows, kind, len(opened.classifier.label_names_)))


def _predict_on_dask(
    model: Path,
    data: str,
    k: int | None,
    threshold: float | Literal["learned"] | None,
    proba: bool,
    out: Path | None,
    split: str | None,
    reading: Reading,
    cluster: Cluster,
    json: bool,
) -> None:
    from pysldl._utils.progress import stage_bars
    from pysldl.cli._dask import open_parts, predict_parts
    from pysldl.cli._model import open_model

    if out is None or split is not None:
        raise DataError("--dask: predictions of parts need --out FOLDER, and are made for all rows, without --split.")
    limit = k if k is not None else USUAL_K if threshold is None else K_WITH_THRESHOLD
    cut = float("-inf") if threshold is None else _threshold(open_model(model), threshold, proba)
    settings = {"k": limit, "threshold": cut, "proba": proba}
    parts = open_parts(data, reading)
    with cluster.client() as client, stage_bars() as bars:
        counts = predict_parts(client, model, parts, out, settings, bars, cluster.scratch)
    if json:
        print_json({"model": str(model), "out": str(out), "format": "parquet", **counts})
    else:
        there = f", {counts['parts_there']} were there" if counts["parts_there"] else ""
        say(f"wrote {out}: {counts['parts']} parts{there}")


def _write(out: Path, written_as: str, rows: list[Row], kind: str, n_labels: int) -> None:
    from pysldl._utils.files import open_atomic

    with open_atomic(out) as stream:
        if written_as == "parquet":
            write_parquet_rows(stream, rows, kind)
        else:
            stream.writelines(line.encode() for line in _LINES[written_as](rows, kind, n_labels))


def _format_of(out: Path | None) -> str:
    """The format that the name of the output file stands for."""
    suffix = "" if out is None else out.suffix.lower()
    if suffix not in _FORMAT_OF_SUFFIX:
        raise DataError(
            f"--out {out}: files ending in {suffix} have no format of their own; pass --format jsonl, csv, tsv or "
            "parquet."
        )
    return _FORMAT_OF_SUFFIX[suffix]


def _set_threshold(opened: "Model", recall: float | None, precision: float | None, proba: bool) -> float:
    if recall is None and precision is None:
        return float("-inf")
    cut: float = opened.classifier.set_coverage(recall=recall, precision=precision).threshold
    return float(opened.classifier.calibration_.probability(cut)) if proba else cut


def _threshold(opened: "Model", threshold: float | Literal["learned"], proba: bool) -> float:
    if threshold != "learned":
        return float(threshold)
    calibration = opened.classifier.calibration_
    if calibration is None:
        raise DataError(f"{opened.path}: learned no threshold, it was fitted with calibrate=false. Give a number.")
    learned = calibration.threshold_
    return float(calibration.probability(learned)) if proba else learned


def predict_rows(
    classifier: Any, rows: "UnlabeledRows", k: int, threshold: float, *, first_row: int = 0, **options: Any
) -> Iterator[Row]:
    """Yield the labels of rows that score at least ``threshold``, k at most; ``options`` are those of predict_topk."""
    labels, scores = classifier.predict_topk(rows.X, k, **options)
    names, ids_of = classifier.label_names_, classifier.label_ids_
    kept = (labels >= 0) & (scores >= threshold)
    for number in range(len(labels)):
        columns = labels[number][kept[number]].tolist()
        id, title = (None if parts is None else parts[number] for parts in (rows.ids, rows.titles))
        found = scores[number][kept[number]].tolist()
        uris = None if ids_of is None else [str(ids_of[c]) for c in columns]
        yield Row(first_row + number, id, title, columns, uris, [str(names[c]) for c in columns], found)


def _identity(row: Row) -> dict[str, Any]:
    """The number of a row, and its id and title if it has them."""
    found = {"row": row.number, "id": row.id, "title": row.title}
    return {name: value for name, value in found.items() if value is not None}


def _as_json(row: Row, kind: str) -> dict[str, Any]:
    uris = {} if row.ids is None else {"uris": row.ids}
    return _identity(row) | {"labels": row.names} | uris | {kind: [_short(score) for score in row.scores]}


def _json_lines(rows: list[Row], kind: str, n_labels: int) -> Iterator[str]:
    return (json_format.dumps(_as_json(row, kind), ensure_ascii=False) + "\n" for row in rows)


def _csv_lines(rows: list[Row], kind: str, n_labels: int, delimiter: str = ",") -> Iterator[str]:
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n", delimiter=delimiter)
    known = list(_identity(rows[0])) if rows else ["row"]
    uri = ["uri"] if rows and rows[0].ids is not None else []
    table.writerow((*known, "rank", *uri, "label", "probability" if kind == "probabilities" else "score"))
    for row in rows:
        for slot, (name, score) in enumerate(zip(row.names, row.scores, strict=True)):
            its = [] if row.ids is None else [row.ids[slot]]
            table.writerow((*_identity(row).values(), slot + 1, *its, name, _short(score)))
    yield written.getvalue()


def write_parquet_rows(stream: BinaryIO, rows: list[Row], kind: str) -> None:
    """Write predictions as a Parquet table of rows with lists of labels and scores."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingDependencyError(
            'Parquet files need pyarrow, which is not installed: pip install "pysldl[arrow]".'
        ) from None
    strings, numbers = pyarrow.list_(pyarrow.string()), pyarrow.list_(pyarrow.float32())
    types = {"row": pyarrow.int64(), "id": pyarrow.string(), "title": pyarrow.string()}
    known = list(_identity(rows[0])) if rows else ["row"]
    columns = {name: pyarrow.array([_identity(row)[name] for row in rows], types[name]) for name in known}
    if rows and rows[0].ids is not None:
        columns["uris"] = pyarrow.array([row.ids for row in rows], strings)
    columns |= {
        "labels": pyarrow.array([row.names for row in rows], strings),
        kind: pyarrow.array([row.scores for row in rows], numbers),
    }
    parquet.write_table(pyarrow.table(columns), stream)


def _xc_lines(rows: list[Row], kind: str, n_labels: int) -> Iterator[str]:
    yield f"{len(rows)} {n_labels}\n"
    for row in rows:
        yield " ".join(f"{c}:{_short(score)}" for c, score in zip(row.columns, row.scores, strict=True)) + "\n"


def _short(score: float) -> float:
    """Six digits, which is what the scores, in single precision, are good for."""
    return float(f"{score:.6g}")


_FORMAT_OF_SUFFIX = {
    "": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
_LINES: dict[str, Callable[[list[Row], str, int], Iterator[str]]] = {
    "jsonl": _json_lines,
    "csv": _csv_lines,
    "tsv": partial(_csv_lines, delimiter="\t"),
    "xc": _xc_lines,
}
