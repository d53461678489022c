"""Snippets of training rows, to be shown in explanations."""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.exceptions import DataError
from pysldl.inspection.explanation import row_snippets, top_terms
from pysldl.persistence import Manifest

if TYPE_CHECKING:
    from pysldl.datasets import Dataset


class Snippets(Protocol):
    """A short text for every training row."""

    def __getitem__(self, row: int, /) -> str:
        """Return the text of one row."""


class DataExamples:
    """Snippets of the training rows, from the data that the model was fitted on, in the order of the fit.

    Rows that `sldl update` adds come behind them, so they stay valid in later versions until rows are removed.
    """

    def __init__(self, rows: "Dataset") -> None:
        if rows.texts is None and (rows.feature_names is None or not sparse.issparse(rows.X)):
            raise DataError(f"{rows.name}: holds neither texts nor term counts with names to show.")
        self.snippets = row_snippets(rows.X if rows.texts is None else rows.texts, rows.feature_names)
        self._name = rows.name

    def problem(self, manifest: Manifest, n_samples: int) -> str | None:
        """Return why these rows are not the first of a version with ``n_samples`` rows; None where they are."""
        updates = manifest.extra.get("updates", [])
        if any(update.get("n_removed") for update in updates):
            return (
                f"{self._name}: rows were removed from the model since it was fitted, so that row numbers no longer "
                "match the data. Fit it with --keep-examples: the model then keeps snippets of its rows."
            )
        n_fitted = n_samples - sum(update.get("n_added", 0) for update in updates)
        if n_fitted != len(self.snippets):
            return (
                f"{self._name}: has {len(self.snippets)} rows, but the model was fitted on {n_fitted}; give --examples "
                "the data that it was fitted on."
            )
        return None


def stored_snippets(classifier: Any) -> Snippets | None:
    """Return what the model itself keeps of its training rows: texts, or features with names; None for neither."""
    kept: NDArray[np.object_] | None = getattr(classifier, "training_excerpts_", None)
    if kept is not None:
        return kept
    postings = getattr(getattr(classifier, "decoder_", None), "postings_", None)
    names = getattr(classifier, "feature_names_", None)
    return None if postings is None or names is None else _IndexedTerms(postings, names)


class _IndexedTerms:
    """The top terms of rows, found in the inverted index of the neighbors."""

    def __init__(self, postings: sparse.csr_array, names: NDArray[Any]) -> None:
        self._postings, self._names = postings, names

    def __getitem__(self, row: int, /) -> str:
        # One pass over the index, a millisecond per million entries, instead of a second copy of it.
        places = np.flatnonzero(self._postings.indices == row)
        columns = np.searchsorted(self._postings.indptr, places, side="right") - 1
        return top_terms(columns, self._postings.data[places], self._names)
