"""The card as one HTML file that needs no network."""

from importlib import resources
from pathlib import Path
from typing import Any

from pysldl._utils.files import write_atomically
from pysldl.exceptions import MissingDependencyError
from pysldl.inspection.card.content import ModelCard
from pysldl.inspection.relations import sure_text

__all__ = ["render_card", "write_card"]

FAMILIES = {"P": "precision (P)", "R": "recall (R)"}


def render_card(card: ModelCard) -> str:
    """The page as HTML with its style and drawings inside; equal cards give equal pages."""
    try:
        import jinja2
        import markupsafe
    except ImportError:
        raise MissingDependencyError(
            'The model card needs jinja2, which is not installed: pip install "pysldl[plot]".'
        ) from None
    templates = resources.files("pysldl.inspection.card") / "templates"
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (templates / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = lambda share: "–" if share is None else f"{100 * share:.1f}"
    environment.filters["metric_rows"] = _metric_rows
    environment.filters["sure"] = sure_text
    style: Any = markupsafe.Markup((templates / "card.css").read_text(encoding="utf-8"))
    return environment.get_template("card.html.jinja").render(card=card, style=style) + "\n"


def write_card(card: ModelCard, path: Path) -> Path:
    """Write the page to ``path``, replacing an older one only once the new one is complete."""
    return write_atomically(path, render_card(card))


def _metric_rows(metrics: dict[str, float]) -> tuple[list[str], list[tuple[str, list[float | None]]]]:
    """``{"P@1": ..., "R@5": ...}`` as a table: the cutoffs, and for each metric its values at them."""
    names = list(dict.fromkeys(key.partition("@")[0] for key in metrics))
    cutoffs = sorted({key.partition("@")[2] for key in metrics}, key=int)
    return cutoffs, [(FAMILIES.get(name, name), [metrics.get(f"{name}@{k}") for k in cutoffs]) for name in names]
