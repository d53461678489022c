"""A table that is built once and written as Markdown, LaTeX and CSV.

Whoever builds it decides what a cell holds and how it is marked (:mod:`pysldl.experiments.report.paper_tables`);
the three writers only spell it.
"""

import math
from dataclasses import dataclass
from pathlib import Path

from pysldl._utils.files import write_atomically
from pysldl.datasets.files import csv_text

_NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Cell:
    """One entry of a table."""

    value: float | str | None  # None where there is nothing to show
    std: float | None = None  # printed after a plus-minus sign
    decimals: int = 2  # of a number and its deviation
    signed: bool = False  # whether a positive number gets its plus sign: for differences
    best: bool = False  # the best of its row: bold
    worse: bool = False  # significantly worse than the reference method: underlined

    @property
    def text(self) -> str:
        """The entry without its marks, deviation included."""
        if self.value is None:
            return _NOTHING
        if isinstance(self.value, str):
            return self.value
        if math.isinf(self.value):
            return "∞" if self.value > 0 else "−∞"
        number = f"{self.value:{'+' if self.signed else ''}.{self.decimals}f}".replace("-", "−")
        return number if self.std is None else f"{number} ± {self.std:.{self.decimals}f}"


@dataclass(frozen=True, slots=True)
class Row:
    """A row: what it is about, and its entries."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table that knows its content but not its format."""

    name: str  # stem of its files
    title: str  # a few words, without a full stop
    caption: str  # what the entries are and how to read them
    corner: str  # header of the row labels
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    footer: tuple[Row, ...] = ()  # over the whole body, such as the average rank: it stays below when a reader sorts
    notes: tuple[str, ...] = ()  # what a reader must know to read the table right

    def to_markdown(self) -> str:
        """Return a pipe table with its title and caption above and its notes below."""
        lines = [
            [_escape_markdown(name) for name in (self.corner, *self.columns)],
            ["---", *("---:" for _ in self.columns)],
        ]
        for row in (*self.rows, *self.footer):
            lines.append([_escape_markdown(row.label), *map(_markdown_cell, row.cells)])
        body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        paragraphs = [f"**{_escape_markdown(self.title)}.** {self.caption}", body, *self.notes]
        return "\n\n".join(paragraphs) + "\n"

    def to_latex(self) -> str:
        """Return a `table*` environment; it needs the package booktabs."""
        footer = [r"\midrule", *map(_latex_row, self.footer)] if self.footer else []
        lines = [
            r"\begin{table*}[t]",
            r"\centering",
            rf"\caption{{{_escape_latex(' '.join((f'{self.title}.', self.caption, *self.notes)))}}}",
            rf"\label{{tab:{self.name}}}",
            rf"\begin{{tabular}}{{l{'c' * len(self.columns)}}}",
            r"\toprule",
            " & ".join(map(_escape_latex, (self.corner, *self.columns))) + r" \\",
            r"\midrule",
            *map(_latex_row, self.rows),
            *footer,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table*}",
        ]
        return "\n".join(lines) + "\n"

    def to_csv(self) -> str:
        """Return the numbers with six decimals.

        A column with deviations is followed by one named "<column> std", a column with marks by one named
        "<column> mark" that holds "best", "worse" or both.
        """
        every_row = (*self.rows, *self.footer)
        columns = [self.corner]
        rows: list[dict[str, str]] = [{self.corner: row.label} for row in every_row]
        for place, name in enumerate(self.columns):
            cells = [row.cells[place] for row in every_row]
            parts = {name: [_csv_number(cell.value) for cell in cells]}
            if any(cell.std is not None for cell in cells):
                parts[f"{name} std"] = [_csv_number(cell.std) for cell in cells]
            if any(cell.best or cell.worse for cell in cells):
                parts[f"{name} mark"] = [" ".join(["best"] * cell.best + ["worse"] * cell.worse) for cell in cells]
            columns += parts
            for column, texts in parts.items():
                for row, text in zip(rows, texts, strict=True):
                    row[column] = text
        return csv_text(columns, rows)


def write_table(table: Table, folder: Path) -> list[Path]:
    """Write `<name>.md`, `<name>.tex` and `<name>.csv` into the folder and return their paths."""
    contents = {".md": table.to_markdown(), ".tex": table.to_latex(), ".csv": table.to_csv()}
    return [write_atomically(folder / f"{table.name}{suffix}", text) for suffix, text in contents.items()]


def _escape_markdown(text: str) -> str:
    for letter in "\\`*_|<":
        text = text.replace(letter, f"\\{letter}")
    return text


def _markdown_cell(cell: Cell) -> str:
    text = _escape_markdown(cell.text)
    if cell.worse:
        text = f"<u>{text}</u>"
    return f"**{text}**" if cell.best else text


_LATEX = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "±": r"$\pm$",
    "−": r"$-$",
    "∞": r"$\infty$",
    "–": "--",
    "<": "$<$",
    ">": "$>$",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _latex_row(row: Row) -> str:
    return " & ".join([_escape_latex(row.label), *map(_latex_cell, row.cells)]) + r" \\"


def _latex_cell(cell: Cell) -> str:
    text = _escape_latex(cell.text)
    if cell.worse:
        text = rf"\underline{{{text}}}"
    return rf"\textbf{{{text}}}" if cell.best else text


def _csv_number(value: float | str | None) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:.6f}"
