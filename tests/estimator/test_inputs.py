"""Texts and labels as people have them in frames, and model selection with label names."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate, learning_curve

from pysldl import SLDLClassifier, make_sldl
from pysldl.embedding import RandomLabelEmbedding
from pysldl.exceptions import DataError, SLDLWarning
from pysldl.metrics import evaluate
from pysldl.preprocessing.labels import encode_labels

pd = pytest.importorskip("pandas", reason="pandas is not installed (it is part of the extra dev)")
pl = pytest.importorskip("polars", reason="polars is not installed (it is part of the extra dev)")

TEXTS = ["good cat food", "dog walks", "cat and dog", "sky cloud", "cloud rain", "blue sky"] * 5
LABELS = [["cat"], ["dog"], ["cat", "dog"], ["sky", "cloud"], ["cloud"], ["sky"]] * 5


def objects(rows):
    array = np.empty(len(rows), dtype=object)
    array[:] = rows
    return array


LABEL_FORMS = {
    "list of lists": LABELS,
    "list of tuples": [tuple(row) for row in LABELS],
    "list of sets": [set(row) for row in LABELS],
    "object array": objects(LABELS),
    "pandas lists": pd.Series(LABELS, index=range(100, 130)),
    "pandas tuples": pd.Series([tuple(row) for row in LABELS]),
    "pandas sets": pd.Series([set(row) for row in LABELS]),
    "pandas arrays": pd.Series([np.array(row) for row in LABELS]),
    "pandas frame": pd.DataFrame({"tags": LABELS}),
    "polars": pl.Series(LABELS),
    "polars frame": pl.DataFrame({"tags": LABELS}),
}
TEXT_FORMS = {
    "tuple": tuple(TEXTS),
    "array": np.array(TEXTS),
    "object array": np.array(TEXTS, dtype=object),
    "array of one column": np.array(TEXTS)[:, None],
    "pandas": pd.Series(TEXTS, index=range(7, 37)),
    "pandas category": pd.Series(TEXTS, dtype="category"),
    "pandas frame": pd.DataFrame({"text": TEXTS}, index=range(7, 37)),
    "polars": pl.Series(TEXTS),
    "polars frame": pl.DataFrame({"text": TEXTS}),
}


@pytest.fixture(scope="module")
def fitted():
    return make_sldl("fast").fit(TEXTS, LABELS)


@pytest.mark.parametrize("form", LABEL_FORMS)
def test_columns_of_label_lists(fitted, form):
    y = LABEL_FORMS[form]
    clf = make_sldl("fast").fit(TEXTS, y)
    assert clf.label_names_.tolist() == ["cat", "cloud", "dog", "sky"]
    assert clf.predict(TEXTS) == fitted.predict(TEXTS)
    assert clf.score(TEXTS, y) == fitted.score(TEXTS, LABELS)


@pytest.mark.parametrize("form", TEXT_FORMS)
def test_columns_of_texts(fitted, form):
    X = TEXT_FORMS[form]
    clf = make_sldl("fast").fit(X, LABELS)
    assert clf.feature_names_.tolist() == fitted.feature_names_.tolist()
    assert clf.predict(X) == fitted.predict(TEXTS)
    np.testing.assert_array_equal(clf.predict_topk(X, 3)[0], fitted.predict_topk(TEXTS, 3)[0])
    np.testing.assert_array_equal(clf.predict_proba(X), fitted.predict_proba(TEXTS))
    assert clf.explain(X[:1], "cat").score == fitted.explain(TEXTS[0], "cat").score


def test_learning_on_from_a_frame():
    clf = SLDLClassifier(RandomLabelEmbedding(8), online=True, random_state=0).fit(pd.Series(TEXTS), pd.Series(LABELS))
    clf.partial_fit(pl.Series(["wind and rain"]), pl.Series([["rain", "cloud"]]))
    assert clf.label_names_.tolist()[-1] == "rain" and clf.n_samples_ == len(TEXTS) + 1


@pytest.mark.parametrize("method", ["predict", "predict_topk", "predict_proba", "predict_scores", "decision_function"])
def test_a_bare_string_is_not_taken_for_its_letters(fitted, method):
    with pytest.raises(DataError, match=r"single text.*pass \[text\]"):
        getattr(fitted, method)("good cat food")


BAD_TEXTS = {
    "iterator": (iter(["a b", "c d"]), r"X is an iterator, .*: pass list\(X\)"),
    "bytes": ([b"a b", b"c d"], "X holds bytes, not texts: decode them"),
    "None": (["a", None], "Row 1 of X is None"),
    "NaN": (pd.Series(["a", np.nan]), "Row 1 of X is nan"),
    "polars null": (pl.Series([None, "a"]), "Row 0 of X is None"),
    "a number": (["a", 3], "Row 1 of X is 3"),
    "two columns": (pd.DataFrame({"title": ["a"], "body": ["b"]}), r"'title', 'body' hold text.*X\['title'\] \+"),
    "a text among numbers": (pl.DataFrame({"n": [1], "body": ["b"]}), "'body' holds text. Choose one"),
    "rows of texts": ([["a", "b"], ["c", "d"]], "one text per row"),
    "an array of two columns": (np.array([["a", "b"]]), "one text per row"),
}


@pytest.mark.parametrize("case", BAD_TEXTS)
def test_bad_texts(fitted, case):
    X, message = BAD_TEXTS[case]
    with pytest.raises(DataError, match=message):
        fitted.predict(X)


BAD_LABELS = {
    "None": ([None, ["a"]], "Row 0 of y is None; use \\[\\] for no labels"),
    "NaN": (pd.Series([["a"], np.nan]), "Row 1 of y is nan; use \\[\\]"),
    "polars null": (pl.Series([["a"], None]), "Row 1 of y is None; use \\[\\]"),
    "a name among lists": ([["a"], "b"], "Row 1 of y is 'b'.*write \\['b'\\]"),
    "None among names": ([["a", None], ["b"]], "Row 0 of y holds None"),
    "label numbers": (pd.Series([[3, 17], [5]]), "Numbers that are labels are written as text"),
    "indicator rows in a column": (pd.Series([[0, 1], [1, 1]]), "passed as one matrix"),
    "sets of numbers": ([{1, 2}, {3, 4}], "Numbers that are labels are written as text"),
    "missing class": (["a", None, "b"], "Row 1 of y is None; a one-dimensional y"),
    "one text": ("cat", "y is the text 'cat'"),
    "joined by commas": (["cat,animal", "cat", "dog,animal", "animal", "cat,dog"], "split\\(','\\)"),
    "joined by bars": (pd.Series(["a|b", "a", "b|c", "a|c", "a|b|c"]), "split\\('\\|'\\)"),
    "lists written as text": (["['cat', 'dog']", "['cat']", "[]"], "ast.literal_eval"),
    "columns of names": (pd.DataFrame({"first": ["a", "b"], "second": ["c", "d"]}), "one list per row"),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_labels_that_cannot_be_understood(case):
    y, message = BAD_LABELS[case]
    with pytest.raises(DataError, match=message):
        encode_labels(y)


@pytest.mark.parametrize(
    "y",
    [
        ["cat", "dog", "cat"],
        pd.Series(["cat", "dog", "cat"]),
        pl.Series(["cat", "dog", "cat"]),
        pd.Series(["cat", "dog", "cat"], dtype="category"),
        ["Portland, OR", "Portland, ME", "Salem, OR", "Salem, MA", "Augusta, ME"],
        ["Doe, Jane", "Doe, John", "Roe, Jane", "Roe, John", "Poe, Jane", "Poe, John"],
        ["trade, foreign", "trade, domestic", "fishing", "coal, steel and iron"],
        [3, 1, 3],
    ],
    ids=str,
)
def test_one_class_per_row_stays(y):
    encoded = encode_labels(y)
    assert encoded.kind == "classes"
    assert sorted(set(y)) == encoded.names.tolist()


def test_frames_of_zeros_and_ones_in_any_type():
    table = {"cat": [1, 0, 1], "dog": [0, 1, 1]}
    forms = [pd.DataFrame(table), pd.DataFrame(table).astype("Int64"), pd.DataFrame(table) > 0, pl.DataFrame(table)]
    for frame in forms:
        encoded = encode_labels(frame)
        assert encoded.kind == "indicator" and encoded.names.tolist() == ["cat", "dog"]
        assert encoded.Y.toarray().T.tolist() == list(table.values())


def test_columns_of_a_frame_are_matched_by_name(fitted):
    frame = pd.DataFrame({name: [float(name in row) for row in LABELS] for name in ("sky", "dog", "cloud", "cat")})
    assert fitted.score(TEXTS, frame) == fitted.score(TEXTS, LABELS)
    np.testing.assert_array_equal(fitted.encode(frame).toarray(), fitted.encode(LABELS).toarray())


def test_labels_that_were_never_seen_count_as_missed(fitted):
    truth = [*LABELS[:-1], ["sky", "kite"]]
    with pytest.warns(SLDLWarning, match="1 of 41 true labels are unknown to the model") as warned:
        score = fitted.score(TEXTS, truth)
    assert len(warned) == 1
    labels, _ = fitted.predict_topk(TEXTS, 5)
    assert score == evaluate(fitted.encode(truth, unseen="keep"), labels, ks=(5,))["nDCG@5"]
    assert score < fitted.score(TEXTS, LABELS)
    assert fitted.encode(truth, unseen="drop").shape == (len(TEXTS), 4)
    with pytest.raises(DataError, match="'kite'"):
        fitted.encode(truth)


SELECTION_FORMS = {
    "sets, number of folds": (TEXTS, [set(row) for row in LABELS], 3),
    "pandas sets, number of folds": (pd.Series(TEXTS, index=range(9, 39)), pd.Series(LABELS).map(set), 3),
    "polars, number of folds": (pl.Series(TEXTS), pl.Series(LABELS), 3),
    "lists, KFold": (TEXTS, LABELS, KFold(3)),
    "pandas lists, KFold": (pd.DataFrame({"text": TEXTS}), pd.Series(LABELS), KFold(3)),
    "polars, KFold": (pl.DataFrame({"text": TEXTS}), pl.Series(LABELS), KFold(3)),
}


@pytest.mark.parametrize("form", SELECTION_FORMS)
def test_model_selection_with_label_names(form):
    X, y, cv = SELECTION_FORMS[form]
    clf = make_sldl("fast")
    expected = cross_val_score(clf, TEXTS, LABELS, cv=KFold(3), error_score="raise")
    np.testing.assert_array_equal(cross_val_score(clf, X, y, cv=cv, error_score="raise"), expected)
    np.testing.assert_array_equal(cross_validate(clf, X, y, cv=cv, error_score="raise")["test_score"], expected)
    search = GridSearchCV(clf, {"decoder__n_terms": [10, 20]}, cv=cv, error_score="raise").fit(X, y)
    assert search.best_score_ == pytest.approx(expected.mean())
    assert search.predict(["dog walks"]) == clf.fit(TEXTS, LABELS).predict(["dog walks"])
    _, _, scores = learning_curve(clf, X, y, cv=cv, train_sizes=[1.0], error_score="raise")
    np.testing.assert_array_equal(scores, [expected])


def test_model_selection_with_labels_that_a_fold_lacks():
    rare = [*LABELS[:7], ["dog", "rare"], *LABELS[8:]]
    with pytest.warns(SLDLWarning, match="count as missed"):
        scores = cross_val_score(make_sldl("fast"), TEXTS, rare, cv=KFold(3), error_score="raise")
    assert np.isfinite(scores).all() and scores[0] < 1.0


def test_progress(capsys):
    def fit(progress):
        make_sldl("paper", embedding__n_components=4, calibrate=False, progress=progress).fit(np.eye(6), np.eye(6))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SLDLWarning)
        fit(True)
        assert "embedding: step" in capsys.readouterr().err
        fit(False)
        assert capsys.readouterr().err == ""
    with pytest.raises(DataError, match="The 'progress' parameter of SLDLClassifier must be"):
        fit("yes")


def test_public_names_are_there_and_nothing_heavy_is_imported():
    program = """
import sys, pysldl
names = dir(pysldl)
assert {"SLDLClassifier", "make_sldl", "load_model", "evaluate", "__version__"} <= set(names), names
heavy = {"numpy", "scipy", "sklearn", "pandas", "polars", "torch", "numba"} & set(sys.modules)
assert not heavy, heavy
from pysldl import SLDLClassifier, evaluate, load_model, make_sldl
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_warnings_of_a_fit_point_to_the_line_that_called_it():
    with pytest.warns(SLDLWarning, match="1 of 5 labels have no training examples") as warned:
        make_sldl("fast", calibrate=False).fit(TEXTS, LABELS, label_names=["sky", "dog", "cloud", "cat", "kite"])
    assert [warning.filename for warning in warned] == [__file__]


def test_labels_that_differ_only_by_blanks_around_them_are_pointed_out():
    rows = [text.split(",") for text in ("cat, dog", "dog,cat")] * 15
    with pytest.warns(SLDLWarning, match=r"1 of 3 labels differ .* such as ' dog' and 'dog': strip the names"):
        make_sldl("fast").fit(TEXTS, rows)


def test_the_advice_for_labels_in_one_text_gives_neither_blanks_nor_empty_labels():
    y = ["cat, dog", "dog", "cat,", "dog, cat", "", "cat"] * 5
    with pytest.raises(DataError) as told:
        make_sldl("fast").fit(TEXTS, y)
    advice = str(told.value).split("write ")[1].split("; if")[0]
    assert eval(advice, {"y": y[:5]}) == [["cat", "dog"], ["dog"], ["cat"], ["dog", "cat"], []]


@pytest.mark.parametrize("library", [pd, pl])
def test_a_missing_number_of_a_frame_is_named(library):
    frame = library.DataFrame({"a": [1.0, 2.0] * 15, "b": [3.0, None] + [4.0] * 28})
    with pytest.raises(DataError, match="contains NaN, first in row 1, column 1: fill it in"):
        make_sldl("fast").fit(frame, LABELS)
    if library is pd:
        with pytest.raises(DataError, match="contains NaN, first in row 1, column 1: fill it in"):
            make_sldl("fast").fit(frame.convert_dtypes(), LABELS)
