"""What the training rows said: from the data beside the model, or from what the model keeps itself."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from pysldl.exceptions import DataError
from pysldl.inspection.snippets import excerpts, heaviest_names
from pysldl.persistence import Manifest

if TYPE_CHECKING:
    from pysldl.datasets import Dataset

__all__ = ["DataExamples", "own_examples"]


class DataExamples:
    """A few words of every row of the fit, from the data that the model was fitted on.

    Rows that `sldl update` added come behind them, so they stay valid in later versions, until rows are taken out.

    Parameters
    ----------
    rows : Dataset
        In the order of the fit.
    """

    def __init__(self, rows: "Dataset") -> None:
        if rows.texts is None and (rows.feature_names is None or not sparse.issparse(rows.X)):
            raise DataError(f"{rows.name}: holds neither texts nor term counts with names to show.")
        self._lines = None if rows.texts is None else excerpts(rows.texts, None)
        self._name, self._n_rows = rows.name, rows.n_samples
        self._X: Any = rows.X
        self._names = rows.feature_names

    def __len__(self) -> int:
        return self._n_rows

    def __getitem__(self, row: int) -> str:
        if self._lines is not None:
            return self._lines[row]
        assert self._names is not None
        stored = slice(self._X.indptr[row], self._X.indptr[row + 1])
        return heaviest_names(self._X.indices[stored], self._X.data[stored], self._names)

    def fit_to(self, manifest: Manifest, n_samples: int) -> bool:
        """Whether a version with ``n_samples`` rows begins with these."""
        return self._problem(manifest, n_samples) is None

    def require(self, manifest: Manifest, n_samples: int) -> None:
        """Make sure of it."""
        if problem := self._problem(manifest, n_samples):
            raise DataError(f"{self._name}: {problem}")

    def _problem(self, manifest: Manifest, n_samples: int) -> str | None:
        updates = manifest.extra.get("updates", [])
        if any(update.get("n_forgotten") for update in updates):
            return (
                "the model has forgotten rows since it was fitted, so that their numbers are no longer those of the "
                "data. Fit it with --keep-examples: then it knows itself what its rows said."
            )
        n_fitted = n_samples - sum(update.get("n_added", 0) for update in updates)
        if n_fitted != self._n_rows:
            return (
                f"has {self._n_rows} rows, but the model was fitted on {n_fitted}; give --examples the data that it "
                "was fitted on."
            )
        return None


def own_examples(classifier: Any) -> Sequence[str] | None:
    """What the model keeps of its rows: lines of text, or features with names; None where it keeps neither."""
    kept = getattr(classifier, "training_excerpts_", None)
    if kept is not None:
        return kept
    postings = getattr(getattr(classifier, "decoder_", None), "postings_", None)
    names = getattr(classifier, "feature_names_", None)
    return None if postings is None or names is None else _TermsOfRows(postings, names)


class _TermsOfRows(Sequence[str]):
    """The heaviest terms of rows, found in the index of the neighbors, which the model has anyway."""

    def __init__(self, postings: sparse.csr_array, names: Any) -> None:
        self._postings, self._names = postings, names

    def __len__(self) -> int:
        return self._postings.shape[1]

    def __getitem__(self, row: Any) -> Any:
        # One pass over all postings, a millisecond a million: no second copy of the index for a few rows.
        places = np.flatnonzero(self._postings.indices == row)
        columns = np.searchsorted(self._postings.indptr, places, side="right") - 1
        return heaviest_names(columns, self._postings.data[places], self._names)
