"""Opening the files of a data set."""

import gzip
from pathlib import Path

import pytest

from pysldl.datasets.files import open_binary, open_text, require_file, stem
from pysldl.datasets.text import read_texts
from pysldl.exceptions import DataError


def test_gzip_is_unpacked_and_a_byte_order_mark_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.b.txt.gz"
    path.write_bytes(gzip.compress("\ufeffwörter".encode(), mtime=0))
    with open_text(path) as stream:
        assert stream.read() == "wörter"
    assert stem(path) == "a.b"


@pytest.mark.parametrize("content", [b"plain", gzip.compress(b"a" * 1000, mtime=0)[:-5]])
def test_a_damaged_gzip_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.gz: is not a whole gzip file"), open_binary(path) as stream:
        stream.read()


def test_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for path, message in ((tmp_path, "directory"), (tmp_path / "none", "no such file"), (tmp_path / "empty", "empty")):
        with pytest.raises(DataError, match=message):
            require_file(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"text": "one", "id": 1}\n\n"two"\n'),
        ("a.csv", "id,text\n1,one\n2,two\n"),
        ("a.tsv", "text\tid\none\t1\ntwo\t2\n"),
        ("a.txt", "one\r\ntwo\r\n"),
        ("a", '{"text": "one"}\n{"text": "two"}\n'),
        ("b", "one\ntwo"),
    ],
)
def test_texts_without_labels(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode())
    assert read_texts(path).texts == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"body": "one"}', "line 1: expected a JSON object with a text in 'text'"),
        ("a.csv", "body\none\n", "line 1: has no column 'text'; it has 'body'"),
        ("a.csv", "text\n", "holds no texts"),
    ],
)
def test_files_without_texts(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        read_texts(tmp_path / name)
