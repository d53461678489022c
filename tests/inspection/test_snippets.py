"""Short texts for training rows."""

import numpy as np
from scipy import sparse

from pysldl.inspection.explanation import row_snippets, top_terms


def test_texts_are_cut_between_words():
    short, long = row_snippets(["  a\n b ", "word " * 100], None)
    assert short == "a b" and long.endswith("word …") and 290 < len(long) <= 302


def test_features_give_their_largest_terms():
    X = sparse.csr_array(np.array([[1.0, 0, 3, 2], [0, 0, 0, 0]]))
    assert row_snippets(X, np.array(list("abcd"))).tolist() == ["c · d · a", ""]
    assert row_snippets(X, None).tolist() == ["", ""]
    values = np.arange(20.0)
    assert top_terms(np.arange(20), values, np.arange(20).astype(str)).split(" · ") == [str(19 - i) for i in range(12)]
