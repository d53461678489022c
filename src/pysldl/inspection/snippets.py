"""What a training row said, in a few words: the beginning of its text, or its heaviest terms."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["excerpts", "heaviest_names"]

LONGEST = 300
TERMS = 12


def excerpts(X: Any, feature_names: NDArray[Any] | None) -> NDArray[np.object_]:
    """One line a row, of shape (n_rows,).

    Parameters
    ----------
    X : sequence of str, or csr_array of shape (n_rows, n_features)
    feature_names : ndarray of shape (n_features,), optional
        Without names features say nothing, and the lines are empty.
    """
    if not hasattr(X, "shape") or np.ndim(X) == 1:
        return np.array([_beginning(text) for text in X], dtype=np.object_)
    if feature_names is None:
        return np.full(X.shape[0], "", dtype=np.object_)
    X = sparse.csr_array(X)
    rows = (slice(X.indptr[row], X.indptr[row + 1]) for row in range(X.shape[0]))
    return np.array([heaviest_names(X.indices[row], X.data[row], feature_names) for row in rows], dtype=np.object_)


def heaviest_names(columns: NDArray[np.integer], values: NDArray[Any], feature_names: NDArray[Any]) -> str:
    """The names of the largest values, largest first."""
    heaviest = np.argsort(-values, kind="stable")[:TERMS]
    return " · ".join(str(feature_names[column]) for column in columns[heaviest])


def _beginning(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST].rsplit(' ', 1)[0]} …"
