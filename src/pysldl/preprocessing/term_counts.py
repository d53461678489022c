"""The vocabulary of texts that come in blocks: counted block by block, put together, and given to a vectorizer."""

from collections import Counter
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pysldl.exceptions import DataError

__all__ = ["TermCounts", "count_terms", "merge_term_counts", "vocabulary_of_counts"]


class TermCounts(NamedTuple):
    """How often terms occur.

    Attributes
    ----------
    n_texts : int
    texts : Counter
        Texts that have each term.
    total : Counter
        Occurrences of each term; kept where a vectorizer limits the number of its features.
    """

    n_texts: int
    texts: Counter[str]
    total: Counter[str]


def count_terms(vectorizer: Any, texts: Sequence[str]) -> TermCounts:
    """Count the terms that a vectorizer finds in texts, without fitting it.

    Examples
    --------
    >>> from pysldl.preprocessing.text import default_vectorizer
    >>> count_terms(default_vectorizer(), ["sea and sky", "sky"]).texts["sky"]
    2
    """
    analyze = vectorizer.build_analyzer()
    given = vectorizer.vocabulary
    known = None if given is None else set(given)
    with_term: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for text in texts:
        terms = analyze(text)
        if known is not None:
            terms = [term for term in terms if term in known]
        with_term.update(set(terms))
        if vectorizer.max_features is not None:
            total.update(terms)
    return TermCounts(len(texts), with_term, total)


def merge_term_counts(parts: Iterable[TermCounts]) -> TermCounts:
    """Counts of several blocks of texts together."""
    n_texts, with_term, total = 0, Counter[str](), Counter[str]()
    for part in parts:
        n_texts += part.n_texts
        with_term.update(part.texts)
        total.update(part.total)
    return TermCounts(n_texts, with_term, total)


def vocabulary_of_counts(vectorizer: Any, counts: TermCounts) -> tuple[list[str], NDArray[np.float64] | None]:
    """Terms in the order of their columns, and their idf weights, as scikit-learn's ``fit`` to all texts finds them.

    Parameters
    ----------
    vectorizer : CountVectorizer or TfidfVectorizer
    counts : TermCounts

    Returns
    -------
    terms : list of str
    idf : ndarray of shape (n_terms,) or None
        None where the vectorizer has no such weights.
    """
    given = vectorizer.vocabulary
    terms = _limited(vectorizer, counts) if given is None else _given_terms(given)
    if not getattr(vectorizer, "use_idf", False):
        return terms, None
    df = np.array([counts.texts.get(term, 0) for term in terms], dtype=vectorizer.dtype)
    n_texts = counts.n_texts
    if vectorizer.smooth_idf:
        df += 1.0
        n_texts += 1
    idf = np.full_like(df, n_texts)
    idf /= df
    np.log(idf, out=idf)
    idf += 1.0
    return terms, idf


def _given_terms(vocabulary: Any) -> list[str]:
    if isinstance(vocabulary, dict):
        return sorted(vocabulary, key=vocabulary.__getitem__)
    return sorted(vocabulary) if isinstance(vocabulary, (set, frozenset)) else list(vocabulary)


def _limited(vectorizer: Any, counts: TermCounts) -> list[str]:
    """The terms within ``min_df``, ``max_df`` and ``max_features``, sorted."""
    terms = sorted(counts.texts)
    if not terms:
        raise DataError("The texts give no features: empty vocabulary; perhaps the documents only contain stop words")
    df = np.array([counts.texts[term] for term in terms], dtype=np.int64)
    highest, lowest = (
        float(bound if isinstance(bound, Integral) else bound * counts.n_texts)
        for bound in (vectorizer.max_df, vectorizer.min_df)
    )
    kept = (df <= highest) & (df >= lowest)
    if vectorizer.max_features is not None and kept.sum() > vectorizer.max_features:
        total = np.array([counts.total[term] for term in terms], dtype=np.int64)
        frequent = (-total[kept]).argsort()[: vectorizer.max_features]
        chosen = np.zeros(len(terms), dtype=bool)
        chosen[np.flatnonzero(kept)[frequent]] = True
        kept = chosen
    if not kept.any():
        raise DataError("The texts give no features: no term is left within min_df and max_df.")
    return [term for term, keep in zip(terms, kept.tolist(), strict=True) if keep]
