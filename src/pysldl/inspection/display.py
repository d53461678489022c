"""Tables for notebooks and terminals, and a summary of a fitted model."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

Cell = str | float | int | None

_CELL = "padding:0.15em 0.9em 0.15em 0;vertical-align:top;background:transparent;border:0;"
_CAPTION = "text-align:left;caption-side:top;padding:0.2em 0;color:inherit;white-space:nowrap"
_BAR = "display:inline-block;height:0.7em;min-width:1px;border-radius:1px;"
_COLORS = {True: "#2f7fc1", False: "#c8562b"}
_MAX_LENGTH = 60
STAGES = ("embedding_", "mapping_", "decoder_", "ranker_", "reranker_")


class Markup(str):
    """Text that is HTML already."""


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return a table for a notebook, in the colors of its surroundings; numbers are aligned right."""
    lines = [
        '<table style="border-collapse:collapse;color:inherit;font-size:0.95em;margin:0.3em 0 0.8em">',
        f'<caption style="{_CAPTION}">{_escaped(title)}</caption>',
        "<thead><tr>",
        *(f'<th scope="col" style="{_CELL}text-align:left;opacity:0.7">{_escaped(column)}</th>' for column in columns),
        "</tr></thead><tbody>",
    ]
    for row in rows:
        cells = (f'<td style="{_CELL}text-align:{_alignment(cell)}">{_escaped(_text(cell))}</td>' for cell in row)
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "\n".join([*lines, "</tbody></table>"])


def bar(value: float, largest: float) -> Markup:
    """Return a bar with the length of ``value`` relative to ``largest``, blue if positive and orange if negative."""
    width = 0.0 if largest <= 0 else min(abs(value) / largest, 1.0)
    return Markup(
        f'<span aria-hidden="true" style="{_BAR}width:{6 * width:.2f}em;background:{_COLORS[value >= 0]}"></span>'
    )


def text_table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return a table for a terminal; long texts are cut, and numbers are aligned right."""
    body = [list(row) for row in rows]
    texts = [[_cut(_text(cell)) for cell in row] for row in body]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    signs = [">" if _alignment(cell) == "right" else "<" for cell in (body[0] if body else columns)]
    return "\n".join(
        "  ".join(f"{cell:{sign}{width}}" for cell, sign, width in zip(line, signs, widths, strict=True)).rstrip()
        for line in [list(columns), *texts]
    )


def fitted_summary(model: Any) -> list[tuple[str, str]]:
    """Return names and values of what is known about a fitted classifier.

    Stages that it does not have, and held-out metrics if it is not calibrated, are left out.
    """
    n_seen = int((model.label_counts_ > 0).sum())
    facts = [
        ("training rows", f"{model.n_samples_:,}"),
        ("features", _features(model)),
        (
            "labels",
            f"{len(model.label_names_):,}, of which {n_seen:,} have training rows",
        ),
    ]
    for name in STAGES:
        stage = getattr(model, name, None)
        if stage is not None:
            facts.append((name.rstrip("_"), " ".join(repr(stage).split())))
    calibration = model.calibration_
    if calibration is not None:
        held = calibration.held_out_
        figures = ", ".join(f"{name} {value:.3f}" for name, value in held["metrics"].items())
        facts.append((f"on {held['n_rows']:,} held-out examples", figures))
        facts.append(
            ("threshold of predict", f"{calibration.threshold_:.4g}, held-out F1 {calibration.held_out_f1_:.3f}")
        )
    return facts


def fitted_html(model: Any) -> str:
    """Return :func:`fitted_summary` as a table for a notebook."""
    return html_table(f"Fitted {type(model).__name__}", ("", ""), fitted_summary(model))


def _text(cell: Cell) -> str:
    if isinstance(cell, float):
        return f"{cell:.2f}" if cell == 0 or 0.01 <= abs(cell) < 1e4 else f"{cell:.2g}"
    return cell if isinstance(cell, Markup) else str(cell)


def _alignment(cell: Cell) -> str:
    is_number = isinstance(cell, (int, float)) or (isinstance(cell, str) and cell.endswith("%"))
    return "right" if is_number else "left"


def _escaped(text: str) -> str:
    return text if isinstance(text, Markup) else escape(text)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 3] + "..."


def _features(model: Any) -> str:
    """How many features there are, and what they stand for."""
    text = f"{model.n_features_in_ - model.n_dense_:,}"
    if model.vectorizer_ is not None:
        kind = getattr(model.vectorizer_, "analyzer", "word")
        shortest, longest = getattr(model.vectorizer_, "ngram_range", (1, 1))
        text += " words" if kind == "word" else " groups of characters"
        text += "" if longest == 1 else f", {shortest} to {longest} together"
    return text if not model.n_dense_ else f"{text}, and dense vectors of {model.n_dense_:,}"
