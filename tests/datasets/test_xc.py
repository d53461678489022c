"""Text files of the extreme classification repository."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pysldl.datasets import Dataset, read_xc, write_xc
from pysldl.datasets import xc as xc_module
from pysldl.exceptions import DataError


def written(tmp_path: Path, content: str, name: str = "d.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode())
    return path


def test_rows_labels_and_values(tmp_path: Path) -> None:
    ds = read_xc(written(tmp_path, "4 3 2\n0,1 0:0.5 2:1e-3\n1 1:-2\n 0:3\n\n"))
    np.testing.assert_array_equal(ds.X.toarray(), np.float32([[0.5, 0, 1e-3], [0, -2, 0], [3, 0, 0], [0, 0, 0]]))
    np.testing.assert_array_equal(ds.Y.toarray(), [[1, 1], [0, 1], [0, 0], [0, 0]])
    assert ds.label_names.tolist() == ["0", "1"] and ds.name == "d"


@pytest.mark.parametrize(
    "content",
    [
        "2 3 2\r\n0 0:1\r\n1\t1:2 2:3\r\n",  # Windows line ends, tabs
        "2 3 2\n0  0:1 \n1 1:2   2:3",  # several spaces, no newline at the end
        "2 3 2\n0 0:1\n1,1 1:2 2:3\n\n\n",  # a label twice, blank lines behind
        "2 3 2\n0 0:1\n1 2:3 1:2\n",  # features out of order
    ],
)
def test_looser_files_mean_the_same(tmp_path: Path, content: str) -> None:
    ds = read_xc(written(tmp_path, content))
    np.testing.assert_array_equal(ds.X.toarray(), [[1, 0, 0], [0, 2, 3]])
    np.testing.assert_array_equal(ds.Y.toarray(), [[1, 0], [0, 1]])


def test_a_row_without_labels_and_without_leading_space(tmp_path: Path) -> None:
    ds = read_xc(written(tmp_path, "3 3 2\n0:1\n1 1:2\n0:1 2:1\n"))
    np.testing.assert_array_equal(ds.Y.toarray(), [[0, 0], [0, 1], [0, 0]])
    np.testing.assert_array_equal(ds.X.toarray(), [[1, 0, 0], [0, 2, 0], [1, 0, 1]])


def test_train_and_test_files_packed(tmp_path: Path) -> None:
    train, test = tmp_path / "d_train.txt.gz", tmp_path / "d_test.txt.gz"
    train.write_bytes(gzip.compress(b"2 3 2\n0 0:1\n1 1:2\n"))
    test.write_bytes(gzip.compress(b"1 3 2\n1 2:3\n"))
    ds = read_xc(train, test, name="d")
    assert ds.splits["train"].tolist() == [0, 1] and ds.splits["test"].tolist() == [2]
    np.testing.assert_array_equal(ds.split("test").X.toarray(), [[0, 0, 3]])
    with pytest.raises(DataError, match="not of one data set"):
        read_xc(train, written(tmp_path, "1 3 4\n1 2:3\n"))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data(), block=st.sampled_from([1, 7, 64, 1 << 20]))
def test_round_trip_bit_for_bit(tmp_path: Path, data: st.DataObject, block: int) -> None:
    n, q, c = (data.draw(st.integers(1, 6)) for _ in range(3))
    numbers = st.just(0.0) | st.floats(allow_nan=False, allow_infinity=False, width=32)
    X = data.draw(hnp.arrays(np.float32, (n, q), elements=numbers))
    Y = data.draw(hnp.arrays(bool, (n, c)))
    original = Dataset("d", X, Y, np.arange(c).astype(str))
    write_xc(original, tmp_path / "d.txt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xc_module, "BLOCK_BYTES", block)
        again = read_xc(tmp_path / "d.txt")
    np.testing.assert_array_equal(again.X.toarray(), X)
    np.testing.assert_array_equal(again.Y.toarray(), original.Y.toarray())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"d\.txt: the file is empty"),
        ("0 0:1\n1 1:2\n", "line 1: expected the header"),
        ("2 3\n0 0:1\n", "line 1: expected the header"),
        ("2 3 2\n0 0:1\n", "promises 2 rows, but there are 1"),
        ("1 3 2\n0 0:1\n1 1:2\n", "line 3: the header promises 1 rows"),
        ("2 3 2\n0 0:1\n1 1:x\n", "line 3: the value of feature 1 is not a finite float32 number: 'x'"),
        ("2 3 2\n0 0:1\n1 1:1.2.3\n", "line 3: the value of feature 1 is not a finite float32 number: '1.2.3'"),
        ("2 3 2\n0 0:1\n1 1:\n", "line 3: the value of feature 1 is not a finite float32 number: ''"),
        ("2 3 2\n0 0:1\n1 1:2:3 4\n", "line 3: the value of feature 1 is not a finite float32 number: '2:3'"),
        ("2 3 2\n0 0:1\n1 x:2\n", "line 3: expected a feature number, found 'x'"),
        ("2 3 2\n0 0:1 7\n1 1:2\n", "line 2: expected 'feature:value', found '7'"),
        ("2 3 2\n0 0:1\n1 1:nan\n", "line 3: .*not a finite float32 number: 'nan'"),
        ("2 3 2\n0 0:1\n1 1:-inf\n", "line 3: .*not a finite float32 number: '-inf'"),
        ("2 3 2\n0 0:1\n1 1:1e60\n", "line 3: .*not a finite float32 number: '1e60'"),
        ("2 3 2\n0 0:1\n2 1:2\n", "line 3: label 2 is out of range: the header promises 2 labels"),
        ("2 3 2\n0 0:1\n-1 1:2\n", "line 3: label -1 is out of range"),
        ("2 3 2\n0 0:1\n1 3:2\n", "line 3: feature 3 is out of range: the header promises 3 features"),
        ("2 3 2\n0 0:1\n1, 1:2\n", "line 3: expected a label number, found ''"),
        ("2 3 2\n0 0:1\na 1:2\n", "line 3: expected a label number, found 'a'"),
        ("2 3 2\n0 0:1\n1.5 1:2\n", "line 3: expected a label number, found '1.5'"),
    ],
)
@pytest.mark.parametrize("block", [8, 1 << 20])
def test_faults_are_named_by_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, message: str, block: int
) -> None:
    monkeypatch.setattr(xc_module, "BLOCK_BYTES", block)
    with pytest.raises(DataError, match=message) as caught:
        read_xc(written(tmp_path, content))
    assert "d.txt" in str(caught.value)


def test_missing_file_folder_and_broken_gzip(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_xc(tmp_path / "missing.txt")
    with pytest.raises(DataError, match="is a directory, but a file is expected"):
        read_xc(tmp_path)
    for content in (b"plain", gzip.compress(b"1 3 2\n0 0:1\n" * 100)[:-9]):
        broken = tmp_path / "d.txt.gz"
        broken.write_bytes(content)
        with pytest.raises(DataError, match="not a whole gzip file"):
            read_xc(broken)


def test_texts_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"vectorize\(\) it before"):
        write_xc(Dataset("d", None, [[1]], ["a"], texts=["b"]), tmp_path / "d.txt")
