"""`sldl inspect`: what is in a model folder."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from pysldl.cli._output import console, facts, percent, print_json, table

if TYPE_CHECKING:
    from pysldl.relations import LabelRelation

__all__ = ["inspect", "relations_table"]

LABELS_SHOWN = 30


def inspect(
    model: Path,
    /,
    *,
    labels: bool = False,
    relations: int = 0,
    label: str | None = None,
    json: bool = False,
) -> int:
    """Show what a model is made of, its labels and the relations between them.

    Examples: `sldl inspect chess --labels --relations 20`, `sldl inspect chess --label endgame`

    Parameters
    ----------
    model : Path
        Folder that `sldl fit` wrote.
    labels : bool
        Also the labels and how often each occurred in training, most frequent first (in JSON all of them).
    relations : int
        Also so many directed relations between labels, strongest first.
    label : str, optional
        Also one label: its frequency, and the relations from and to it.
    json : bool
        Print one JSON object.
    """
    from pysldl.persistence import load_model, read_manifest

    manifest = read_manifest(model)
    result: dict[str, Any] = {
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
    found: dict[str, list[LabelRelation]] = {}
    if labels or relations or label is not None:
        classifier = load_model(model)
        if labels:
            order = (-classifier.label_counts_).argsort(kind="stable")
            result["labels"] = {str(classifier.label_names_[i]): int(classifier.label_counts_[i]) for i in order}
        if relations:
            found["relations"] = classifier.label_relations(relations)
        if label is not None:
            column = classifier.label_column(label)
            found["label_relations"] = classifier.label_relations(None, label=label, per_label=3)
            result["label"] = {"name": label, "column": column, "count": int(classifier.label_counts_[column])}
    if json:
        print_json(result | {key: [asdict(relation) for relation in some] for key, some in found.items()})
    else:
        _print(result, found)
    return 0


def relations_table(title: str, relations: "list[LabelRelation]", **extra: list[str]) -> Any:
    """Directed relations, one a row, with further columns if given."""
    numbers = ("KL", "reverse", "rows", "of", "%")
    made = table(title, "label", "implies", *numbers, *extra, numbers=numbers)
    for position, relation in enumerate(relations):
        made.add_row(
            escape(relation.source),
            escape(relation.target),
            f"{relation.kl:.2f}",
            f"{relation.kl_reverse:.2f}",
            str(relation.n_both),
            str(relation.n_source),
            percent(relation.confidence),
            *(values[position] for values in extra.values()),
        )
    return made


def _print(result: dict[str, Any], found: "dict[str, list[LabelRelation]]") -> None:
    from pysldl.memory import format_bytes

    screen = console()
    plain = ("model", "class", "format_version", "library_version", "created", "n_features", "n_labels")
    screen.print(facts({name: result[name] for name in plain} | {"size": format_bytes(result["bytes"])}))
    for title in ("fitted_on", "parameters"):
        if result[title]:
            screen.print(f"\n[bold]{title.replace('_', ' ')}[/]")
            screen.print(facts(_flat(result[title])))
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


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested parameters under dotted names, as ``sldl fit --set`` takes them."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict) and "class" in value:
            flat[f"{prefix}{name}"] = value["class"]
            rest = {key: part for key, part in value.items() if key != "class"}
            flat |= _flat(rest, f"{prefix}{name}.")
        elif value is not None:
            flat[f"{prefix}{name}"] = value
    return flat
