"""Texts in every form become a list of strings; tables with several columns are refused with the remedy."""

import numpy as np
import pytest
from scipy import sparse

from pysldl import load_model, make_sldl
from pysldl.exceptions import DataError
from pysldl.preprocessing.text import (
    PROBE_CHARACTERS,
    PROBE_ROWS,
    VECTORIZERS,
    as_texts,
    choose_vectorizer,
    default_vectorizer,
    probe_quality,
    probe_rows,
    probe_size,
)


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


# The features of texts are chosen by what finds labels: words, pairs of them, or groups of characters


STEMS = ("kirja", "talo", "metsä", "koulu", "laiva", "sauna", "hevonen", "lintu")
ENDINGS = ("ssa", "sta", "lla", "lta", "lle", "ksi", "tta", "ineen", "mme", "nne", "nsa", "kin")


def texts_and_labels(n: int, *, forms: bool) -> tuple[list[str], sparse.csr_array]:
    """Texts of a word that tells the label, in one form or in any of many, and of words that tell nothing."""
    rng = np.random.RandomState(0)
    labels = rng.randint(len(STEMS), size=n)
    texts = []
    for label in labels:
        ending = "".join(rng.choice(ENDINGS, 3)) if forms else ""
        others = " ".join(f"word{rng.randint(9)}" for _ in range(3))
        texts.append(f"{others} {STEMS[label]}{ending}")
    Y = sparse.csr_array((np.ones(n), (np.arange(n), labels)), shape=(n, len(STEMS)))
    return texts, Y


@pytest.mark.parametrize(("forms", "analyzer"), [(False, "word"), (True, "char_wb")])
def test_a_language_with_many_forms_of_a_word_gets_groups_of_characters(forms, analyzer):
    texts, Y = texts_and_labels(600, forms=forms)
    chosen = choose_vectorizer(texts, Y)
    assert chosen.analyzer == analyzer and chosen.sublinear_tf
    assert choose_vectorizer(texts, Y).get_params() == chosen.get_params()


def test_words_in_an_order_that_tells_the_label_get_pairs():
    rng = np.random.RandomState(0)
    turned = rng.randint(2, size=600)
    names = [f"n{number}" for number in range(6)]
    texts = []
    for turn in turned:
        first, second = sorted(rng.choice(names, 2, replace=False))
        texts.append(f"{second} {first}" if turn else f"{first} {second}")
    Y = sparse.csr_array(np.column_stack([turned, 1 - turned]).astype(np.float64))
    assert choose_vectorizer(texts, Y).ngram_range == (1, 2)


def test_few_texts_are_taken_by_words():
    texts, Y = texts_and_labels(150, forms=True)
    assert choose_vectorizer(texts, Y).analyzer == "word"


def test_what_is_looked_at_does_not_grow_with_the_texts():
    rows = probe_rows(10_000)
    assert len(rows) == PROBE_ROWS and len(np.unique(rows)) == len(rows)
    assert probe_size(["short text"] * PROBE_ROWS) == PROBE_ROWS
    assert probe_size(["x" * 1000] * PROBE_ROWS) == PROBE_CHARACTERS // 1000


def test_texts_without_terms_have_no_quality():
    assert probe_quality(["a", "b"] * 10, sparse.csr_array(np.ones((20, 1))), VECTORIZERS["words"]) == 0.0


def test_a_classifier_chooses_keeps_and_saves_its_vectorizer(tmp_path):
    texts, Y = texts_and_labels(400, forms=True)
    clf = make_sldl("fast", vectorizer="auto").fit(texts[:300], Y[:300])
    assert clf.vectorizer == "auto" and clf.vectorizer_.analyzer == "char_wb"
    assert clf.score(texts[300:], Y[300:]) > make_sldl("fast").fit(texts[:300], Y[:300]).score(texts[300:], Y[300:])
    clf.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.vectorizer == "auto" and again.vectorizer_.get_params() == clf.vectorizer_.get_params()
    np.testing.assert_array_equal(again.predict_topk(texts[300:])[1], clf.predict_topk(texts[300:])[1])
    assert again.explain(texts[300], 0).terms


def test_texts_and_labels_of_different_length_are_refused():
    with pytest.raises((DataError, ValueError), match="inconsistent numbers of samples"):
        make_sldl("fast", vectorizer="auto").fit(["a text"] * 3, np.eye(2))


def test_hashed_words_need_no_vocabulary_and_are_saved(tmp_path):
    texts, Y = texts_and_labels(400, forms=False)
    clf = make_sldl("fast", vectorizer="hashing").fit(texts[:300], Y[:300])
    assert clf.n_features_in_ == 1 << 20 and clf.feature_names_ is None
    assert clf.score(texts[300:], Y[300:]) > 0.9
    clf.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.vectorizer_.get_params() == clf.vectorizer_.get_params()
    assert np.array_equal(again.predict_topk(texts[300:], 3)[1], clf.predict_topk(texts[300:], 3)[1])
    assert again.explain(texts[:1], 0).neighbors
