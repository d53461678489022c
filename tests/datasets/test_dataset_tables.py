"""CSV files of named columns."""

import pytest

from pysldl.datasets.files import csv_rows, write_csv_rows
from pysldl.exceptions import DataError


def test_rows_survive_the_file_and_have_their_lines(tmp_path):
    path = tmp_path / "new" / "rows.csv"
    write_csv_rows(
        path, ["name", "value"], [{"name": 'a,"b"', "value": 0.1, "other": 1}, {"name": "two\nlines"}, {"value": None}]
    )
    assert path.read_text() == 'name,value\n"a,""b""",0.1\n"two\nlines",\n,\n'
    assert list(csv_rows(path, ["value"])) == [
        (2, {"name": 'a,"b"', "value": "0.1"}),
        (4, {"name": "two\nlines", "value": ""}),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n", "holds nothing but blank lines"),
        ("b\n1\n", "line 1: has no column 'a'; it has 'b'"),
        ("a,b,b\n", "line 1: the column 'b' appears twice"),
        ("a,b\n\n1\n", "line 3: expected 2 columns as in the header, but there are 1"),
        ('a\n"1\n', "line 2: is not CSV"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, text, message):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        list(csv_rows(path, ["a"]))
