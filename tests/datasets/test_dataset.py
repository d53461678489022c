"""A Dataset checks itself, gives parts of itself, and weighs its terms."""

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

from pysldl.datasets import Dataset
from pysldl.exceptions import DataError

X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [4.0, 0.0, 0.0]])
Y = np.array([[1, 0], [1, 1], [0, 0]])
NAMES = ["sky", "cloud"]


def test_everything_is_brought_to_one_form() -> None:
    ds = Dataset("d", csr_matrix(X), csr_matrix(Y), NAMES, splits={"train": [0, 2], "test": [1]})
    assert isinstance(ds.X, csr_array) and ds.X.dtype == np.float32
    assert isinstance(ds.Y, csr_array) and ds.Y.dtype == np.float32 and (ds.Y.data == 1).all()
    assert (ds.n_samples, ds.n_features, ds.n_labels) == (3, 3, 2)
    assert ds.labels_per_sample == 1.0
    assert ds.feature_density == pytest.approx(4 / 9)
    assert repr(ds) == (
        "Dataset('d': 3 samples, 3 features (44.44% stored), 2 labels, 1.00 labels/sample, splits train 2, test 1)"
    )


def test_dense_stays_dense() -> None:
    ds = Dataset("d", X, Y, NAMES)
    assert isinstance(ds.X, np.ndarray) and ds.X.dtype == np.float32 and ds.feature_density == 1.0


def test_the_callers_matrix_is_not_touched() -> None:
    unsorted = csr_array((np.array([1.0, 2.0], np.float32), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    ds = Dataset("d", unsorted, [[1, 0]], NAMES)
    assert unsorted.indices.tolist() == [1, 0]
    assert ds.X.indices.tolist() == [0, 1]


def test_subset_and_split_keep_rows_together() -> None:
    ds = Dataset("d", csr_array(X), Y, NAMES, splits={"test": [2, 0]}, texts=["a", "b", "c"])
    for part in (ds.split("test"), ds.subset([2, 0])):
        np.testing.assert_array_equal(part.X.toarray(), X[[2, 0]])
        np.testing.assert_array_equal(part.Y.toarray(), Y[[2, 0]])
        assert part.texts == ["c", "a"] and part.splits == {}
    np.testing.assert_array_equal(ds.subset([True, False, True]).Y.toarray(), Y[[0, 2]])


def test_tfidf_is_one_plus_log_times_idf_with_unit_rows() -> None:
    idf = np.array([1.0, 2.0, 3.0])
    ds = Dataset("d", csr_array(X), Y, NAMES, idf=idf).tfidf()
    first = np.array([1.0, 0.0, (1 + np.log(2)) * 3])
    expected = [first / np.linalg.norm(first), [0, 1, 0], [1, 0, 0]]
    np.testing.assert_allclose(ds.X.toarray(), expected, rtol=1e-6)
    with pytest.raises(DataError, match="no raw term counts"):
        ds.tfidf()


def test_texts_are_vectorized_by_what_the_train_rows_know() -> None:
    texts = ["cloud over sky", "cloud and rain", "sky and sky", "unseen word and sky"]
    ds = Dataset("d", None, np.eye(4), list("abcd"), splits={"train": [0, 1, 2], "test": [3]}, texts=texts)
    assert ds.n_features == 0 and "texts" in repr(ds)
    vectorized = ds.vectorize()
    assert vectorized.feature_names is not None
    assert vectorized.feature_names.tolist() == ["and", "cloud", "sky"]
    assert vectorized.X.shape == (4, 3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"X": X[:2]}, "X has length 2, but there are 3 rows in Y"),
        ({"X": X[0]}, "X has 1 dimension"),
        ({"X": [["a", "b", "c"]] * 3}, "not a matrix of numbers"),
        ({"X": np.where(X == 3, np.nan, X)}, "X is nan at row 1, column 1"),
        ({"X": csr_array(np.where(X == 2, np.inf, X))}, "X is inf at row 0, column 2"),
        ({"X": np.where(X == 4, 1e300, X)}, "X is inf at row 2, column 0"),
        ({"Y": Y * 2}, "'d'.*only 0 and 1.*row 0, column 0 is 2"),
        ({"label_names": ["sky", "sky"]}, "'d'.*'sky'"),
        ({"label_names": ["sky"]}, "1 names, but Y has 2"),
        ({"feature_names": ["a"]}, "feature_names has length 1, but there are 3 columns in X"),
        ({"idf": [1.0]}, "idf has length 1"),
        ({"texts": ["a"]}, "texts has length 1"),
        ({"X": None}, "neither X nor texts"),
        ({"splits": {"train": [0, 3]}}, "'train' names row 3, but there are 3 rows"),
        ({"splits": {"train": [-1]}}, "'train' names row -1"),
        ({"splits": {"train": [0.5]}}, "'train' must be one list of row numbers"),
    ],
)
def test_what_does_not_agree_is_named(fields: dict[str, object], message: str) -> None:
    right: dict[str, object] = {"X": X, "Y": Y, "label_names": NAMES}
    with pytest.raises(DataError, match=message):
        Dataset("d", **(right | fields))  # type: ignore[arg-type]


def test_unknown_split_and_wrong_mask() -> None:
    ds = Dataset("d", X, Y, NAMES, splits={"train": [0]})
    with pytest.raises(DataError, match="no split 'valid'; it has: 'train'"):
        ds.split("valid")
    with pytest.raises(DataError, match="mask has shape"):
        ds.subset([True, False])
    with pytest.raises(DataError, match="holds no texts"):
        ds.vectorize()
    with pytest.raises(DataError, match="cannot be vectorized"):
        Dataset("d", None, Y, NAMES, texts=["", "", ""]).vectorize()


def test_counts_must_be_positive_for_tfidf() -> None:
    with pytest.raises(DataError, match="must be positive, found -4"):
        Dataset("d", -csr_array(X), Y, NAMES, idf=np.ones(3)).tfidf()
