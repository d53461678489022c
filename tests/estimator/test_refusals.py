"""What a classifier refuses, in one sentence; one small fit serves all of it."""

import numpy as np
import pytest
from scipy import sparse

from pysldl import SLDLClassifier
from pysldl.decoding import NeighborDecoder
from pysldl.embedding import IdentityLabelEmbedding
from pysldl.exceptions import DataError

X, Y = np.eye(6, 4) + 0.1, np.eye(6, 3)
Y[3:, 0] = 1
MISSING = X.copy()
MISSING[2, 1] = MISSING[4, 0] = np.nan


def classifier(**settings):
    return SLDLClassifier(IdentityLabelEmbedding(), decoder=NeighborDecoder(2), random_state=0, **settings)


@pytest.fixture(scope="module")
def model():
    return classifier(calibrate=False).fit(X, Y)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.score(X, Y, sample_weight=np.ones(6)), "sample_weight is not supported by the ranking score"),
        (lambda m: m.encode(Y, unseen="ignore"), "unseen must be 'error', 'keep' or 'drop', but is 'ignore'"),
        (lambda m: m.predict(X), "learned neither threshold nor probabilities: fit it with calibrate=True"),
        (lambda m: m.explain(X, 0), "explain takes one row, but got 6"),
        (lambda m: m.explain(X[0], 3), "There is no label 3: columns go from 0 to 2"),
        (lambda m: m.fit(X, Y, feature_names=["a"]), "feature_names holds 1 names, but X has 4 columns"),
        (lambda m: m.fit(["", "a"] * 3, Y), "The texts give no features: they have no words of two letters or more"),
        (lambda m: m.explain(["a text", "another"], 0), "explain takes one row, but got 2"),
        (lambda m: m.predict_topk(X, 2, names="uri"), "names must be True, False or 'id', but is 'uri'"),
        (lambda m: m.predict(X, threshold="learned"), "threshold must be a number, or None .*, but is 'learned'"),
        (lambda m: m.predict(X, threshold=np.nan), "threshold must be a number, or None .*, but is nan"),
        (lambda m: m.predict_topk([]), r"X is \[\]: pass one text per row, or a matrix of features"),
        (lambda m: m.fit(None, Y), "X is None: pass one text per row"),
        (lambda m: m.fit(MISSING, Y), "contains NaN, first in row 2, column 1: fill it in, .* or leave the row out.$"),
        (lambda m: m.predict_topk(sparse.csr_array(MISSING)), "contains NaN, first in row 2, column 1"),
    ],
)
def test_one_sentence_says_what_is_wrong(model, call, message):
    with pytest.raises(DataError, match=message):
        call(model)


def test_sets_of_labels_ask_for_recall_or_precision():
    model = classifier().fit(X, Y)
    for given in ({}, {"recall": 0.9, "precision": 0.9}):
        with pytest.raises(DataError, match="Give recall= or precision=, one of them"):
            model.predict_set(X, **given)


def test_names_of_a_model_of_classes_are_where_the_error_says():
    model = classifier().fit(X, ["sea", "sky"] * 3)
    with pytest.raises(DataError, match=r"leave it out, and classes_\[labels\] are the classes"):
        model.predict_topk(X, 1, names=True)
    assert model.classes_[model.predict_topk(X, 1)[0]].shape == (6, 1)
