"""`sldl vocabulary`: what the labels of a model are, and a new version of their vocabulary."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from pysldl.cli._output import Json, print_result
from pysldl.exceptions import DataError

if TYPE_CHECKING:
    from pysldl.cli._model import Model
    from pysldl.datasets import Vocabulary

SHOWN = 10


def vocabulary(
    model: Path,
    /,
    *,
    set_: Annotated[Path | None, Parameter(name="--set")] = None,
    language: str | None = None,
    label: str | None = None,
    json: Json = False,
) -> None:
    """Show the vocabulary of a model or one of its labels, or switch to a new version of the vocabulary.

    Examples: `sldl vocabulary subjects --set thesaurus-2027.ttl`, `sldl vocabulary subjects --label cats`

    Nothing is refitted: renamed concepts get their new names, a replaced concept counts as its replacement, one
    that was deprecated or removed is no longer suggested, and new concepts are learned by `sldl update`.

    Parameters
    ----------
    model : Path
        Folder that `sldl fit` wrote, with or without --vocabulary.
    set_ : Path, optional
        The new vocabulary: SKOS (.ttl, .rdf, .jsonld), .tsv or .csv.
    language : str, optional
        Language of the names that are shown. Default: that of the model, or English if there are English names.
    label : str, optional
        Show this label: by URI, notation or name.
    """
    from pysldl.cli._model import open_model
    from pysldl.datasets import read_vocabulary
    from pysldl.persistence import lock_model

    if set_ is not None:
        with lock_model(model):  # from reading to saving, as an update
            opened = open_model(model)
            old = opened.classifier.vocabulary_
            kept = None if old is None else old.language or None
            result = _changed(opened, read_vocabulary(set_, language=language or kept), set_.name)
    elif label is not None:
        result = _described(open_model(model), label)
    else:
        result = _summary(open_model(model))
    print_result(result, json, {name: _short(value) for name, value in result.items()})


def _changed(opened: "Model", new: "Vocabulary", name: str) -> dict[str, Any]:
    """Set the vocabulary and save the model; what changed."""
    from pysldl.persistence import save_model

    change = opened.classifier.set_vocabulary(new)
    about = opened.manifest.extra
    when = datetime.now(UTC).isoformat(timespec="seconds")
    noted = [*about.get("vocabularies", []), {"file": name, "when": when}]
    extra = about | {"vocabularies": noted}
    save_model(opened.classifier, opened.path, extra=extra, overwrite=True, expected_version=opened.version)
    return {
        "model": str(opened.path),
        "vocabulary": name,
        "concepts": len(new),
        "renamed": change.renamed,
        "merged": change.merged,
        "deprecated": list(change.deprecated),
        "unknown": list(change.unknown),
        "n_new": len(change.new),
    }


def _described(opened: "Model", label: str) -> dict[str, Any]:
    classifier = opened.classifier
    concept = classifier.label_info(label)
    known = classifier.vocabulary_
    names = {kind: [known.display_name(one) for one in getattr(concept, kind)] for kind in _LINKS} if known else {}
    return {
        "label": str(classifier.label_names_[classifier.label_column(label)]),
        "uri": concept.identifier,
        "names": dict(concept.names),
        "other_names": {code: list(texts) for code, texts in concept.other_names.items()},
        "notation": concept.notation,
        **names,
        "training_rows": int(classifier.label_counts_[classifier.label_column(label)]),
    }


def _summary(opened: "Model") -> dict[str, Any]:
    classifier = opened.classifier
    known = classifier.vocabulary_
    if known is None:
        raise DataError(f"{opened.path}: has no vocabulary. Give it one by: sldl vocabulary MODEL --set FILE.")
    inside = [one for one in classifier.label_ids_.tolist() if one in known]
    return {
        "model": str(opened.path),
        "concepts": len(known),
        "languages": [code for code in known.languages_ if code],
        "language": known.language,
        "broader_links": len(known.broader_),
        "labels": len(classifier.label_names_),
        "labels_in_vocabulary": len(inside),
        "labels_not_suggested": int(classifier.never_predicted().sum()),
    }


def _short(value: Any) -> Any:
    """A long list or mapping as its first entries and how many more there are."""
    if isinstance(value, dict):
        value = [f"{old} → {new}" for old, new in value.items()]
    if not isinstance(value, list):
        return value
    more = f" and {len(value) - SHOWN} more; --json shows all" if len(value) > SHOWN else ""
    return ", ".join(map(str, value[:SHOWN])) + more


_LINKS = ("broader", "narrower", "related")
