"""What commands print: results on standard output, everything else on standard error."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import Parameter
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

Json = Annotated[bool, Parameter(help="Print one JSON object.")]


def console() -> Console:
    """Standard output."""
    return Console(highlight=False, emoji=False)


def note(text: str) -> None:
    """One line for people, on standard error."""
    Console(stderr=True, highlight=False, emoji=False).print(text, style="dim", markup=False, soft_wrap=True)


def say(text: str) -> None:
    """Print one line, as it is, on standard output."""
    console().print(text, markup=False, soft_wrap=True)


def print_json(document: Any) -> None:
    """Print one JSON document on standard output."""
    print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def print_result(result: Mapping[str, Any], as_json: bool, shown: Mapping[str, Any] | None = None) -> None:
    """Print a result as one JSON object, or as names and values; ``shown`` is what people see in its place."""
    if as_json:
        print_json(result)
    else:
        console().print(facts(result if shown is None else shown))


def table(title: str, *columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """An empty table; the columns named in ``numbers`` are set to the right."""
    # Without lines between columns ten of them fit into the 80 characters of a small terminal.
    made = Table(
        title=title, title_justify="left", title_style="bold", header_style="", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left")
    return made


def facts(entries: Mapping[str, Any]) -> Table:
    """Names and values, one below the other."""
    grid = Table.grid(padding=(0, 2))
    for name, value in entries.items():
        grid.add_row(name, escape(_as_text(value)))
    return grid


def _as_text(value: Any) -> str:
    """A value as text: lists without brackets, mappings one a line, numbers with four digits."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_as_text(part)}" for name, part in value.items())
    if isinstance(value, (list, tuple)):
        between = "\n" if any(isinstance(part, Mapping) for part in value) else ", "
        return between.join(map(_as_text, value)) or "none"
    return "none" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def percent(value: float) -> str:
    """A share in percent with one decimal."""
    return f"{100 * value:.1f}"
