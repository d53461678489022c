"""Formats are told by name, then by content."""

from pathlib import Path

import pytest

from pysldl.datasets import make_asymmetric_multilabel, read_dataset, write_npz
from pysldl.datasets.readers import detect_format
from pysldl.exceptions import DataError


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("d.txt", "1 3 2\n0 0:1\n", "xc"),
        ("d.txt", "0,1 0:1\n", "svmlight"),
        ("d.dat", "@RELATION r\n", "arff"),
        ("d.dat", '{"text": "a", "labels": ["b"]}\n', "jsonl"),
        ("D.CSV", "text,labels\n", "csv"),
        ("d.ARFF", "anything", "arff"),
    ],
)
def test_detection(tmp_path: Path, name: str, content: str, expected: str) -> None:
    (tmp_path / name).write_text(content)
    assert detect_format(tmp_path / name) == expected


def test_npz_is_known_by_its_magic_bytes(tmp_path: Path) -> None:
    write_npz(make_asymmetric_multilabel(10, 20, 5), tmp_path / "data")
    assert read_dataset(tmp_path / "data").n_samples == 10


def test_what_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "d.bin"
    path.write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(DataError, match="format cannot be told"):
        read_dataset(path)
    with pytest.raises(DataError, match="format 'spss' is unknown; choose one of npz"):
        read_dataset(path, format="spss")
    with pytest.raises(DataError, match="is a directory"):
        read_dataset(tmp_path)
    with pytest.raises(DataError, match="no such file"):
        read_dataset(tmp_path / "missing.npz")
    path.write_text("1 3 2\n0 0:1\n")
    with pytest.raises(DataError, match=r"unknown option .separator.; xc accepts test_path"):
        read_dataset(path, separator=";")
