"""scikit-learn's text vectorizers, taken apart into what makes them work and put together again."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pysldl.exceptions import DataError

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import CountVectorizer

__all__ = ["is_vectorizer", "parts_of_vectorizer", "restore_vectorizer"]

VECTORIZERS = ("CountVectorizer", "TfidfVectorizer")


def is_vectorizer(value: Any) -> bool:
    """Whether ``value`` is exactly one of the vectorizers that can be saved."""
    return type(value) in map(_class_of, VECTORIZERS)


def parts_of_vectorizer(vectorizer: "CountVectorizer", where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters, and once fitted the terms in the order of their columns and their idf weights."""
    params = vectorizer.get_params(deep=False)
    for name, value in params.items():
        if callable(value) and not isinstance(value, type):
            raise DataError(
                f"The model cannot be saved: {where}.{name} is a function, and functions have no place in a model "
                "folder. Prepare the texts before you fit, and leave the parameter out."
            )
    state = {}
    if hasattr(vectorizer, "vocabulary_"):
        state["vocabulary_"] = vectorizer.get_feature_names_out().tolist()
        if getattr(vectorizer, "use_idf", False):
            state["idf_"] = vectorizer.idf_
    return params, state


def restore_vectorizer(name: str, params: Mapping[str, Any], state: Mapping[str, Any]) -> "CountVectorizer":
    """The vectorizer with these :func:`parts_of_vectorizer`."""
    if name not in VECTORIZERS:
        raise KeyError(name)
    vectorizer = _class_of(name)(**params)
    if "vocabulary_" not in state:
        return vectorizer
    terms = state["vocabulary_"]
    if name == "TfidfVectorizer" and "idf_" not in state:
        # Its inner transformer must have been fitted; without weights, it learns the same from any text.
        given = {name: params[name] for name in ("vocabulary", "input")}
        vectorizer.set_params(vocabulary=terms, input="content").fit([""]).set_params(**given)
    vectorizer.vocabulary_ = {term: column for column, term in enumerate(terms)}
    vectorizer.fixed_vocabulary_ = vectorizer.vocabulary is not None
    if "idf_" in state:
        vectorizer.idf_ = state["idf_"]
    return vectorizer


def _class_of(name: str) -> Any:
    from sklearn.feature_extraction import text  # not above: most models hold no texts, and would wait for it

    return getattr(text, name)
