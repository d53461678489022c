"""A vocabulary counted in blocks is the one that scikit-learn finds in all texts."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from pysldl.exceptions import DataError
from pysldl.preprocessing.term_counts import (
    count_texts,
    counts_of_terms,
    merge_term_counts,
    vocabulary_of_counts,
    weighted_counts,
)
from pysldl.preprocessing.text import default_vectorizer

TEXTS = ["the sea and the sky", "sea of clouds", "the clouds, the rain", "rain on the sea", "a wide wide sky"]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"min_df": 2},
        {"max_df": 0.5},
        {"max_features": 4},
        {"max_features": 4, "binary": True},
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
    counted = [count_texts(vectorizer, TEXTS[start:stop]) for start, stop in pairwise(edges)]
    counts = [counts_of_terms(vectorizer, part) for part in counted]
    terms, idf = vocabulary_of_counts(vectorizer, merge_term_counts(counts))
    fitted = vectorizer.fit(TEXTS)
    assert terms == fitted.get_feature_names_out().tolist()
    if vectorizer.use_idf:
        assert np.array_equal(idf, fitted.idf_) and idf.dtype == fitted.idf_.dtype
    else:
        assert idf is None
    column_of = {term: column for column, term in enumerate(terms)}
    found = fitted.transform(TEXTS)
    for part, rows in zip(counted, pairwise(edges), strict=True):
        kept = [column for column, term in enumerate(part.terms) if term in column_of]
        X = sparse.csr_array((part.counts.shape[0], len(terms)), dtype=np.int32).tolil()
        X[:, [column_of[part.terms[column]] for column in kept]] = part.counts[:, kept].tolil()
        X = weighted_counts(vectorizer, sparse.csr_array(X), idf)
        assert X.dtype == found.dtype and np.array_equal(X.toarray(), found[slice(*rows)].toarray())


def counted_terms(vectorizer, texts):
    return counts_of_terms(vectorizer, count_texts(vectorizer, texts))


def test_no_terms_are_an_error():
    vectorizer = default_vectorizer(min_df=9)
    with pytest.raises(DataError, match="min_df"):
        vocabulary_of_counts(vectorizer, counted_terms(vectorizer, TEXTS))
    with pytest.raises(DataError, match="no features"):
        vocabulary_of_counts(vectorizer, counted_terms(vectorizer, ["", "a"]))
