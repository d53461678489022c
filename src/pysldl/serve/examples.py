"""What the training rows said, for whoever has the data beside the model."""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from pysldl.exceptions import DataError

if TYPE_CHECKING:
    from pysldl.datasets import Dataset

__all__ = ["Examples"]

LONGEST = 300
TERMS = 12


class Examples:
    """A few words of every training row.

    Parameters
    ----------
    rows : Dataset
        The rows that the model was fitted on, in their order.
    """

    def __init__(self, rows: "Dataset") -> None:
        if rows.texts is None and (rows.feature_names is None or not sparse.issparse(rows.X)):
            raise DataError(f"{rows.name}: holds neither texts nor term counts with names to show.")
        self._texts = None if rows.texts is None else [_shortened(text) for text in rows.texts]
        self._name, self._n_rows = rows.name, rows.n_samples
        self._X: Any = rows.X
        self._names = rows.feature_names

    def check(self, n_samples: int) -> None:
        """Make sure that these are the rows of a model that was fitted on ``n_samples``."""
        if n_samples != self._n_rows:
            raise DataError(
                f"{self._name}: has {self._n_rows} rows, but the model was fitted on {n_samples}; give --examples the "
                "data that it was fitted on."
            )

    def __getitem__(self, row: int) -> str:
        """The beginning of the text of a row, or its heaviest terms."""
        if self._texts is not None:
            return self._texts[row]
        assert self._names is not None
        stored = slice(self._X.indptr[row], self._X.indptr[row + 1])
        heaviest = np.argsort(-self._X.data[stored], kind="stable")[:TERMS]
        return " · ".join(str(name) for name in self._names[self._X.indices[stored][heaviest]])


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST].rsplit(' ', 1)[0]} …"
