"""A table that is built once and written as Markdown, LaTeX and CSV.

Whoever builds it decides what a cell holds and how it is marked (:mod:`pysldl.experiments.report.paper_tables`);
the three writers only spell it.
"""

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pysldl._utils.files import write_atomically

__all__ = ["Cell", "Row", "Table", "write_table"]

_NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Cell:
    """One entry of a table.

    Parameters
    ----------
    value : float, str or None
        None where there is nothing to show.
    std : float or None, default=None
        Printed after a plus-minus sign.
    decimals : int, default=2
        Of a number and its deviation.
    signed : bool, default=False
        Whether a positive number gets its plus sign: for differences.
    best : bool, default=False
        The best of its row: bold.
    worse : bool, default=False
        Significantly worse than the reference method: underlined.
    """

    value: float | str | None
    std: float | None = None
    decimals: int = 2
    signed: bool = False
    best: bool = False
    worse: bool = False

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
    """A table that knows its content but not its format.

    Parameters
    ----------
    name : str
        Stem of its files.
    title : str
        A few words, without a full stop.
    caption : str
        What the entries are and how to read them.
    corner : str
        Header of the row labels.
    columns : tuple of str
        Headers of the entries.
    rows : tuple of Row
        The body.
    footer : tuple of Row, default=()
        Rows over the whole body, such as the average rank: they stay below when a reader sorts.
    notes : tuple of str, default=()
        What a reader must know to read the table right.
    """

    name: str
    title: str
    caption: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    footer: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()

    def to_markdown(self) -> str:
        """Return a pipe table with its title and caption above and its notes below."""
        alignment = ["---", *("---:" for _ in self.columns)]
        lines = [_pipe(map(_escape_markdown, (self.corner, *self.columns))), _pipe(alignment)]
        for row in (*self.rows, *self.footer):
            lines.append(_pipe([_escape_markdown(row.label), *map(_markdown_cell, row.cells)]))
        paragraphs = [f"**{_escape_markdown(self.title)}.** {self.caption}", "\n".join(lines), *self.notes]
        return "\n\n".join(paragraphs) + "\n"

    def to_latex(self) -> str:
        """Return a `table*` environment; it needs the package booktabs."""
        header = " & ".join(map(_escape_latex, (self.corner, *self.columns)))
        body = [_latex_row(row) for row in self.rows]
        if self.footer:
            body += [r"\midrule", *(_latex_row(row) for row in self.footer)]
        return "\n".join(
            [
                r"\begin{table*}[t]",
                r"\centering",
                rf"\caption{{{_escape_latex(' '.join((f'{self.title}.', self.caption, *self.notes)))}}}",
                rf"\label{{tab:{self.name}}}",
                rf"\begin{{tabular}}{{l{'c' * len(self.columns)}}}",
                r"\toprule",
                rf"{header} \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table*}",
                "",
            ]
        )

    def to_csv(self) -> str:
        """Return the numbers with six decimals.

        A column with deviations is followed by one named "<column> std", a column with marks by one named
        "<column> mark" that holds "best", "worse" or both.
        """
        every_row = (*self.rows, *self.footer)
        by_column = [[row.cells[column] for row in every_row] for column in range(len(self.columns))]
        has_std = [any(cell.std is not None for cell in cells) for cells in by_column]
        has_mark = [any(cell.best or cell.worse for cell in cells) for cells in by_column]
        header = [self.corner]
        for name, std, mark in zip(self.columns, has_std, has_mark, strict=True):
            header += [name, *([f"{name} std"] if std else []), *([f"{name} mark"] if mark else [])]
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        for row in every_row:
            cells = [row.label]
            for cell, std, mark in zip(row.cells, has_std, has_mark, strict=True):
                cells.append(_csv_number(cell.value))
                if std:
                    cells.append(_csv_number(cell.std))
                if mark:
                    cells.append(" ".join(["best"] * cell.best + ["worse"] * cell.worse))
            writer.writerow(cells)
        return text.getvalue()


def write_table(table: Table, folder: Path) -> list[Path]:
    """Write `<name>.md`, `<name>.tex` and `<name>.csv` into the folder and return their paths."""
    contents = {".md": table.to_markdown(), ".tex": table.to_latex(), ".csv": table.to_csv()}
    return [write_atomically(folder / f"{table.name}{suffix}", text) for suffix, text in contents.items()]


def _pipe(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


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
