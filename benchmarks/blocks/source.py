"""The source itself: how far a reader walks, how many lines there are, and which of them the tests run."""

from blocks.evidence import Evidence
from blocks.text import NOT_RECORDED, number, table

__all__ = ["coverage", "lines", "walk"]


def walk(evidence: Evidence) -> str:
    """Functions, files and returns of a fit and of a fold."""
    found = evidence.rows("walk")
    if not found:
        return NOT_RECORDED
    columns = ("functions", "files", "returns", "file_returns")
    rows = [(row["walk"], *(f"{row[column]:,}" for column in columns)) for row in found.rows]
    header = ("walk", "functions", "files", "returns, by function", "returns, by file")
    return f"{table(header, rows)}\n\n{found.source}"


def lines(evidence: Evidence) -> str:
    """Lines of the source, a package a row."""
    found = evidence.rows("source_lines")
    if not found:
        return NOT_RECORDED
    columns = ("files", "lines", "code", "docstrings", "comments", "blank")
    rows = [(f"`{row['package']}`", *(f"{row[column]:,}" for column in columns)) for row in found.rows]
    return f"{table(('package', *columns), rows)}\n\n{found.source}"


def coverage(evidence: Evidence) -> str:
    """The share of statements that the tests run, a package a row."""
    found = evidence.rows("coverage")
    if not found:
        return NOT_RECORDED
    rows = [
        (f"`{row['package']}`", f"{row['statements']:,}", number(row["percent"], 1), row["tests"]) for row in found.rows
    ]
    return f"{table(('package', 'statements', 'percent run', 'by the tests of'), rows)}\n\n{found.source}"
