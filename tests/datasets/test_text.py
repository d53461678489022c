"""Raw texts from JSON lines and CSV."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from pysldl.datasets import read_csv, read_dataset, read_jsonl
from pysldl.exceptions import DataError

RECORDS = [
    {"text": "a cloud", "labels": ["sky", "cloud", "sky"], "split": "train"},
    {"text": "blue, blue", "labels": ["sky"], "split": "test"},
    {"text": "nothing", "labels": []},
]


@pytest.mark.parametrize("name", ["d.jsonl", "d.jsonl.gz"])
def test_json_lines(tmp_path: Path, name: str) -> None:
    content = "\n".join(map(json.dumps, RECORDS)).encode() + b"\n\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    ds = read_dataset(tmp_path / name)
    assert ds.X is None and ds.texts == ["a cloud", "blue, blue", "nothing"] and ds.name == "d"
    assert ds.label_names.tolist() == ["cloud", "sky"]
    np.testing.assert_array_equal(ds.Y.toarray(), [[1, 1], [0, 1], [0, 0]])
    assert {key: rows.tolist() for key, rows in ds.splits.items()} == {"train": [0], "test": [1]}


def test_csv_and_tsv(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text('text,labels\n"a cloud\nin two lines",sky; cloud;\nblue,sky\n,\n')
    (tmp_path / "d.tsv").write_text("words\ttags\tsplit\na cloud\tsky|cloud\ttrain\n")
    ds = read_dataset(tmp_path / "d.csv")
    assert ds.texts == ["a cloud\nin two lines", "blue", ""] and ds.splits == {}
    np.testing.assert_array_equal(ds.Y.toarray(), [[1, 1], [0, 1], [0, 0]])
    tabbed = read_dataset(tmp_path / "d.tsv", text="words", labels="tags", separator="|")
    assert tabbed.label_names.tolist() == ["cloud", "sky"] and tabbed.splits["train"].tolist() == [0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{broken", "line 2: is not JSON"),
        ("[1]", "line 2: expected a JSON object, found list"),
        ('{"text": "a"}', "line 2: has no field 'labels'; it has 'text'. Name them, .* --labels tags"),
        ('{"text": 1, "labels": []}', "line 2: field 'text' must be a string"),
        ('{"text": "a", "labels": "sky"}', "line 2: field 'labels' must be a list of strings"),
        ('{"text": "a", "labels": [1]}', "line 2: field 'labels' must be a list of strings"),
        ('{"text": "a", "labels": ["b", " "]}', "line 2: field 'labels' holds an empty label: leave it out"),
        ('{"text": "a", "labels": ["b"], "split": 3}', "line 2: field 'split' must be a string"),
    ],
)
def test_json_faults_are_named_by_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(json.dumps(RECORDS[0]) + "\n" + line + "\n")
    with pytest.raises(DataError, match=message):
        read_jsonl(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("words,labels\na,b\n", "line 1: has no column 'text'; it has 'words', 'labels'. Name them, as in text='body'"),
        ("Text;Labels\na;b\n", "If ';' stands between columns, say delimiter=';' .in the shell: --read 'delimiter=;'"),
        ("text\tlabels\na\tb\n", r"If '\\t' stands between columns, say delimiter='tab'"),
        ("text,labels\na\n", "line 2: expected 2 columns"),
        ("text,labels\na,b,c\n", "line 2: expected 2 columns"),
        ('text,labels\n"a"x,b\n', "line 2: is not CSV"),
        ("text,labels\n", "holds no rows"),
        ("text,labels\na,\n", "no row has a label"),
    ],
)
def test_csv_faults_are_named_by_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "d.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        read_csv(path)
    assert "d.csv" in str(caught.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_bytes(b"text,labels\n\xff\xfe,a\n")
    with pytest.raises(DataError, match="is not UTF-8 text"):
        read_csv(tmp_path / "d.csv")
