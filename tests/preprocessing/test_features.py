"""Sparse rows in whatever form give the same answers, and the caller's arrays stay as they are."""

import multiprocessing

import numpy as np
import pytest
from scipy import sparse

from pysldl import SLDLClassifier, make_sldl
from pysldl.backend.linear_algebra import l2_normalize, row_norms
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.decoding import FeatureNeighborDecoder, NeighborDecoder
from pysldl.embedding import GaussianLabelEmbedding
from pysldl.preprocessing.features import as_column, canonical_rows, frame_columns, is_frame, is_missing

DATA = make_asymmetric_multilabel(120, 40, 8, random_state=0)
X = sparse.csr_array(DATA.X, dtype=np.float32)


def in_disorder(rows: sparse.csr_array) -> sparse.csr_array:
    """Every entry as two halves, columns in descending order, arrays read-only."""
    parts = [np.arange(start, stop)[::-1].repeat(2) for start, stop in zip(rows.indptr, rows.indptr[1:], strict=False)]
    order = np.concatenate(parts)
    arrays = rows.data[order] / 2, rows.indices[order], rows.indptr * 2
    for array in arrays:
        array.flags.writeable = False
    return sparse.csr_array(arrays, shape=rows.shape)


@pytest.fixture(scope="module")
def fitted() -> SLDLClassifier:
    return SLDLClassifier(None, mapping=None, decoder=FeatureNeighborDecoder(), random_state=0).fit(X, DATA.Y)


def test_entries_that_come_twice_are_added_up(fitted: SLDLClassifier) -> None:
    rows = in_disorder(X[:30])
    labels, scores = fitted.predict_topk(rows, 5)
    expected, of_them = fitted.predict_topk(X[:30], 5)
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(scores, of_them)


@pytest.mark.parametrize("preset", ["accurate", "fast"])
def test_fitting_leaves_the_arrays_of_the_caller_alone(preset: str) -> None:
    rows = in_disorder(X)
    before = rows.indices.copy(), rows.data.copy()
    model = make_sldl(preset, random_state=0).fit(rows, DATA.Y)
    np.testing.assert_array_equal(rows.indices, before[0])
    np.testing.assert_array_equal(rows.data, before[1])
    same = make_sldl(preset, random_state=0).fit(X, DATA.Y)
    np.testing.assert_array_equal(model.predict_topk(X, 5)[0], same.predict_topk(X, 5)[0])


def test_rows_in_order_are_not_copied() -> None:
    assert canonical_rows(X) is X and canonical_rows(X.toarray()).shape == X.shape


@pytest.mark.parametrize("factor", [1e19, 1e-25, 1e-38, 1e37])
def test_rows_of_any_size_are_scaled(factor: float, fitted: SLDLClassifier) -> None:
    rows = sparse.csr_array(X[:30] * np.float32(factor), dtype=np.float32)
    assert np.allclose(row_norms(l2_normalize(rows)), 1, atol=1e-4)
    labels, _ = fitted.predict_topk(rows, 3)
    assert (labels == fitted.predict_topk(X[:30], 3)[0]).mean() > 0.95


def test_the_size_of_one_row_does_not_change_the_bits_of_another() -> None:
    mixed = sparse.vstack([X[:5], X[5:6] * np.float32(1e19)], format="csr", dtype=np.float32)
    np.testing.assert_array_equal(row_norms(mixed)[:5], row_norms(X[:5]))


def _answer(connection: object, model: SLDLClassifier) -> None:
    connection.send(model.predict_topk(X, 5)[0])


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_answers_after_a_fit() -> None:
    """GNU's OpenMP, on which numba runs parallel loops, does not survive a fork."""
    embedding = GaussianLabelEmbedding(4, n_steps=5)
    model = SLDLClassifier(embedding, decoder=NeighborDecoder(3), random_state=0).fit(X, DATA.Y)
    expected = model.predict_topk(X, 5)[0]
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_answer, args=(theirs, model))
    child.start()
    theirs.close()
    assert ours.poll(60), f"no answer; the process ended with {child.exitcode}"
    np.testing.assert_array_equal(ours.recv(), expected)
    child.join()
    assert child.exitcode == 0


# Columns of frames and series as lists, whatever library they come from


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
