"""`sldl predict`: labels by name for rows of data."""

import csv
import io
import json as json_format
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pysldl.cli._input import STANDARD_INPUT, Data, Reading, choose_rows, local_file, read_data
from pysldl.cli._output import console, print_json
from pysldl.exceptions import DataError

if TYPE_CHECKING:
    from pysldl.cli._model import Features, Model

__all__ = ["predict"]

USUAL_K = 5
K_WITH_THRESHOLD = 100
OF_LABELED_FILES = ("labels", "split", "separator", "name")  # of no concern where only texts are read


class Row(NamedTuple):
    """The labels of one row, best first."""

    number: int
    columns: list[int]
    names: list[str]
    scores: list[float]


def predict(
    model: Path,
    data: Data = STANDARD_INPUT,
    /,
    *,
    k: int | None = None,
    threshold: float | Literal["learned"] | None = None,
    proba: bool = False,
    out: Path | None = None,
    format: Literal["jsonl", "csv", "xc"] | None = None,
    split: str | None = None,
    features: Literal["auto", "raw", "tfidf"] = "auto",
    reading: Reading | None = None,
    json: bool = False,
) -> int:
    """Predict the labels of every row, by name, best first.

    Examples: `sldl predict chess stackex-chess --k 3 --out labels.csv`,
    `echo "a text to label" | sldl predict posts`

    A model of texts takes JSON lines, CSV or one text a line; labels in the file are ignored.

    Parameters
    ----------
    model : Path
        Folder that `sldl fit` wrote.
    data : str
        A file, a name of the catalog, or - for standard input.
    k : int, optional
        Maximum labels per row. Default: 5, or 100 with a threshold.
    threshold : float or "learned", optional
        Leave out labels that score less; learned takes the threshold that was best on held-out training examples.
    proba : bool
        Give calibrated probabilities instead of scores.
    out : Path, optional
        File to write, atomically. Default: standard output.
    format : {"jsonl", "csv", "xc"}, optional
        A JSON object a row; a table of row, rank, label and score; or the repository's score file, with columns in
        place of names. Default: by the suffix of --out (.jsonl, .ndjson, .csv); jsonl on standard output.
    split : str, optional
        Only the rows of this split.
    features : {"auto", "raw", "tfidf"}
        How to take raw term counts; auto does what was done in fitting.
    reading : Reading, optional
    json : bool
        Print one JSON object: the predictions, or with --out a summary.
    """
    from pysldl._utils.files import open_atomic
    from pysldl.cli._model import open_model

    written_as = format or _format_of(out)
    opened = open_model(model)
    limit = k if k is not None else USUAL_K if threshold is None else K_WITH_THRESHOLD
    cut = _threshold(opened, threshold, proba)
    rows = list(_predict(opened, _rows(opened, data, split, features, reading), limit, cut, proba))
    kind = "probabilities" if proba else "scores"
    lines = _LINES[written_as](rows, kind, len(opened.classifier.label_names_))
    if out is not None:
        with open_atomic(out) as stream:
            stream.writelines(line.encode() for line in lines)
        summary = {"model": str(model), "out": str(out), "format": written_as, "rows": len(rows)}
        summary["labels"] = sum(len(row.names) for row in rows)
        if json:
            print_json(summary)
        else:
            console().print(f"wrote {out}: {len(rows)} rows", markup=False, soft_wrap=True)
    elif json:
        print_json({"model": str(model), "predictions": [_as_json(row, kind) for row in rows]})
    else:
        sys.stdout.writelines(lines)
    return 0


def _format_of(out: Path | None) -> str:
    """The format that the name of the output file stands for."""
    suffix = "" if out is None else out.suffix.lower()
    if suffix not in _FORMAT_OF_SUFFIX:
        raise DataError(
            f"--out {out}: files ending in {suffix} have no format of their own; pass --format jsonl or csv."
        )
    return _FORMAT_OF_SUFFIX[suffix]


def _rows(opened: "Model", data: str, split: str | None, features: "Features", reading: Reading | None) -> Any:
    """What the model shall predict for: features, or texts, which may come without labels."""
    from pysldl.datasets.text import read_texts

    is_file = data == STANDARD_INPUT or Path(data).is_file()
    if opened.takes_texts and is_file and split is None:
        reading = reading or Reading()
        with local_file(data) as path:
            return read_texts(
                path, text=reading.text or "text", format=reading.input_format, **_reading_options(reading, data)
            )
    dataset = read_data(data, reading, n_features=opened.classifier.n_features_in_)
    return opened.rows_of(choose_rows(dataset, split)[0], features)


def _reading_options(reading: Reading, data: str) -> dict[str, Any]:
    """Those of the options of ``--read`` that concern texts; others than those of a labeled file are refused."""
    options = reading.options()
    unknown = [name for name in options if name not in ("text", "delimiter", *OF_LABELED_FILES)]
    if unknown:
        raise DataError(f"--read {unknown[0]}: {data} is read for its texts, which takes no such option.")
    return {"delimiter": options["delimiter"]} if "delimiter" in options else {}


def _threshold(opened: "Model", threshold: float | Literal["learned"] | None, proba: bool) -> float:
    if threshold is None:
        return float("-inf")
    if threshold != "learned":
        return float(threshold)
    calibration = opened.classifier.calibration_
    if calibration is None:
        raise DataError(f"{opened.path}: learned no threshold, it was fitted with calibrate=false. Give a number.")
    learned = calibration.threshold_
    return float(calibration.probability(learned)) if proba else learned


def _predict(opened: "Model", rows: Any, k: int, threshold: float, proba: bool) -> Iterator[Row]:
    labels, scores = opened.classifier.predict_topk(rows, k, proba=proba)
    names = opened.classifier.label_names_
    kept = (labels >= 0) & (scores >= threshold)
    for number in range(len(labels)):
        columns = labels[number][kept[number]].tolist()
        yield Row(number, columns, [str(names[c]) for c in columns], scores[number][kept[number]].tolist())


def _as_json(row: Row, kind: str) -> dict[str, Any]:
    return {"row": row.number, "labels": row.names, kind: [_short(score) for score in row.scores]}


def _json_lines(rows: list[Row], kind: str, n_labels: int) -> Iterator[str]:
    return (json_format.dumps(_as_json(row, kind), ensure_ascii=False) + "\n" for row in rows)


def _csv_lines(rows: list[Row], kind: str, n_labels: int) -> Iterator[str]:
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(("row", "rank", "label", "probability" if kind == "probabilities" else "score"))
    for row in rows:
        for rank, (name, score) in enumerate(zip(row.names, row.scores, strict=True), start=1):
            table.writerow((row.number, rank, name, _short(score)))
    yield written.getvalue()


def _xc_lines(rows: list[Row], kind: str, n_labels: int) -> Iterator[str]:
    yield f"{len(rows)} {n_labels}\n"
    for row in rows:
        yield " ".join(f"{c}:{_short(score)}" for c, score in zip(row.columns, row.scores, strict=True)) + "\n"


def _short(score: float) -> float:
    """Six digits, which is what the scores, in single precision, are good for."""
    return float(f"{score:.6g}")


_FORMAT_OF_SUFFIX = {"": "jsonl", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
_LINES = {"jsonl": _json_lines, "csv": _csv_lines, "xc": _xc_lines}
