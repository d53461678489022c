"""A short text for a training row: the beginning of its text, or its terms with the largest values."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

MAX_LENGTH = 300
N_TERMS = 12


def row_snippets(X: Any, feature_names: NDArray[Any] | None) -> NDArray[np.object_]:
    r"""Return one line of text per row: the start of a text, or the names of the largest features.

    Rows of features without ``feature_names`` give empty lines.

    Examples
    --------
    >>> row_snippets(["Two  rooks\nagainst a queen"], None).tolist()
    ['Two rooks against a queen']
    """
    if not hasattr(X, "shape") or np.ndim(X) == 1:
        return np.array([_beginning(text) for text in X], dtype=np.object_)
    if feature_names is None:
        return np.full(X.shape[0], "", dtype=np.object_)
    X = sparse.csr_array(X)
    rows = (slice(X.indptr[row], X.indptr[row + 1]) for row in range(X.shape[0]))
    return np.array([top_terms(X.indices[row], X.data[row], feature_names) for row in rows], dtype=np.object_)


def top_terms(columns: NDArray[np.integer], values: NDArray[Any], feature_names: NDArray[Any]) -> str:
    """Return the names of the largest values, largest first."""
    largest = np.argsort(-values, kind="stable")[:N_TERMS]
    return " · ".join(str(feature_names[column]) for column in columns[largest])


def _beginning(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_LENGTH else f"{line[:MAX_LENGTH].rsplit(' ', 1)[0]} …"
