"""Fit a vectorizer to texts that come in blocks: count the terms of each block and merge the counts."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.exceptions import DataError
from pysldl.preprocessing.labels import name_array


class TermCounts(NamedTuple):
    """Number of texts, and for each term the texts that contain it and how often it occurs in all of them.

    ``total`` is only counted if a vectorizer limits the number of its features.
    """

    n_texts: int
    texts: Counter[str]
    total: Counter[str]


class CountedTexts(NamedTuple):
    """Texts as counts: their sorted terms, and a CSR matrix (n_texts, n_terms) whose columns ascend in each row."""

    terms: NDArray[Any]
    counts: sparse.csr_array


def count_texts(vectorizer: Any, texts: Sequence[str]) -> CountedTexts:
    """Count the terms that a vectorizer finds in each text, without fitting it.

    Examples
    --------
    >>> from pysldl.preprocessing.text import default_vectorizer
    >>> counted = count_texts(default_vectorizer(), ["sea and sky", "sky"])
    >>> counted.terms.tolist(), counted.counts.toarray().tolist()
    (['and', 'sea', 'sky'], [[1, 1, 1], [0, 0, 1]])
    """
    analyze = vectorizer.build_analyzer()
    known = None if vectorizer.vocabulary is None else set(vectorizer.vocabulary)
    number_of: defaultdict[str, int] = defaultdict()
    number_of.default_factory = number_of.__len__
    sizes, numbers, counts = array("q", [0]), array("q"), array("q")
    for text in texts:
        terms = analyze(text)
        if known is not None:
            terms = [term for term in terms if term in known]
        found = Counter(map(number_of.__getitem__, terms))
        numbers.extend(found.keys())
        counts.extend(found.values())
        sizes.append(len(numbers))
    terms = sorted(number_of)
    column_of = np.empty(len(terms), dtype=np.int32)
    column_of[[number_of[term] for term in terms]] = np.arange(len(terms), dtype=np.int32)
    columns = column_of[np.frombuffer(numbers, dtype=np.int64)] if len(numbers) else np.empty(0, np.int32)
    values = np.array(counts, dtype=np.int32)
    if vectorizer.binary:
        values[:] = 1
    shape = (len(texts), len(terms))
    counted = sparse.csr_array((values, columns, np.array(sizes, dtype=np.int64)), shape=shape)
    counted.sort_indices()
    return CountedTexts(name_array(terms), counted)


def counts_of_terms(vectorizer: Any, counted: CountedTexts) -> TermCounts:
    """How often the terms of counted texts occur, as far as a vectorizer asks for it."""
    terms, matrix = counted.terms.tolist(), counted.counts
    with_term = np.bincount(matrix.indices, minlength=len(terms))
    total = Counter[str]()
    if vectorizer.max_features is not None:
        occurrences = np.bincount(matrix.indices, weights=matrix.data, minlength=len(terms)).astype(np.int64)
        total.update(dict(zip(terms, occurrences.tolist(), strict=True)))
    return TermCounts(matrix.shape[0], Counter(dict(zip(terms, with_term.tolist(), strict=True))), total)


def weighted_counts(vectorizer: Any, counts: sparse.csr_array, idf: NDArray[Any] | None) -> sparse.csr_array:
    """Compute from counts, bit for bit, what ``transform`` of the fitted vectorizer returns for the texts.

    Only the parameters of the vectorizer are used; it need not be fitted. ``counts``, of shape (n_texts, n_terms), has
    the columns of the fitted vectorizer, and ``idf`` is what :func:`vocabulary_of_counts` returns.
    """
    values = counts.astype(vectorizer.dtype)
    if not hasattr(vectorizer, "sublinear_tf"):
        return values
    from sklearn.feature_extraction.text import TfidfTransformer  # not above: a model that only answers has its own

    settings = {name: getattr(vectorizer, name) for name in ("norm", "use_idf", "smooth_idf", "sublinear_tf")}
    one_of_each = sparse.csr_array(np.ones((1, counts.shape[1]), dtype=vectorizer.dtype))
    transformer = TfidfTransformer(**settings).fit(one_of_each)
    if idf is not None:
        transformer.idf_ = idf
    return sparse.csr_array(transformer.transform(values, copy=False))


def merge_term_counts(parts: Iterable[TermCounts]) -> TermCounts:
    """Counts of several blocks of texts together."""
    n_texts, with_term, total = 0, Counter[str](), Counter[str]()
    for part in parts:
        n_texts += part.n_texts
        with_term.update(part.texts)
        total.update(part.total)
    return TermCounts(n_texts, with_term, total)


def vocabulary_of_counts(vectorizer: Any, counts: TermCounts) -> tuple[list[str], NDArray[np.float64] | None]:
    """Return the terms in column order and their idf weights, as scikit-learn's ``fit`` to all texts finds them.

    The weights are None if the vectorizer has none.
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
        # As scikit-learn sums them: among equally frequent terms the type decides which are taken.
        kind = vectorizer.dtype if np.issubdtype(vectorizer.dtype, np.floating) else np.int64
        total = np.array([counts.total[term] for term in terms], dtype=kind)
        frequent = (-total[kept]).argsort()[: vectorizer.max_features]
        chosen = np.zeros(len(terms), dtype=bool)
        chosen[np.flatnonzero(kept)[frequent]] = True
        kept = chosen
    if not kept.any():
        raise DataError("The texts give no features: no term is left within min_df and max_df.")
    return [term for term, keep in zip(terms, kept.tolist(), strict=True) if keep]
