"""Texts in any supported form as lists of strings, and their vectorizer: the default, or chosen on training rows."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import as_int32_indices
from pysldl.backend.voting import vote_top
from pysldl.exceptions import DataError
from pysldl.metrics import evaluate
from pysldl.preprocessing.features import as_column, first_rows, frame_columns, is_frame, is_missing

FIRST_ROWS = 100  # of a frame, which tell the columns of text from those of numbers

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


def as_texts(X: Any) -> list[str] | None:
    """Convert ``X`` to a list of texts; None if it is a matrix of features.

    Texts may be a list, tuple, array or Series of strings, or an array or frame with one such column. A bare string, a
    missing text, and a frame with text among several columns are errors.

    Examples
    --------
    >>> as_texts(("a b", "c"))
    ['a b', 'c']
    >>> as_texts([[0.5, 1.0]]) is None
    True
    """
    if isinstance(X, (str, bytes)):
        raise DataError("X is a single text, but one text per row was expected: pass [text].")
    if isinstance(X, Iterator):
        raise DataError("X is an iterator, which can be read only once: pass list(X).")
    cells = as_column(X)
    if cells is None:
        _refuse_several_columns(X)
        return None
    first = next(cell for cell in cells if not is_missing(cell))
    if isinstance(first, bytes):
        raise DataError("X holds bytes, not texts: decode them, as in [text.decode() for text in X].")
    if not isinstance(first, str):
        _refuse_several_columns(X)
        return None
    if np.ndim(X) == 2 and _is_number(first):  # a matrix of one column, whose numbers are written as text
        return None
    for row, cell in enumerate(cells):
        if is_missing(cell):
            raise DataError(
                f"Row {row} of X is {cell}, not a text: write '' for a row without text, or leave the row out."
            )
        if not isinstance(cell, str):
            raise DataError(f"Row {row} of X is {cell!r}, not a text as the rows above it.")
    return [str(cell) for cell in cells]


def default_vectorizer(**settings: Any) -> Any:
    """Make the vectorizer for texts if the user gave none: TF-IDF with ``1 + log(count)``.

    ``settings`` are further parameters of scikit-learn's ``TfidfVectorizer``.

    Examples
    --------
    >>> default_vectorizer(min_df=2)
    TfidfVectorizer(min_df=2, sublinear_tf=True)
    """
    from sklearn.feature_extraction.text import TfidfVectorizer  # not above: a model that only answers has its own

    return TfidfVectorizer(sublinear_tf=True, **settings)


def hashing_vectorizer() -> Any:
    """Make a vectorizer without a vocabulary: the column of a word is a hash of it, one of a million.

    Examples
    --------
    >>> hashing_vectorizer().transform(["sea and sky"]).shape
    (1, 1048576)
    """
    from sklearn.feature_extraction.text import HashingVectorizer  # not above: a model that only answers has its own

    return HashingVectorizer(alternate_sign=False, dtype=np.float32)


def has_terms(vectorizer: Any) -> bool:
    """Whether the columns of a vectorizer have names; those of hashes have none."""
    return hasattr(vectorizer, "get_feature_names_out")


def _refuse_several_columns(X: Any) -> None:
    """Raise an error if ``X`` has several columns and there are words among them."""
    if is_frame(X):
        written = [column for column, cells in frame_columns(first_rows(X, FIRST_ROWS)) if _holds_words(cells)]
        if written:
            several = len(written) > 1
            raise DataError(
                f"X has {len(X.columns)} columns, of which {', '.join(map(repr, written[:5]))} "
                f"{'hold' if several else 'holds'} text. Choose one, as in X[{written[0]!r}]"
                + (f", or join them: X[{written[0]!r}] + ' ' + X[{written[1]!r}]." if several else ".")
            )
        return
    row = X[0] if isinstance(X, (list, tuple)) and len(X) and isinstance(X[0], (list, tuple)) else None
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "UOT" and X.shape[0]:
        row = X[0].tolist()
    if row is not None and _holds_words(row):
        raise DataError(
            f"X has rows of {len(row)} values with text among them; texts are passed as one text per row, as in "
            "['first text', 'second text']."
        )


def _holds_words(cells: Any) -> bool:
    return any(isinstance(cell, str) and not _is_number(cell) for cell in cells)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


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
    metrics = evaluate(Y[:n_queries], labels, ks=(1, 3, 5))
    return sum(metrics[f"P@{k}"] for k in (1, 3, 5))
