"""Texts in every form become a list of strings; tables with several columns are refused with the remedy."""

import numpy as np
import pytest

from pysldl.exceptions import DataError
from pysldl.preprocessing.text import as_texts, default_vectorizer


@pytest.mark.parametrize(
    "form", [list, tuple, np.array, lambda texts: np.array(texts, dtype=object), lambda texts: np.array(texts)[:, None]]
)
def test_texts_in_any_form(form):
    assert as_texts(form(["a b", "c"])) == ["a b", "c"]


@pytest.mark.parametrize("X", [[[0.5, 1.0]], np.eye(2), [1, 2], np.array([["1.5"], ["2"]])])
def test_features_are_no_texts(X):
    assert as_texts(X) is None


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("one text", r"pass \[text\]"),
        (["a", None], "Row 1 of X is None"),
        (["a", 3], "Row 1 of X is 3"),
        ([["a", "b"]], "one text per row"),
        (np.array([["a", "1"]]), "one text per row"),
    ],
)
def test_what_cannot_be_meant(X, message):
    with pytest.raises(DataError, match=message):
        as_texts(X)


def test_columns_of_a_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"title": ["a", "b"], "body": ["c", "d"], "year": [1, 2]})
    assert as_texts(frame[["title"]]) == as_texts(frame["title"]) == ["a", "b"]
    assert as_texts(frame[["year"]]) is None
    with pytest.raises(DataError, match=r"X\['title'\] \+ ' ' \+ X\['body'\]"):
        as_texts(frame)


def test_the_usual_vectorizer_dampens_counts():
    weights = default_vectorizer(norm=None, use_idf=False).fit_transform(["word word word other"])
    assert weights.max() == pytest.approx(1 + np.log(3))
