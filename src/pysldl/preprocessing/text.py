"""Convert texts in any supported form to a list of strings, and make the vectorizer for them."""

from typing import Any

import numpy as np

from pysldl.exceptions import DataError
from pysldl.preprocessing.frames import as_column, first_rows, frame_columns, is_frame, is_missing

FIRST_ROWS = 100  # of a frame, which tell the columns of text from those of numbers


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
    cells = as_column(X)
    if cells is None:
        _refuse_several_columns(X)
        return None
    first = next(cell for cell in cells if not is_missing(cell))
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
