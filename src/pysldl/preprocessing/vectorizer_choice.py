"""The features of texts, chosen on training rows: words, words with pairs of them, or groups of characters."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import as_int32_indices
from pysldl.backend.voting import vote_top
from pysldl.metrics import evaluate
from pysldl.preprocessing.text import default_vectorizer

MOST_FEATURES = 200_000
MANY: dict[str, Any] = {"min_df": 2, "max_features": MOST_FEATURES, "dtype": np.float32}
VECTORIZERS: dict[str, dict[str, Any]] = {
    "words": {},
    "word pairs": {"ngram_range": (1, 2), **MANY},
    "characters": {"analyzer": "char_wb", "ngram_range": (3, 5), **MANY},
}
"""What is tried, by name, the cheapest first: settings of :func:`~pysldl.preprocessing.text.default_vectorizer`."""

PROBE_ROWS, PROBE_CHARACTERS = 4000, 400_000
LEAST_ROWS = 200  # fewer tell nothing
N_NEIGHBORS = 20
CLEARLY = 1.03  # what has more features must be better by this factor, for it makes everything that follows slower


def choose_vectorizer(texts: Sequence[str], Y: sparse.csr_array) -> Any:
    """Choose the unfitted vectorizer whose features best find the labels of held-out training rows by voting.

    At most 4,000 texts and 400,000 characters are used, however many texts there are: a quarter of them are queries,
    the others vote. Word pairs, and groups of 3 to 5 characters, which suit languages with many word forms, are limited
    to the 200,000 most frequent that occur in at least two texts. The same texts always give the same choice.

    Examples
    --------
    >>> choose_vectorizer(["too few texts", "to choose"], sparse.csr_array(np.eye(2)))
    TfidfVectorizer(sublinear_tf=True)
    """
    rows = probe_rows(len(texts))
    return choice_of_probe([texts[row] for row in rows], sparse.csr_array(Y[rows]))


def probe_rows(n_texts: int) -> NDArray[np.intp]:
    """Rows drawn from all, as many as are looked at."""
    return np.random.RandomState(0).permutation(n_texts)[:PROBE_ROWS]


def choice_of_probe(texts: Sequence[str], Y: sparse.csr_array) -> Any:
    """What :func:`choose_vectorizer` chooses, by the texts and labels of :func:`probe_rows` in their order."""
    n_read, best = probe_size(texts), "words"
    if n_read >= LEAST_ROWS:
        some, Y = texts[:n_read], Y[:n_read]
        quality = {name: probe_quality(some, Y, settings) for name, settings in VECTORIZERS.items()}
        for name, of_name in quality.items():
            if of_name > CLEARLY * quality[best]:
                best = name
    return default_vectorizer(**VECTORIZERS[best])


def probe_size(texts: Sequence[str]) -> int:
    """How many of the drawn texts are read: as many as the limit of characters allows."""
    return int(np.searchsorted(np.cumsum([len(text) for text in texts]), PROBE_CHARACTERS, side="right"))


def probe_quality(texts: Sequence[str], Y: sparse.csr_array, settings: dict[str, Any]) -> float:
    """P@1, P@3 and P@5, summed, of the votes that the first fourth of the texts gets from the others."""
    n_queries = len(texts) // 4
    vectorizer = default_vectorizer(**settings)
    try:
        X = vectorizer.fit(texts[n_queries:]).transform(texts)
    except ValueError:  # no term is left
        return 0.0
    similarities = (X[:n_queries] @ X[n_queries:].T).toarray().astype(np.float32)
    neighbors = np.argsort(-similarities, axis=1, kind="stable")[:, :N_NEIGHBORS].astype(np.int32)
    weights = np.take_along_axis(similarities, neighbors, axis=1)
    voters = as_int32_indices(sparse.csr_array(Y[n_queries:], dtype=np.float32))
    labels, _ = vote_top(np.where(weights > 0, neighbors, np.int32(-1)), weights, voters, 5)
    told = evaluate(Y[:n_queries], labels, ks=(1, 3, 5))
    return sum(told[f"P@{k}"] for k in (1, 3, 5))
