"""A model with its card in Markdown, in a folder as model hubs take them."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from pysldl._utils.files import new_folder, write_atomically
from pysldl.exceptions import DataError
from pysldl.inspection.card.content import ModelCard, make_card
from pysldl.persistence import load_model, read_current, read_manifest
from pysldl.persistence.versions import copy_version

README, MODEL = "README.md", "model"
EXAMPLE_LABELS = 20
# What the header of a card calls the metrics.
METRIC_TYPES = {"P": "precision", "R": "recall", "nDCG": "ndcg"}


def export_model(
    path: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    name: str | None = None,
    license: str | None = None,
    language: str | None = None,
) -> Path:
    """Write a folder that a model hub takes: ``README.md``, the card, and ``model``, the current version.

    Parameters
    ----------
    path : str or path
        A model folder.
    folder : str or path
        To make, whole or not at all; an empty folder is taken, too. What an export that was killed left beside it is
        removed.
    name : str, optional
        Title of the card. Default: that of the model folder.
    license, language : str, optional
        For the header of the card: an identifier such as ``cc-by-4.0``, and a code such as ``fi``.

    Returns
    -------
    Path
        The folder.
    """
    target = Path.cwd() / folder
    if not target.parent.is_dir():
        raise DataError(f"{target.parent}: no such folder to write {target.name} into.")
    if os.path.lexists(target) and (not target.is_dir() or any(target.iterdir())):
        raise DataError(f"{folder}: exists already. Choose another folder for the export.")
    title = Path(path).resolve().name if name is None else name
    with new_folder(target) as part:

        def copy(version: Path) -> str:
            shutil.rmtree(part / MODEL, ignore_errors=True)
            card = make_card(title, model := load_model(version), read_manifest(version))
            copy_version(version, part / MODEL)
            return hub_readme(card, model, license=license, language=language)

        write_atomically(part / README, read_current(path, copy))
    return target


def hub_readme(card: ModelCard, model: Any, *, license: str | None = None, language: str | None = None) -> str:
    """Return a model card in Markdown with a YAML header; equal cards give equal texts.

    Parameters
    ----------
    card : ModelCard
    model : SLDLClassifier or another classifier of the library
    license, language : str, optional
        As in :func:`export_model`.
    """
    parts = [_header(card, model, license, language), f"# {_plain(card.name)}\n", _intended_use(card, model)]
    parts += ["## Use\n", _usage(card, model)]
    parts += ["## Known limits\n", "\n".join(f"- {_plain(limit)}" for limit in card.limits) + "\n"]
    if card.held_out is not None:
        parts += ["## Quality\n", _quality(card)]
    parts += ["## Training data\n", _table(("", ""), list(card.data.items()))]
    parts += ["## Settings\n", _table(("parameter", "value"), list(card.settings.items()))]
    return "\n".join(parts)


def _header(card: ModelCard, model: Any, license: str | None, language: str | None) -> str:
    """YAML, of which JSON is a part: every value is written as JSON."""
    takes_texts = model.vectorizer_ is not None
    task = "text-classification" if takes_texts else "tabular-classification"
    header: dict[str, Any] = {
        "library_name": "pysldl",
        "pipeline_tag": task,
        "tags": ["multi-label", "extreme-classification", "label-distribution-learning"],
    }
    header |= {} if license is None else {"license": license}
    header |= {} if language is None else {"language": language}
    if card.held_out is not None:
        metrics = [
            {"type": f"{METRIC_TYPES.get(kind, kind.lower())}_at_{k}", "name": f"{kind}@{k}", "value": round(value, 4)}
            for (kind, _, k), value in ((key.partition("@"), value) for key, value in card.held_out.metrics.items())
        ]
        data = {"type": "other", "name": f"{card.data.get('data set', 'own data')}: {card.held_out.rows}"}
        result = {"task": {"type": task}, "dataset": data, "metrics": metrics}
        header["model-index"] = [{"name": card.name, "results": [result]}]
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in header.items()]
    return "\n".join(["---", *lines, "---", ""])


def _intended_use(card: ModelCard, model: Any) -> str:
    what = "texts" if model.vectorizer_ is not None else "rows of features"
    labels = [_plain(str(name)) for name in model.label_names_[(-model.label_counts_).argsort(kind="stable")]]
    some = ", ".join(labels[:EXAMPLE_LABELS]) + (", ..." if len(labels) > EXAMPLE_LABELS else "")
    text = f"Suggests labels for {what}, out of {card.data['labels']}, best first. Most frequent in training: {some}.\n"
    if getattr(model, "training_excerpts_", None) is not None:
        text += "\nThe folder holds excerpts of the training texts.\n"
    return text


def _usage(card: ModelCard, model: Any) -> str:
    given = '["a text to label"]' if model.vectorizer_ is not None else "X"
    about = "" if given != "X" else f"  # X: array or CSR of shape (n, {model.n_features_in_ - model.n_dense_})"
    dense = f", dense=E)  # E: of shape (n, {model.n_dense_})" if model.n_dense_ else f"){about}"
    served = "" if model.n_dense_ else f"\n```\nsldl serve {MODEL}\n```\n"
    return (
        '```\npip install "pysldl[fast]"\n```\n\n'
        "```python\n"
        "from pysldl import load_model\n\n"
        f'clf = load_model("{MODEL}")\n'
        f"labels, scores = clf.predict_topk({given}, k=5, names=True{dense}\n"
        "```\n" + served + "\nThe model folder holds numbers and text only: reading it runs no code.\n"
    )


def _quality(card: ModelCard) -> str:
    held = card.held_out
    assert held is not None
    text = f"On {held.n_rows:,} {held.rows}.\n\n"
    text += _table(("metric", "value"), [(name, f"{value:.4f}") for name, value in held.metrics.items()])
    error = held.calibration_error
    return text if error is None else f"{text}\nMean calibration error of the probabilities: {error:.4f}.\n"


def _table(header: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    lines = [f"| {header[0]} | {header[1]} |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| {_plain(key)} | {_plain(value)} |" for key, value in rows)]) + "\n"


def _plain(text: str) -> str:
    """A name without anything that Markdown or HTML would read as its own."""
    kept = " ".join(text.split())
    for sign in "\\`*_[]<>|":
        kept = kept.replace(sign, f"&#{ord(sign)};")
    return kept
