"""`sldl inspect`: what is in a model folder."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from pysldl.cli._input import USUAL_READING, Features, ModelFolder, Reading
from pysldl.cli._output import Json, console, facts, note, print_json, table
from pysldl.exceptions import DataError

if TYPE_CHECKING:
    from pysldl.cli._model import Model
    from pysldl.inspection.card import HeldOut
    from pysldl.inspection.relations import Relations
    from pysldl.persistence import Manifest

LABELS_SHOWN = 30
NUMBERS = ("rows", "of", "share", "sure", "KL", "reverse")


def inspect(
    model: ModelFolder,
    /,
    *,
    labels: bool = False,
    relations: int = 0,
    label: str | None = None,
    card: Path | None = None,
    data: str | None = None,
    split: str | None = None,
    features: Features = "auto",
    reading: Reading = USUAL_READING,
    json: Json = False,
) -> None:
    """Show what a model is made of, its labels and the relations between them.

    Examples: `sldl inspect chess --labels --relations 20`, `sldl inspect chess --label endgame`,
    `sldl inspect chess --card chess.html --data stackex-chess --split test`

    Parameters
    ----------
    labels : bool
        Also show the labels and their numbers of training examples, most frequent first (in JSON all of them).
    relations : int
        Also show N directed relations between labels, strongest first, with the share of rows and how sure the
        direction is.
    label : str, optional
        Also show one label: its frequency, and the strongest relations from and to it.
    card : Path, optional
        Write a model card, one HTML page that needs no network: data, settings, quality on held-out examples by
        frequency, calibration, strongest relations, known limits.
    data : str, optional
        Rows to measure the quality on for the card: a file, or a name of the catalog. Default: held-out training rows,
        whose results a calibrated model keeps.
    split : str, optional
        Only the rows of this split of the data. Default: test if there is such a split, else all.
    """
    from pysldl.persistence import read_manifest

    if data is not None and card is None:
        raise DataError("--data is for the model card: give --card FILE, or use sldl evaluate.")
    result = _facts(model, read_manifest(model))
    found = _ask_model(model, result, labels, relations, label)
    if card is not None:
        _write_card(model, card, data, split, features, reading)
        result["card"] = str(card)
    if json:
        print_json(result | {key: [relation.to_dict() for relation in some] for key, some in found.items()})
    else:
        _print(result, found)


def relations_table(title: str, relations: "Relations", **extra: list[str]) -> Table:
    """Return directed relations as a table, one per row, with further columns if given."""
    made = table(title, *relations.columns, *extra, numbers=NUMBERS)
    for row, *more in zip(relations.rows(), *extra.values(), strict=True):
        cells = [f"{cell:.2f}" if isinstance(cell, float) else escape(str(cell)) for cell in row]
        made.add_row(*cells, *more)
    return made


def _facts(model: Path, manifest: "Manifest") -> dict[str, Any]:
    """Return the facts of the manifest."""
    return {
        "model": str(model),
        "class": manifest.model_class,
        "format_version": manifest.format_version,
        "library_version": manifest.library_version,
        "created": manifest.created,
        "n_features": manifest.n_features,
        "n_labels": manifest.n_labels,
        "bytes": manifest.n_bytes,
        "files": {name: asdict(record) for name, record in manifest.files.items()},
        "fitted_on": manifest.extra,
        "parameters": manifest.parameters,
    }


def _ask_model(
    model: Path, result: dict[str, Any], labels: bool, relations: int, label: str | None
) -> "dict[str, Relations]":
    """Add the labels, or one label, to the result; return the relations that were asked for."""
    from pysldl.inspection.relations import TOP_OF_LABEL
    from pysldl.persistence import load_model

    if not (labels or relations or label is not None):
        return {}
    found = {}
    classifier = load_model(model)
    counts = classifier.label_counts_
    if labels:
        order = (-counts).argsort(kind="stable")
        result["labels"] = {str(classifier.label_names_[i]): int(counts[i]) for i in order}
    if (relations or label is not None) and not hasattr(classifier, "label_relations"):
        raise DataError(
            f"{model}: a {result['class']} knows no relations between labels. The presets of SLDL do, such as "
            "`sldl fit --preset paper`."
        )
    if relations:
        found["relations"] = classifier.label_relations(relations)
    if label is not None:
        column = classifier.label_column(label)
        found["label_relations"] = classifier.label_relations(TOP_OF_LABEL, label=label)
        result["label"] = {"name": label, "column": column, "count": int(counts[column])}
    return found


def _write_card(
    model: Path, target: Path, data: str | None, split: str | None, features: Features, reading: Reading
) -> None:
    from pysldl.cli._model import open_model
    from pysldl.inspection.card import make_card, write_card

    opened = open_model(model)
    held_out = None if data is None else _measure(opened, data, split, features, reading)
    write_card(make_card(model.resolve().name, opened.classifier, opened.manifest, held_out), target)
    note(f"wrote {target}")


def _measure(opened: "Model", data: str, split: str | None, features: Features, reading: Reading) -> "HeldOut":
    """Return the quality of a model on rows of a data set."""
    from pysldl.cli._input import choose_rows, read_data
    from pysldl.estimator.calibration import LABELS_PER_ROW
    from pysldl.inspection.card import HeldOut
    from pysldl.metrics.reliability import reliability_report

    classifier = opened.classifier
    dataset = read_data(data, reading, n_features=classifier.n_features_in_)
    rows, part = choose_rows(dataset, split, usual="test")
    truth = opened.truth_of(rows, "keep")
    k = min(LABELS_PER_ROW, len(classifier.label_names_))
    labels, scores = classifier.predict_topk(opened.rows_of(rows, features), k)
    calibration = classifier.calibration_
    probabilities = None if calibration is None else calibration.probability(scores)
    which = f"rows of {dataset.name}, split {part}"
    if opened.was_fitted_on(dataset.name, part):
        which += ", WHICH THE MODEL WAS FITTED ON: the figures say nothing about new rows"
    return HeldOut.from_summary(reliability_report(labels, truth.Y, probabilities), truth.counts, which)


def _print(result: dict[str, Any], found: "dict[str, Relations]") -> None:
    from pysldl._utils.memory import format_bytes
    from pysldl.inspection.card.content import flat_parameters

    screen = console()
    plain = ("model", "class", "format_version", "library_version", "created", "n_features", "n_labels")
    screen.print(facts({name: result[name] for name in plain} | {"size": format_bytes(result["bytes"])}))
    for title in ("fitted_on", "parameters"):
        if result[title]:
            screen.print(f"\n[bold]{title.replace('_', ' ')}[/]")
            screen.print(facts(flat_parameters(result[title])))
    if "labels" in result:
        shown = table("labels by frequency", "label", "training rows", numbers=("training rows",))
        for name, count in list(result["labels"].items())[:LABELS_SHOWN]:
            shown.add_row(escape(name), str(count))
        screen.print(shown)
        if len(result["labels"]) > LABELS_SHOWN:
            screen.print(f"and {len(result['labels']) - LABELS_SHOWN} more; --json shows all")
    if "relations" in found:
        screen.print(relations_table("strongest relations", found["relations"]))
    if "label" in result:
        label = result["label"]
        title = f"{escape(label['name'])}: column {label['column']}, {label['count']} training rows"
        screen.print(relations_table(title, found["label_relations"]))
