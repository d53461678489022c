"""Labels in every form become one indicator with names; what cannot be meant is refused with the remedy."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.exceptions import DataError
from pysldl.preprocessing.labels import (
    as_classes,
    as_indicator,
    as_rows_of_names,
    check_label_names,
    encode_labels,
    indicator_of_names,
)


@pytest.mark.parametrize("form", [np.array, sparse.csr_matrix, sparse.csr_array, sparse.coo_array, list])
def test_an_indicator_in_any_form(form):
    encoded = encode_labels(form([[1, 0], [1, 1]]))
    assert encoded.kind == "indicator" and encoded.names.tolist() == ["0", "1"]
    assert encoded.Y.toarray().tolist() == [[1, 0], [1, 1]] and encoded.Y.dtype == np.float32


def test_rows_of_names_are_sorted_unless_a_vocabulary_is_given():
    rows = [["sky", "cloud"], {"sky"}, ()]
    assert encode_labels(rows).names.tolist() == ["cloud", "sky"]
    given = encode_labels(rows, ["sky", "cloud", "rain"])
    assert given.kind == "names" and given.Y.toarray().tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 0]]
    with pytest.raises(DataError, match="Row 0 carries the label 'cloud', which is not one of the 1 known"):
        encode_labels(rows, ["sky"])


def test_one_class_a_row():
    encoded = encode_labels(np.array(["b", "a", "b"]))
    assert encoded.kind == "classes" and encoded.names.tolist() == ["a", "b"]
    assert encoded.Y.indices.tolist() == [1, 0, 1]


def test_an_indicator_is_not_changed_and_stored_zeros_do_not_count():
    stored = sparse.csr_array((np.array([1.0, 0.0, 1.0]), np.array([1, 0, 0]), np.array([0, 2, 3])), shape=(2, 2))
    before = stored.indices.copy(), stored.data.copy()
    assert as_indicator(stored).nnz == 2
    np.testing.assert_array_equal(stored.indices, before[0])
    np.testing.assert_array_equal(stored.data, before[1])


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        ([[0, 2]], r"row 0, column 1 is 2.*Pass \(Y > 0\)"),
        (np.zeros((0, 3)), "is empty"),
        ([1, 0], "two dimensions"),
        ([["a", "b"]], "one list per row"),
        ([[1], [0, 1]], "differ in length"),
    ],
)
def test_what_is_no_indicator(Y, message):
    with pytest.raises(DataError, match=message):
        as_indicator(Y)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("sky", "y is the text 'sky'"),
        ([["a"], None], r"Row 1 of y is None; use \[\]"),
        ([["a"], "b"], r"Row 1 of y is 'b'.*write \['b'\]"),
        ([["a"], [1, "b"]], "Row 1 of y holds 1, but label names are texts"),
        ([[1, 2], [3]], "written as text"),
        (iter([["a"], ["b"]]), r"y is an iterator, .*: pass list\(y\)"),
        ([["a"], ["b", ""]], r"Row 1 of y holds the empty label '': leave it out, and write \[\] for no labels"),
        ([{"a"}, {" "}], "Row 1 of y holds the empty label ' '"),
    ],
)
def test_rows_that_are_no_names(rows, message):
    with pytest.raises(DataError, match=message):
        as_rows_of_names(rows)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.5, 1.0], "continuous"),
        ([np.nan, 1.0], "NaN"),
        (["a", None], "Row 1 of y is None"),
        ([{"a": 1}, {"b": 1}], "Row 0 of y is a dict; give the names of its labels as a list"),
        (["['a', 'b']", "['a']"], "literal_eval"),
        (["a;b", "a", "b;c", "c", "a;b;c"], r"text.split\(';'\)"),
    ],
)
def test_what_is_no_class_a_row(values, message):
    with pytest.raises(DataError, match=message):
        as_classes(np.array(values, dtype=object if isinstance(values[0], (str, dict)) else None))


def test_names_with_commas_are_classes():
    places = np.array(["Portland, OR", "Salem, OR", "Boise, ID"], dtype=object)
    assert as_classes(places).tolist() == places.tolist()


def test_label_names_are_unique_and_as_many_as_columns():
    with pytest.raises(DataError, match="more than once: 'a'"):
        check_label_names(["a", "a"])
    with pytest.raises(DataError, match="holds 1 names, but Y has 2 columns"):
        check_label_names(["a"], 2)


def test_a_name_twice_in_a_row_is_one_label():
    assert indicator_of_names([["a", "a"]], np.array(["a"])).toarray().tolist() == [[1]]
