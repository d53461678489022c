"""The model card as one HTML file that needs no network."""

from pathlib import Path

from pysldl._utils.files import write_atomically
from pysldl._utils.page_templates import page_style, page_templates
from pysldl.inspection.card.content import ModelCard
from pysldl.inspection.relations import sure_text

METRIC_NAMES = {"P": "precision (P)", "R": "recall (R)"}


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
