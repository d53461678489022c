"""Tables for notebooks and terminals."""

from collections.abc import Iterable, Sequence
from html import escape

Cell = str | float | int | None

_CELL = "padding:0.15em 0.9em 0.15em 0;vertical-align:top;background:transparent;border:0;"
_CAPTION = "text-align:left;caption-side:top;padding:0.2em 0;color:inherit;white-space:nowrap"
_BAR = "display:inline-block;height:0.7em;min-width:1px;border-radius:1px;"
_COLORS = {True: "#2f7fc1", False: "#c8562b"}
_MAX_LENGTH = 60


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
