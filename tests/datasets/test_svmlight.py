"""Multi-label svmlight files."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from pysldl.datasets import read_dataset, read_svmlight
from pysldl.exceptions import DataError


def test_labels_become_names(tmp_path: Path) -> None:
    path = tmp_path / "d.svm"
    path.write_text("# a comment\n10,2 1:0.5 3:2\n2 2:1 # behind\n 1:1\n")
    ds = read_dataset(path)
    assert ds.label_names.tolist() == ["2", "10"]
    np.testing.assert_array_equal(ds.Y.toarray(), [[1, 1], [1, 0], [0, 0]])
    np.testing.assert_array_equal(ds.X.toarray(), [[0.5, 0, 2], [0, 1, 0], [1, 0, 0]])
    assert read_svmlight(path, n_features=7, zero_based=True).n_features == 7


def test_packed(tmp_path: Path) -> None:
    path = tmp_path / "d.txt.gz"
    path.write_bytes(gzip.compress(b"1 1:1\n"))
    assert read_dataset(path).n_samples == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 1:x", "line 2: the value of feature 1 is not a finite float32 number: 'x'"),
        ("1 1:nan", "line 2: the value of feature 1 is not a finite float32 number: 'nan'"),
        ("a 1:1", "line 2: the label 'a' is not a number"),
        ("1 x:1", "line 2: expected 'feature:value', found 'x:1'"),
        ("1 2:1 1:1", "line 2: feature 1 comes after feature 2"),
    ],
)
def test_faults_are_named_by_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "d.svm"
    path.write_text(f"1 1:1\n{line}\n")
    with pytest.raises(DataError, match=message) as caught:
        read_svmlight(path)
    assert "d.svm" in str(caught.value)


def test_nothing_in_it(tmp_path: Path) -> None:
    path = tmp_path / "d.svm"
    path.write_text("# only a comment\n")
    with pytest.raises(DataError, match="holds no rows"):
        read_svmlight(path)
