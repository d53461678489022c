"""Columns of frames and series as lists, whatever library they come from."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.preprocessing.features import as_column, frame_columns, is_frame, is_missing


class Series:
    """As far as pandas, Polars and Arrow agree."""

    ndim = 1

    def __init__(self, cells):
        self.cells = cells

    def to_list(self):
        return self.cells


def test_a_column_of_anything_but_numbers():
    assert as_column(["a", None]) == ["a", None]
    assert as_column(Series([["a"], []])) == [["a"], []]
    assert as_column(np.array([["a"], ["b"]])) == ["a", "b"]


@pytest.mark.parametrize("values", [[1, 2], Series([1.5]), np.eye(2), [], [None], sparse.eye_array(2), 3])
def test_no_such_column(values):
    assert as_column(values) is None


def test_missing_cells():
    assert is_missing(None) and is_missing(float("nan")) and is_missing(np.float32("nan"))
    assert not is_missing("") and not is_missing(0) and not is_missing([])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_either_library(library):
    frame = pytest.importorskip(library).DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert is_frame(frame) and not is_frame(sparse.eye_array(2))
    assert frame_columns(frame) == [("a", [1, 2]), ("b", ["x", "y"])]
    assert as_column(frame) is None and as_column(frame[["b"]]) == ["x", "y"]


def test_what_pandas_puts_in_place_of_nothing():
    pandas = pytest.importorskip("pandas")
    assert is_missing(pandas.NA) and is_missing(pandas.NaT)
