"""The content of a model card, and the card as one HTML file that needs no network."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from pysldl._utils.files import write_atomically
from pysldl._utils.memory import format_bytes
from pysldl._utils.page_templates import page_style, page_templates
from pysldl.exceptions import DataError
from pysldl.inspection.relations import TOP, Relations, sure_text
from pysldl.metrics.reliability import by_frequency
from pysldl.persistence import Manifest

FEW_ROWS = 5  # labels with fewer training rows are named in the limits
LARGE_GAP = 0.1  # between predicted and observed probability

METRIC_NAMES = {"P": "precision (P)", "R": "recall (R)"}


@dataclass(frozen=True)
class HeldOut:
    """Quality of a model on held-out rows.

    Attributes
    ----------
    rows : str
        Which rows these are.
    n_rows : int
    metrics : mapping of str to float
        P, nDCG and R at k, in [0, 1].
    groups : list of dict
        Of :func:`~pysldl.metrics.reliability.by_frequency`.
    reliability : list of dict
        Of :func:`~pysldl.metrics.reliability.reliability`; empty if the model has no probabilities.
    """

    rows: str
    n_rows: int
    metrics: Mapping[str, float]
    groups: list[dict[str, Any]]
    reliability: list[dict[str, float]]

    @classmethod
    def from_summary(cls, summary: Mapping[str, Any], counts: Any, rows: str) -> "HeldOut":
        """Take over a :func:`~pysldl.metrics.reliability.reliability_report`, given the training rows of labels."""
        n_labels = len(summary["n_true"])  # labels added by `sldl update` had no part in it
        groups = by_frequency(summary["n_true"], summary["n_found"], np.asarray(counts)[:n_labels])
        return cls(rows, summary["n_rows"], summary["metrics"], groups, summary["reliability"])

    @property
    def calibration_error(self) -> float | None:
        """Mean distance of predicted probability and observed share, weighted by the predictions in each bin."""
        total = sum(group["n"] for group in self.reliability)
        if not total:
            return None
        return sum(group["n"] * abs(group["predicted"] - group["observed"]) for group in self.reliability) / total


@dataclass(frozen=True)
class ModelCard:
    """Everything that a model card shows.

    Attributes
    ----------
    name : str
    data, settings : mapping of str to str
    held_out : HeldOut or None
        None if nothing is known.
    relations : Relations or None
        None if the model keeps no training labels.
    limits : list of str
        Known limits, one sentence each.
    """

    name: str
    data: Mapping[str, str]
    settings: Mapping[str, str]
    held_out: HeldOut | None
    relations: Relations | None
    limits: list[str]


def make_card(name: str, model: Any, manifest: Manifest, held_out: HeldOut | None = None) -> ModelCard:
    """Return the card of a loaded model.

    Parameters
    ----------
    name : str
    model : SLDLClassifier or another classifier of the library
    manifest : Manifest
        Of the model folder.
    held_out : HeldOut, optional
        Quality on other rows. Default: that on held-out training rows, which a calibrated model keeps.
    """
    if held_out is None:
        summary = getattr(model.calibration_, "held_out_", None)
        if summary is not None:
            rows = "training rows, held out from the mapping and from the neighbors that score them"
            held_out = HeldOut.from_summary(summary, model.label_counts_, rows)
    return ModelCard(
        name=name,
        data=_data(model, manifest),
        settings={key: str(value) for key, value in flat_parameters(manifest.parameters).items()},
        held_out=held_out,
        relations=_relations(model),
        limits=_limits(model, manifest, held_out),
    )


def flat_parameters(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested parameters under dotted names, as ``sldl fit --set`` takes them."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict) and "class" in value:
            flat[f"{prefix}{name}"] = value["class"]
            rest = {key: part for key, part in value.items() if key != "class"}
            flat |= flat_parameters(rest, f"{prefix}{name}.")
        elif value is not None:
            flat[f"{prefix}{name}"] = value
    return flat


def _data(model: Any, manifest: Manifest) -> dict[str, str]:
    counts = model.label_counts_
    n_samples = getattr(model, "n_samples_", None) or manifest.extra.get("n_samples")
    vocabulary = getattr(model, "vocabulary_", None)
    about = {
        "data set": manifest.extra.get("data"),
        "split": manifest.extra.get("split"),
        "features": manifest.extra.get("features"),
        "training rows": None if n_samples is None else f"{n_samples:,}",
        "number of features": f"{model.n_features_in_:,}",
        "labels": f"{len(counts):,}",
        "labels seen in training": f"{int((counts > 0).sum()):,}",
        "labels per row": None if not n_samples else f"{counts.sum() / n_samples:.2f}",
        "vocabulary": None if vocabulary is None else f"{len(vocabulary):,} concepts, shown in {vocabulary.language!r}",
        "training rows of a label": f"median {np.median(counts[counts > 0]):.0f}, largest {counts.max():,}",
        "updates since the fit": len(manifest.extra.get("updates", [])) or None,
        "written": f"{_moment(manifest.created)} by pysldl {manifest.library_version}",
        "size": format_bytes(manifest.n_bytes),
    }
    return {key: str(value) for key, value in about.items() if value is not None}


def _moment(created: str) -> str:
    """Return a time to the minute; unchanged if it is not in ISO format."""
    try:
        return datetime.fromisoformat(created).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:
        return created


def _relations(model: Any) -> Relations | None:
    if not hasattr(model, "label_relations"):
        return None
    try:
        return Relations(model.label_relations(TOP))
    except DataError:  # a decoder that keeps no training labels
        return None


def _limits(model: Any, manifest: Manifest, held_out: HeldOut | None) -> list[str]:
    counts = model.label_counts_
    limits = []
    if unseen := int((counts == 0).sum()):
        limits.append(f"{unseen:,} of {len(counts):,} labels are on no training row and are never predicted.")
    targets = getattr(model, "label_targets_", None)
    if targets is not None and (gone := int((targets != np.arange(len(targets))).sum())):
        limits.append(f"{gone:,} labels were merged or deprecated in the vocabulary and are not suggested themselves.")
    if rare := int(((counts > 0) & (counts < FEW_ROWS)).sum()):
        limits.append(f"{rare:,} labels have fewer than {FEW_ROWS} training rows; expect them to be missed often.")
    limits += _limits_of_results(model, held_out)
    if getattr(model, "vectorizer_", None) is not None:
        limits.append("Words that the training texts do not contain are ignored.")
    if getattr(getattr(model, "embedding_", None), "converged_", True) is False:
        limits.append("The embedding stopped at its last step while its loss was still falling.")
    if manifest.extra.get("updates"):
        limits.append(
            "Rows were added or removed since the fit; threshold, probabilities and quality are those of the fit."
        )
    limits.append("Relations say which labels go together in the training rows, not what causes what.")
    return limits


def _limits_of_results(model: Any, held_out: HeldOut | None) -> list[str]:
    if held_out is None:
        return ["Nothing is known about the quality on rows that the model did not learn from."]
    limits = []
    if model.calibration_ is None:
        limits.append("The model was not calibrated: it has scores, but no probabilities and no threshold.")
    gap = max(held_out.reliability, key=lambda group: abs(group["predicted"] - group["observed"]), default=None)
    if gap is not None and abs(gap["predicted"] - gap["observed"]) > LARGE_GAP:
        limits.append(
            f"Probabilities near {gap['predicted']:.0%} came true in {gap['observed']:.0%} of {gap['n']:,} cases."
        )
    known = [group for group in held_out.groups if group["recall"] is not None]
    if len(known) > 1 and known[0]["recall"] < known[-1]["recall"]:
        rare, common = known[0], known[-1]
        limits.append(
            f"Of true labels on {_rows(rare)}, {rare['recall']:.0%} are among the five best; of those on "
            f"{_rows(common)}, {common['recall']:.0%}."
        )
    return limits


def _rows(group: Mapping[str, Any]) -> str:
    if group["to"] is None:
        return f"{group['from']:,} or more training rows"
    if group["to"] == 1:
        return "a single training row"
    return f"{group['from']:,} to {group['to']:,} training rows"


def render_card(card: ModelCard) -> str:
    """Return the card as HTML with its style and drawings inside; equal cards give equal pages."""
    environment, templates = page_templates("pysldl.inspection.card", "The model card")
    environment.filters["percent"] = lambda share: "–" if share is None else f"{100 * share:.1f}"
    environment.filters["metric_rows"] = _metric_rows
    environment.filters["sure"] = sure_text
    style = page_style(templates / "card.css")
    page: str = environment.get_template("card.html.jinja").render(card=card, style=style)
    return page + "\n"


def write_card(card: ModelCard, path: Path) -> Path:
    """Write the card to ``path``, replacing an older file only once the new one is complete."""
    return write_atomically(path, render_card(card))


def _metric_rows(metrics: dict[str, float]) -> tuple[list[str], list[tuple[str, list[float | None]]]]:
    """Return ``{"P@1": ..., "R@5": ...}`` as a table: the cutoffs, and for each metric its values at them."""
    names = list(dict.fromkeys(key.partition("@")[0] for key in metrics))
    cutoffs = sorted({key.partition("@")[2] for key in metrics}, key=int)
    return cutoffs, [(METRIC_NAMES.get(name, name), [metrics.get(f"{name}@{k}") for k in cutoffs]) for name in names]
