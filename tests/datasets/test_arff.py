"""ARFF files, dense and sparse, with the labels said by MULAN, by MEKA or by the caller."""

from pathlib import Path

import numpy as np
import pytest

from pysldl.datasets import read_arff, read_dataset
from pysldl.exceptions import DataError

HEADER = """% a comment
@RELATION 'pictures{meka}'

@attribute 'mean, of "hue"' numeric
@attribute edge real
@attribute sunny {{no,yes}}
@attribute sky {{0,1}}
@ATTRIBUTE 'it\\'s a cloud' {{0, 1}}
@data
"""
DENSE = HEADER.format(meka="") + "0.5,1e2,yes,1,0\n% between rows\n-1, 0, no, 1, 1\n"
SPARSE = HEADER.format(meka=": -C -2") + "{0 0.5, 1 100, 2 yes, 3 1}\n{0 -1,3 1,4 1}\n{}\n"
XML = """<?xml version="1.0"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
  <label name="it's a cloud"><label name="sky"></label></label>
</labels>
"""
X = [[0.5, 100, 1], [-1, 0, 0]]
Y = [[1, 0], [1, 1]]


def written(tmp_path: Path, content: str, name: str = "d.arff") -> Path:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return path


def test_dense_with_mulan_labels_beside_it(tmp_path: Path) -> None:
    written(tmp_path, XML, "d.xml")
    ds = read_dataset(written(tmp_path, DENSE))
    assert ds.label_names.tolist() == ["it's a cloud", "sky"]
    assert ds.feature_names is not None and ds.feature_names.tolist() == ['mean, of "hue"', "edge", "sunny"]
    assert isinstance(ds.X, np.ndarray)
    np.testing.assert_array_equal(ds.X, X)
    np.testing.assert_array_equal(ds.Y.toarray(), np.array(Y)[:, ::-1])


def test_sparse_with_meka_labels(tmp_path: Path) -> None:
    ds = read_dataset(written(tmp_path, SPARSE))
    assert ds.label_names.tolist() == ["sky", "it's a cloud"]
    np.testing.assert_array_equal(ds.X.toarray(), [*X, [0, 0, 0]])
    np.testing.assert_array_equal(ds.Y.toarray(), [*Y, [0, 0]])


def test_positive_meka_number_means_the_first_attributes(tmp_path: Path) -> None:
    text = "@relation 'm: -C 1 -split-percentage 67'\n@attribute a {0,1}\n@attribute b numeric\n@data\n1,7\n0,8\n"
    ds = read_arff(written(tmp_path, text))
    assert ds.label_names.tolist() == ["a"] and ds.X.tolist() == [[7], [8]]


def test_labels_by_argument_and_test_file(tmp_path: Path) -> None:
    path, test = written(tmp_path, DENSE, "d-train.arff"), written(tmp_path, DENSE, "d-test.arff")
    for labels in (["sky", "it's a cloud"], -2):
        ds = read_arff(path, labels, test_path=test)
        assert ds.label_names.tolist() == ["sky", "it's a cloud"]
        assert ds.splits["test"].tolist() == [2, 3]
        np.testing.assert_array_equal(ds.split("test").X, X)
    assert read_arff(path, written(tmp_path, XML, "else.xml")).n_labels == 2
    written(tmp_path, XML, "d.xml")  # one label file for both parts
    assert read_arff(path).n_labels == 2
    other = written(tmp_path, "@relation r\n@attribute a numeric\n@attribute b {0,1}\n@data\n1,1\n", "o.arff")
    with pytest.raises(DataError, match="declare different attributes"):
        read_arff(path, -2, test_path=other)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0.5,x,yes,1,0\n", "line 10: the value of 'edge' is not a number: 'x'"),
        ("0,0,no,1,0\n0.5,?,yes,1,0\n", r"line 11: the value of 'edge' is missing \('\?'\)"),
        ("0.5,nan,yes,1,0\n", "line 10: the value of 'edge' is not finite"),
        ("0.5,1,maybe,1,0\n", "line 10: 'maybe' is not a value of 'sunny'"),
        ("0.5,1,yes,1\n", "line 10: has 4 values, but there are 5 attributes"),
        ("{0 1, 9 1}\n", "line 10: attribute 9 is out of range"),
        ("{0 1, 1}\n", "line 10: expected 'index value', found '1'"),
        ("{0 1\n", "line 10: a sparse row must end"),
        ("0.5,1,'yes,1,0\n", "line 10: a quote is not closed"),
        ("", "holds no rows after @data"),
    ],
)
def test_broken_rows_are_named_by_line(tmp_path: Path, rows: str, message: str) -> None:
    path = written(tmp_path, HEADER.format(meka=": -C -2") + rows)
    with pytest.raises(DataError, match=message) as caught:
        read_arff(path)
    assert "d.arff" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("@relation r\n@attribute a numeric\n", "has no @data line"),
        ("@relation r\n@data\n1\n", "declares no @attribute"),
        ("@relation r\n@attribute a string\n@data\n", "line 2: attribute 'a' is of type 'string'"),
        ("@relation r\n@attribute a {x,y,z}\n@data\n", "line 2: attribute 'a' has 3 values that are not numbers"),
        ("@relation r\nhello\n", "line 2: expected @relation, @attribute or @data, found 'hello'"),
        ("@relation r\n@attribute a numeric\n@data\n1\n", "which attributes are labels"),
        ("@relation 'r: -C 9'\n@attribute a numeric\n@data\n1\n", "9 of 1 attributes cannot be the labels"),
        ("@relation 'r: -C 1'\n@attribute a {1,0}\n@attribute b real\n@data\n{1 2}\n", "first value of 'a'"),
        ("@relation 'r: -C 1'\n@attribute a real\n@attribute b real\n@data\n2,2\n", "row 0, column 0 is 2"),
    ],
)
def test_broken_files(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_arff(written(tmp_path, content))


def test_broken_label_files(tmp_path: Path) -> None:
    path = written(tmp_path, DENSE)
    with pytest.raises(DataError, match=r"l\.xml, line 1: is not XML"):
        read_arff(path, written(tmp_path, "<labels>", "l.xml"))
    with pytest.raises(DataError, match="holds no <label name"):
        read_arff(path, written(tmp_path, "<labels/>", "l.xml"))
    with pytest.raises(DataError, match="not among its 5 attributes: 'sea'"):
        read_arff(path, ["sky", "sea"])


def test_wrong_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "d.arff"
    path.write_bytes("@relation caf\xe9\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"d\.arff: is not UTF-8"):
        read_arff(path)
