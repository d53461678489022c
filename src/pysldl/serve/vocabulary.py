"""From a text to term counts over the feature names of a model."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.row_norms import row_norms
from pysldl.serve.stemming import stem

__all__ = ["Words", "are_words", "forms_of"]

# Feature names this much of which are words, or stems, make a vocabulary of words, or of stems.
MOST = 0.9
SAMPLE = 2000

_TOKEN = re.compile(r"\w\w+")
_JOINED_TOKEN = re.compile(r"\w[\w'’-]*\w")
_JOINTS = re.compile(r"['’-]")


class Words:
    """Counts the words of texts that are feature names.

    A vocabulary of stems, as the stackex sets have, is met with stems. Terms of several words are found, too.

    Parameters
    ----------
    terms : sequence of str
        Feature names, in the order of the columns.
    idf : ndarray of shape (n_terms,), optional
        Turn counts into ``(1 + log(count)) * idf`` with rows of length one.
    """

    def __init__(self, terms: Sequence[str], idf: NDArray[Any] | None = None) -> None:
        # The data sets keep a full stop behind terms that are reserved words of R.
        self._column = {term.rstrip(".").lower(): column for column, term in reversed(list(enumerate(terms)))}
        self._n_terms = len(terms)
        self._idf = idf
        self._longest = max(len(term.split()) for term in terms)
        some = terms[:: max(1, len(terms) // SAMPLE)]
        self.are_stems = sum(stem(term.rstrip(".")) == term.rstrip(".") for term in some) >= MOST * len(some)

    def counts(self, texts: Sequence[str]) -> sparse.csr_array:
        """Features of texts, CSR of shape (n_texts, n_terms), float32."""
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

    def forms(self, text: str) -> dict[str, list[str]]:
        """The words of a text behind each term that it holds, as they are written there."""
        found: dict[str, set[str]] = {}
        for match in (_JOINED_TOKEN if self.are_stems else _TOKEN).finditer(text):
            term = self._term(match[0].lower())
            if term in self._column:
                found.setdefault(term, set()).add(match[0])
        return {term: sorted(words) for term, words in found.items()}

    def _term(self, token: str) -> str:
        return stem(_JOINTS.sub("", token)) if self.are_stems else token

    def _columns(self, text: str) -> list[int]:
        pattern = _JOINED_TOKEN if self.are_stems else _TOKEN
        tokens = [self._term(token) for token in pattern.findall(text.lower())]
        found = [self._column[token] for token in tokens if token in self._column]
        for size in range(2, self._longest + 1):
            phrases = (" ".join(tokens[start : start + size]) for start in range(len(tokens) - size + 1))
            found += [self._column[phrase] for phrase in phrases if phrase in self._column]
        return found


def forms_of(vectorizer: Any, text: str) -> dict[str, list[str]]:
    """The words of a text behind each term of a vectorizer that counts words, as they are written there."""
    if vectorizer.analyzer != "word":
        return {}
    as_term = vectorizer.build_preprocessor()
    found: dict[str, set[str]] = {}
    for word in vectorizer.build_tokenizer()(text):
        found.setdefault(as_term(word), set()).add(word)
    return {term: sorted(words) for term, words in found.items()}


def are_words(names: Sequence[str]) -> bool:
    """Whether feature names can be met in a text: nearly all are lower-case words or phrases."""
    some = names[:: max(1, len(names) // SAMPLE)]
    return sum(re.fullmatch(r"[^\W\d_A-Z][\w' -]*\.?", name) is not None for name in some) >= MOST * len(some)
