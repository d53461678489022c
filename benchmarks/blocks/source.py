"""The source itself: how far a reader walks, how many lines there are, and which of them the tests run."""

from blocks.evidence import Rows, from_record
from blocks.text import number, table

__all__ = ["coverage", "lines", "walk"]


@from_record("walk")
def walk(found: Rows) -> str:
    """Functions, files and returns of a fit and of a fold."""
    columns = ("functions", "files", "returns", "file_returns")
    rows = [(row["walk"], *(f"{row[column]:,}" for column in columns)) for row in found.rows]
    header = ("walk", "functions", "files", "returns, by function", "returns, by file")
    return table(header, rows)


@from_record("source_lines")
def lines(found: Rows) -> str:
    """Lines of the source, a package a row."""
    columns = ("files", "lines", "code", "docstrings", "comments", "blank")
    rows = [(f"`{row['package']}`", *(f"{row[column]:,}" for column in columns)) for row in found.rows]
    return table(("package", *columns), rows)


@from_record("coverage")
def coverage(found: Rows) -> str:
    """The share of statements that the tests run, a package a row."""
    rows = [
        (f"`{row['package']}`", f"{row['statements']:,}", number(row["percent"], 1), row["tests"]) for row in found.rows
    ]
    return table(("package", "statements", "percent run", "by the tests of"), rows)
