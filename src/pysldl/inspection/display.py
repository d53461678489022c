"""Tables for notebooks and terminals."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

__all__ = ["Markup", "bar", "html_table", "text_table"]

_CELL = "padding:0.15em 0.9em 0.15em 0;vertical-align:top;background:transparent;border:0;"
_CAPTION = "text-align:left;caption-side:top;padding:0.2em 0;color:inherit;white-space:nowrap"
_BAR = "display:inline-block;height:0.7em;min-width:1px;border-radius:1px;"
_COLOURS = {True: "#2f7fc1", False: "#c8562b"}
_LONGEST_CELL = 60


class Markup(str):
    """Text that is HTML already."""


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table for a notebook, light or dark: it takes the colors of its surroundings. Numbers go to the right."""
    lines = [
        '<table style="border-collapse:collapse;color:inherit;font-size:0.95em;margin:0.3em 0 0.8em">',
        f'<caption style="{_CAPTION}">{_html(title)}</caption>',
        "<thead><tr>",
        *(f'<th scope="col" style="{_CELL}text-align:left;opacity:0.7">{_html(column)}</th>' for column in columns),
        "</tr></thead><tbody>",
    ]
    for row in rows:
        cells = (f'<td style="{_CELL}text-align:{_side(cell)}">{_html(_shown(cell))}</td>' for cell in row)
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "\n".join([*lines, "</tbody></table>"])


def bar(value: float, largest: float) -> Markup:
    """A bar as long as ``value`` is against ``largest``, blue for and orange against."""
    width = 0.0 if largest <= 0 else min(abs(value) / largest, 1.0)
    return Markup(
        f'<span aria-hidden="true" style="{_BAR}width:{6 * width:.2f}em;background:{_COLOURS[value >= 0]}"></span>'
    )


def text_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table for a terminal; long names are cut, numbers go to the right."""
    body = [list(row) for row in rows]
    texts = [[_cut(_shown(cell)) for cell in row] for row in body]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    right = [bool(body) and _side(cell) == "right" for cell in (body[0] if body else columns)]
    lines = [list(columns), *texts]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def _shown(cell: Any) -> str:
    if isinstance(cell, float):
        return f"{cell:.2f}" if cell == 0 or 0.01 <= abs(cell) < 1e4 else f"{cell:.2g}"
    return cell if isinstance(cell, Markup) else str(cell)


def _side(cell: Any) -> str:
    return "right" if isinstance(cell, (int, float)) else "left"


def _html(text: str) -> str:
    return text if isinstance(text, Markup) else escape(text)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 3] + "..."
