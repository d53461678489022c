"""Markdown for people: tables, lists of words, and where a figure comes from."""

import textwrap
from collections.abc import Iterable, Sequence

__all__ = ["NOT_RECORDED", "listed", "number", "plural", "span", "table", "wrapped"]

WIDTH = 140
NOT_RECORDED = "*Not recorded yet.*"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A Markdown table whose first ``left`` columns are text and whose others are figures."""
    rule = ["---"] * left + ["---:"] * (len(header) - left)
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *rows))


def listed(words: Sequence[str], conjunction: str = "and") -> str:
    """``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {conjunction} {words[-1]}"


def number(value: float | None, decimals: int = 1, signed: bool = False) -> str:
    """A figure with its decimals, nothing where there is none; a zero has no sign but plus."""
    if value is None:
        return ""
    rounded = round(float(value), decimals) + 0.0
    return f"{rounded:{'+' if signed else ''},.{decimals}f}"


def plural(count: int, word: str, several: str | None = None) -> str:
    """``1 mean``, ``2 means``."""
    return f"{count:,} {word if count == 1 else several or word + 's'}"


def span(values: Iterable[float], decimals: int = 1) -> str:
    """``1.0 to 2.0``, or the one value where all print alike."""
    kept = list(values)
    low, high = number(min(kept), decimals), number(max(kept), decimals)
    return low if low == high else f"{low} to {high}"


def wrapped(text: str) -> str:
    """Prose in lines that can be read in the file; tables, titles and images stay as they are."""
    lines = []
    for line in text.splitlines():
        if len(line) <= WIDTH or line.startswith(("|", "#", "!")):
            lines.append(line)
        else:
            indent = "  " if line.startswith("- ") else ""
            lines += textwrap.wrap(
                line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )
    return "\n".join(lines)
