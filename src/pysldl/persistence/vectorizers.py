"""Save and restore scikit-learn's text vectorizers.

Only parameters of this module's table are taken, with the values that it allows: a vectorizer could otherwise be told
to read files, or to search by a pattern that takes for ever.
"""

import codecs
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pysldl.exceptions import DataError
from pysldl.persistence.token_patterns import is_linear_pattern

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import CountVectorizer

VECTORIZERS = ("CountVectorizer", "TfidfVectorizer", "HashingVectorizer")
LONGEST_NGRAM = 20


def is_vectorizer(value: Any) -> bool:
    """Whether ``value`` is exactly one of the vectorizers that can be saved."""
    return type(value) in map(_class_of, VECTORIZERS)


def parts_of_vectorizer(vectorizer: "CountVectorizer", where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters and, if fitted, the terms in column order and their idf weights."""
    params = vectorizer.get_params(deep=False)
    for name, value in params.items():
        if callable(value) and not isinstance(value, type):
            raise DataError(
                f"The model cannot be saved: {where}.{name} is a function, and functions have no place in a model "
                "folder. Prepare the texts before you fit, and leave the parameter out."
            )
        if not _is_allowed(name, value):
            raise DataError(
                f"The model cannot be saved: {where}.{name} is {str(value)[:80]!r}, which has no place in a model "
                f"folder. {ADVICE.get(name, 'Prepare the texts before you fit, and leave the parameter out.')}"
            )
    state = {}
    if hasattr(vectorizer, "vocabulary_"):
        state["vocabulary_"] = vectorizer.get_feature_names_out().tolist()
        if getattr(vectorizer, "use_idf", False):
            state["idf_"] = vectorizer.idf_
    return params, state


def restore_vectorizer(name: str, params: Mapping[str, Any], state: Mapping[str, Any]) -> "CountVectorizer":
    """Rebuild a vectorizer from its :func:`parts_of_vectorizer`."""
    if name not in VECTORIZERS:
        raise KeyError(name)
    for parameter, value in params.items():
        if not _is_allowed(parameter, value):
            raise ValueError(f"a vectorizer may not have {parameter[:40]}={str(value)[:80]!r}.")
    vectorizer = _class_of(name)(**params)
    if "vocabulary_" not in state:
        return vectorizer
    terms = state["vocabulary_"]
    if not _is_list_of_texts(terms) or not terms:
        raise ValueError("the terms of a vectorizer must be texts.")
    if name == "TfidfVectorizer" and "idf_" not in state:
        # Its inner transformer must have been fitted; without weights, it learns the same from any text.
        vectorizer.set_params(vocabulary=terms).fit([""]).set_params(vocabulary=params.get("vocabulary"))
    vectorizer.vocabulary_ = {term: column for column, term in enumerate(terms)}
    if len(vectorizer.vocabulary_) != len(terms):
        raise ValueError("a vectorizer has the same term twice.")
    vectorizer.fixed_vocabulary_ = vectorizer.vocabulary is not None
    if "idf_" in state:
        idf = state["idf_"]
        fits = isinstance(idf, np.ndarray) and idf.shape == (len(terms),) and idf.dtype.kind == "f"
        if not fits or not np.isfinite(idf).all():
            raise ValueError("the idf weights of a vectorizer must be one finite number a term.")
        vectorizer.idf_ = idf
    return vectorizer


def _is_bounded_pattern(value: Any) -> bool:
    return value is None or (isinstance(value, str) and is_linear_pattern(value))


def _is_codec(value: Any) -> bool:
    try:
        return isinstance(value, str) and codecs.lookup(value)._is_text_encoding
    except (LookupError, ValueError):
        return False


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is str for item in value)


def _is_whole(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _is_ngram_range(value: Any) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(_is_whole(size, 1, LONGEST_NGRAM) for size in value)
        and value[0] <= value[1]
    )


def _is_frequency(value: Any) -> bool:
    return _is_whole(value, 0, 2**53) or (type(value) is float and 0 <= value <= 1)


def _is_vocabulary(value: Any) -> bool:
    return value is None or _is_list_of_texts(value) or (isinstance(value, dict) and _is_list_of_texts(list(value)))


def _one_of(*values: Any) -> Callable[[Any], bool]:
    return lambda value: any(type(value) is type(one) and value == one for one in values)


_FLAG = _one_of(True, False)
ALLOWED: dict[str, Callable[[Any], bool]] = {
    "input": _one_of("content"),
    "encoding": _is_codec,
    "decode_error": _one_of("strict", "ignore", "replace"),
    "strip_accents": _one_of(None, "ascii", "unicode"),
    "lowercase": _FLAG,
    "preprocessor": _one_of(None),
    "tokenizer": _one_of(None),
    "analyzer": _one_of("word", "char", "char_wb"),
    "stop_words": lambda value: value is None or value == "english" or _is_list_of_texts(value),
    "token_pattern": _is_bounded_pattern,
    "ngram_range": _is_ngram_range,
    "max_df": _is_frequency,
    "min_df": _is_frequency,
    "max_features": lambda value: value is None or _is_whole(value, 1, 2**53),
    "vocabulary": _is_vocabulary,
    "binary": _FLAG,
    "dtype": lambda value: value in (np.float32, np.float64, np.int64, np.int32),
    "norm": _one_of(None, "l1", "l2"),
    "use_idf": _FLAG,
    "smooth_idf": _FLAG,
    "sublinear_tf": _FLAG,
    "n_features": lambda value: _is_whole(value, 1, 2**31 - 1),
    "alternate_sign": _FLAG,
}
ADVICE = {
    "token_pattern": "It may repeat something without end only once, with nothing after it but a word boundary, since "
    "other patterns can take very long on some texts. Prepare the texts before you fit.",
    "input": "Read the files before you fit.",
}


def _is_allowed(name: str, value: Any) -> bool:
    try:
        return name in ALLOWED and bool(ALLOWED[name](value))
    except (TypeError, ValueError):
        return False


def _class_of(name: str) -> Any:
    from sklearn.feature_extraction import text  # not above: most models hold no texts, and would wait for it

    return getattr(text, name)
