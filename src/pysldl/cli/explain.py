"""`sldl explain`: why a row gets a label."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pysldl.cli._input import STANDARD_INPUT, USUAL_READING, Data, Features, Reading
from pysldl.cli._output import Json, console, print_json
from pysldl.exceptions import DataError

if TYPE_CHECKING:
    from pysldl.cli._model import UnlabeledRows
    from pysldl.inspection.explanation import Explanation

USUAL_K = 3
EXCERPT = 80


def explain(
    model: Path,
    data: Data = STANDARD_INPUT,
    /,
    *,
    label: list[str] | None = None,
    row: int = 0,
    id: str | None = None,
    k: int = USUAL_K,
    top: int = 5,
    split: str | None = None,
    features: Features = "auto",
    reading: Reading = USUAL_READING,
    json: Json = False,
) -> None:
    """Show why a row gets its labels: similar training examples, and the words that speak for or against them.

    Examples: `echo "a text to label" | sldl explain posts`, `sldl explain posts new.jsonl --row 3 --label openings`

    Parameters
    ----------
    model : Path
        Folder that `sldl fit` wrote, of a preset of SLDL.
    label : list of str, optional
        Labels to explain. Default: the best ones of the row.
    row : int
        Number of the row in the data, from 0.
    id : str, optional
        The row with this id instead.
    k : int
        Number of best labels to explain if --label does not name any.
    top : int
        Training examples and words shown for a label.
    split : str, optional
        Count only the rows of this split.
    """
    from pysldl.cli._model import open_model, read_unlabeled

    opened = open_model(model)
    classifier = opened.classifier
    if not hasattr(classifier, "explain"):
        raise DataError(
            f"{model}: a {opened.manifest.model_class} does not explain its predictions; SLDL's presets do."
        )
    rows = read_unlabeled(opened, data, split, features, reading)
    number = _row_number(rows, row, id, data)
    x = rows.X[number] if isinstance(rows.X, list) else rows.X[[number]]
    labels: list[Any] = list(label or [])
    if not labels:
        best, _ = classifier.predict_topk([x] if isinstance(x, str) else x, min(k, len(classifier.label_names_)))
        labels = [int(column) for column in best[0] if column >= 0]
    found = [classifier.explain(x, one, top=top) for one in labels]
    excerpts = getattr(classifier, "training_excerpts_", None)
    if json:
        print_json(_as_json(rows, number, found, excerpts))
    else:
        _print(rows, number, found, excerpts)


def _row_number(rows: "UnlabeledRows", row: int, id: str | None, data: str) -> int:
    if id is not None:
        if rows.ids is None or id not in rows.ids:
            raise DataError(f"--id {id}: {data} has no row with this id.")
        return list(rows.ids).index(id)
    if not 0 <= row < len(rows):
        raise DataError(f"--row {row}: {data} has {len(rows)} rows, counted from 0.")
    return row


def _identity(rows: "UnlabeledRows", number: int) -> dict[str, Any]:
    known = {"row": number}
    parts = (("id", rows.ids), ("title", rows.titles))
    return known | {name: values[number] for name, values in parts if values is not None}


def _as_json(rows: "UnlabeledRows", number: int, found: "list[Explanation]", excerpts: Any) -> dict[str, Any]:
    explanations = [asdict(explanation) for explanation in found]
    if excerpts is not None:
        for explanation in explanations:
            for neighbor in explanation["neighbors"]:
                neighbor["excerpt"] = str(excerpts[neighbor["row"]])
    return _identity(rows, number) | {"explanations": explanations}


def _print(rows: "UnlabeledRows", number: int, found: "list[Explanation]", excerpts: Any) -> None:
    screen = console()
    said = ", ".join(f"{name} {value}" for name, value in _identity(rows, number).items())
    screen.print(said, style="bold", markup=False, soft_wrap=True)
    for explanation in found:
        screen.print(str(explanation), markup=False, soft_wrap=True)
        if excerpts is not None:
            for neighbor in explanation.neighbors:
                screen.print(
                    f"  row {neighbor.row}: {str(excerpts[neighbor.row])[:EXCERPT]}", markup=False, style="dim"
                )
    if not found:
        screen.print("no label is predicted: the row has no feature that the model knows", markup=False)
