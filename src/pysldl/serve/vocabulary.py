"""From texts to the features of a model."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.linear_algebra import row_norms
from pysldl.preprocessing.text import has_terms
from pysldl.serve.stop_words import STOP_WORDS

# Feature names are words, or stems, where this share of a sample of them are.
LEAST_SHARE = 0.9
SAMPLE = 2000
STEM_SAMPLE = 500  # stemming two thousand names would take a tenth of a second of the start

_TOKEN = re.compile(r"\w\w+")
_JOINED_TOKEN = re.compile(r"\w[\w'’-]*\w")
_WORD = re.compile(r"\w+")
_JOINTS = re.compile(r"['’-]")
_WORDS = re.compile(r"[^\W\d_A-Z][\w' -]*\.?")


class TextFeatures(Protocol):
    """Turns texts into features."""

    def transform(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return the features of texts, CSR of shape (n_texts, n_features)."""

    def words_by_term(self, text: str) -> dict[str, list[str]]:
        """Return the words of a text behind each term, as the text spells them."""

    def informative(self, texts: Sequence[str], X: sparse.csr_array) -> NDArray[np.int64]:
        """Return how many of the features ``X`` of each text come from other words than stop words."""


def text_features(classifier: Any, *, weighted: bool) -> TextFeatures | None:
    """Return what turns texts into the features of a model; None where the model takes vectors only.

    ``weighted``: the term counts were weighted by tf-idf; counting words then takes the idf of the training rows.
    """
    if classifier.vectorizer_ is not None:
        return VectorizerFeatures(classifier.vectorizer_)
    idf = getattr(classifier, "feature_idf_", None)
    names = [] if classifier.feature_names_ is None else classifier.feature_names_.tolist()
    if (weighted and idf is None) or not is_vocabulary(names):
        return None
    return TermVocabulary(names, idf)


class VectorizerFeatures:
    """The vectorizer of scikit-learn that the model was fitted with."""

    def __init__(self, vectorizer: Any) -> None:
        self._vectorizer = vectorizer

    def transform(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return the features of texts, CSR of shape (n_texts, n_features)."""
        return sparse.csr_array(self._vectorizer.transform(texts))

    def words_by_term(self, text: str) -> dict[str, list[str]]:
        """Return the words of a text behind each term: the word, all of a phrase, those that hold a part of a word."""
        as_term = self._vectorizer.build_preprocessor()
        if self._vectorizer.analyzer == "word":
            words = self._vectorizer.build_tokenizer()(text)
            sizes = range(1, self._vectorizer.ngram_range[1] + 1)
            phrases = (words[start : start + size] for size in sizes for start in range(len(words) - size + 1))
            return _grouped((" ".join(map(as_term, phrase)), word) for phrase in phrases for word in phrase)
        if not isinstance(self._vectorizer.analyzer, str):
            return {}
        analyze = self._vectorizer.build_analyzer()
        return _grouped((term, word) for word in dict.fromkeys(_WORD.findall(text)) for term in analyze(word))

    def informative(self, texts: Sequence[str], X: sparse.csr_array) -> NDArray[np.int64]:
        """Return how many of the features ``X`` of each text come from other words than stop words."""
        counts = np.diff(X.indptr).astype(np.int64)
        if self._vectorizer.analyzer == "word":
            return _count(X, self._is_informative)
        only_stop_words = np.array([_has_only_stop_words(text) for text in texts], dtype=bool)
        return np.where(only_stop_words, 0, counts)

    @cached_property
    def _is_informative(self) -> NDArray[np.bool_]:
        if not has_terms(self._vectorizer):
            return np.ones(self._vectorizer.n_features, dtype=bool)
        return np.array([not _has_only_stop_words(name) for name in self._vectorizer.get_feature_names_out()])


class TermVocabulary:
    """Counts the words and phrases of texts that are feature names of a model, in the order of its columns.

    Where the names are English stems, as in the stackex data sets, the words are stemmed before they are looked up.
    With ``idf``, counts become ``(1 + log(count)) * idf`` with rows of length one.
    """

    def __init__(self, terms: Sequence[str], idf: NDArray[Any] | None = None) -> None:
        # Terms that are reserved words of R end in a period in some data sets.
        self._column = {term.rstrip(".").lower(): column for column, term in reversed(list(enumerate(terms)))}
        self._n_terms = len(terms)
        self._idf = idf
        self._longest = max(len(term.split()) for term in terms)
        some = [term.rstrip(".") for term in _sample(terms, STEM_SAMPLE)]
        self.are_stems = sum(stem(term) == term for term in some) >= LEAST_SHARE * len(some)
        self._pattern = _JOINED_TOKEN if self.are_stems else _TOKEN

    def transform(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return the features of texts, CSR of shape (n_texts, n_terms), float32."""
        rows = [Counter(self._columns(text)) for text in texts]
        indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        indices = np.fromiter((column for row in rows for column in row), np.int32, count=indptr[-1])
        values = np.fromiter((count for row in rows for count in row.values()), np.float32, count=indptr[-1])
        if self._idf is not None:
            values = ((1 + np.log(values)) * self._idf[indices]).astype(np.float32)
        X = sparse.csr_array((values, indices, indptr), shape=(len(texts), self._n_terms))
        X.sort_indices()
        if self._idf is not None:
            X.data /= np.repeat(row_norms(X), np.diff(X.indptr))
        return X

    def words_by_term(self, text: str) -> dict[str, list[str]]:
        """Return the words of a text behind each term that it holds."""
        found = ((self._term(match[0].lower()), match[0]) for match in self._pattern.finditer(text))
        return _grouped((term, word) for term, word in found if term in self._column)

    def informative(self, texts: Sequence[str], X: sparse.csr_array) -> NDArray[np.int64]:
        """Return how many of the features ``X`` of each text come from other words than stop words."""
        return _count(X, self._is_informative)

    @cached_property
    def _is_informative(self) -> NDArray[np.bool_]:
        known = {stem(word) for word in STOP_WORDS} if self.are_stems else STOP_WORDS
        is_informative = np.ones(self._n_terms, dtype=bool)
        for term, column in self._column.items():
            is_informative[column] = not all(word in known for word in term.split())
        return is_informative

    def _term(self, token: str) -> str:
        return stem(_JOINTS.sub("", token)) if self.are_stems else token

    def _columns(self, text: str) -> list[int]:
        tokens = [self._term(token) for token in self._pattern.findall(text.lower())]
        found = [self._column[token] for token in tokens if token in self._column]
        for size in range(2, self._longest + 1):
            phrases = (" ".join(tokens[start : start + size]) for start in range(len(tokens) - size + 1))
            found += [self._column[phrase] for phrase in phrases if phrase in self._column]
        return found


def is_vocabulary(names: Sequence[str]) -> bool:
    """Return whether feature names can be found in a text: nearly all are lower-case words or phrases."""
    some = _sample(names, SAMPLE)
    return bool(some) and sum(_WORDS.fullmatch(name) is not None for name in some) >= LEAST_SHARE * len(some)


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return the stem of an English word: "endgam" for "Endgames"."""
    # Released vocabularies were stemmed by the algorithm of snowballstemmer 2; version 3 revised it ("university" is no
    # longer "univers"). Stemmers keep the word that they work on, so threads cannot share one.
    from snowballstemmer.english_stemmer import EnglishStemmer  # type: ignore[import-untyped]

    stemmed: str = EnglishStemmer().stemWord(word.lower())
    return stemmed


def _has_only_stop_words(text: str) -> bool:
    return all(word in STOP_WORDS for word in _WORD.findall(text.lower()))


def _count(X: sparse.csr_array, counted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many stored entries of every row lie in columns that count."""
    sums = np.concatenate([[0], np.cumsum(counted[X.indices])])
    found: NDArray[np.int64] = sums[X.indptr[1:]] - sums[X.indptr[:-1]]
    return found


def _sample(names: Sequence[str], size: int) -> Sequence[str]:
    return names[:: max(1, len(names) // size)]


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for term, word in pairs:
        found.setdefault(term, set()).add(word)
    return {term: sorted(words) for term, words in found.items()}
