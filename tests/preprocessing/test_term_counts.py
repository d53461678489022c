"""A vocabulary counted in blocks is the one that scikit-learn finds in all texts."""

from itertools import pairwise

import numpy as np
import pytest

from pysldl.exceptions import DataError
from pysldl.preprocessing.term_counts import count_terms, merge_term_counts, vocabulary_of_counts
from pysldl.preprocessing.text import default_vectorizer

TEXTS = ["the sea and the sky", "sea of clouds", "the clouds, the rain", "rain on the sea", "a wide wide sky"]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"min_df": 2},
        {"max_df": 0.5},
        {"max_features": 4},
        {"ngram_range": (1, 2), "min_df": 2},
        {"vocabulary": ["sea", "rain", "snow"]},
        {"smooth_idf": False, "stop_words": "english"},
        {"use_idf": False, "dtype": np.float32},
    ],
    ids=str,
)
@pytest.mark.parametrize("cuts", [(), (2,), (1, 2, 4)])
def test_as_scikit_learn(settings, cuts):
    vectorizer = default_vectorizer(**settings)
    edges = [0, *cuts, len(TEXTS)]
    counts = [count_terms(vectorizer, TEXTS[start:stop]) for start, stop in pairwise(edges)]
    terms, idf = vocabulary_of_counts(vectorizer, merge_term_counts(counts))
    fitted = vectorizer.fit(TEXTS)
    assert terms == fitted.get_feature_names_out().tolist()
    if vectorizer.use_idf:
        assert np.array_equal(idf, fitted.idf_) and idf.dtype == fitted.idf_.dtype
    else:
        assert idf is None


def test_no_terms_are_an_error():
    vectorizer = default_vectorizer(min_df=9)
    with pytest.raises(DataError, match="min_df"):
        vocabulary_of_counts(vectorizer, count_terms(vectorizer, TEXTS))
    with pytest.raises(DataError, match="no features"):
        vocabulary_of_counts(vectorizer, count_terms(vectorizer, ["", "a"]))
