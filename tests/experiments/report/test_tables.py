"""How each format spells a table."""

from pathlib import Path

import pytest

from pysldl._utils.files import write_atomically
from pysldl.exceptions import DataError
from pysldl.experiments.report.tables import Cell, Row, Table, write_table


@pytest.mark.parametrize("text", [r"100%", "a&b", "a_b", "#1", "{x}", "5$", r"a\b", "a^b", "~", "<u>"])
def test_latex_special_letters_are_escaped(text: str) -> None:
    latex = Table("t", "t", "c", text, ("v",), (Row(text, (Cell(text),)),)).to_latex()
    line = latex.splitlines()[8]
    assert line not in (f"{text} & {text} \\\\",)
    assert line.count("&") - line.count(r"\&") == 1


def test_markdown_keeps_its_columns() -> None:
    markdown = Table("t", "t", "c", "k", ("v",), (Row("a|b", (Cell("<u>*"),)),)).to_markdown()
    assert r"| a\|b | \<u>\* |" in markdown


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (Cell(None), "–"),
        (Cell(-0.5), "−0.50"),
        (Cell(0.5, signed=True), "+0.50"),
        (Cell(float("inf"), decimals=4), "∞"),
        (Cell(1.0, 0.25, decimals=1), "1.0 ± 0.2"),
        (Cell("yes"), "yes"),
    ],
)
def test_text_of_a_cell(cell: Cell, text: str) -> None:
    assert cell.text == text


def test_files_are_written_and_are_the_same_each_time(tmp_path: Path) -> None:
    table = Table("t", "t", "c", "k", ("v",), (Row("a", (Cell(1.0, 0.5, best=True),)),))
    paths = write_table(table, tmp_path / "new" / "tables")
    assert sorted((tmp_path / "new" / "tables").iterdir()) == sorted(paths)
    before = [path.read_bytes() for path in paths]
    write_table(table, tmp_path / "new" / "tables")
    assert [path.read_bytes() for path in paths] == before


def test_target_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="folder: is a directory"):
        write_atomically(tmp_path / "folder", "text")
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="file: cannot be made a folder"):
        write_atomically(tmp_path / "file" / "below", "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
