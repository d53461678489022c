"""One multi-label data set: features, label indicator, names, splits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from sklearn.preprocessing import normalize

from pysldl.exceptions import DataError
from pysldl.preprocessing.labels import as_indicator, check_label_names, name_array
from pysldl.preprocessing.text import default_vectorizer, has_terms

PARTS_OF_ROWS = ("texts", "ids", "titles")


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A multi-label data set whose features, labels, names and splits are checked to be consistent.

    Everything is checked and brought to one form at construction, so that whoever holds a
    ``Dataset`` need not check again.

    Parameters
    ----------
    name : str
        What error messages and tables call it.
    X : array or sparse matrix of shape (n_samples, n_features), or None
        Features, kept as a float32 ``csr_array`` or, when given dense, a float32 array. None is
        allowed for raw text only: see :meth:`vectorize`.
    Y : array or sparse matrix of shape (n_samples, n_labels)
        Label indicator; kept as a float32 ``csr_array`` whose stored values are all 1.
    label_names : sequence of str of length n_labels
        Must be distinct.
    feature_names : sequence of str of length n_features, optional
        What the columns of X are.
    splits : mapping of str to row numbers, optional
        The standard split, for example ``{"train": ..., "test": ...}``; empty if there is none.
    idf : array of shape (n_features,), optional
        Inverse document frequencies of raw term counts: see :meth:`tfidf`.
    texts : sequence of str of length n_samples, optional
        The raw texts.
    ids, titles : sequences of str of length n_samples, optional
        What identifies a row, for programs and for people; empty if a row has none.

    Examples
    --------
    >>> ds = Dataset("tiny", [[1, 0], [0, 2]], [[1, 0], [1, 1]], ["sky", "cloud"])
    >>> ds
    Dataset('tiny': 2 samples, 2 features (dense), 2 labels, 1.50 labels/sample)
    """

    name: str
    X: Any
    Y: Any
    label_names: NDArray[np.object_]
    feature_names: NDArray[np.object_] | None = None
    splits: Mapping[str, NDArray[np.intp]] = field(default_factory=dict)
    idf: NDArray[np.float32] | None = None
    texts: Sequence[str] | None = None
    ids: Sequence[str] | None = None
    titles: Sequence[str] | None = None

    def __post_init__(self) -> None:
        tidy: dict[str, Any] = {
            "X": None if self.X is None else _tidy_features(self.X, self.name),
            "feature_names": None if self.feature_names is None else name_array(self.feature_names).reshape(-1),
            "idf": None if self.idf is None else np.asarray(self.idf, dtype=np.float32),
        }
        for key in PARTS_OF_ROWS:
            tidy[key] = None if getattr(self, key) is None else list(getattr(self, key))
        try:
            tidy["Y"] = as_indicator(self.Y)
            tidy["label_names"] = check_label_names(self.label_names, tidy["Y"].shape[1])
        except DataError as error:
            raise DataError(f"data set {self.name!r}: {error}") from error
        for attribute, value in tidy.items():
            object.__setattr__(self, attribute, value)
        self._check_lengths()
        splits = {key: _tidy_split(key, rows, self.n_samples, self.name) for key, rows in self.splits.items()}
        object.__setattr__(self, "splits", splits)

    def _check_lengths(self) -> None:
        if self.X is None and self.texts is None:
            raise DataError(f"data set {self.name!r} has neither X nor texts: give one of them.")
        expected: list[tuple[str, Any, int, str]] = [
            (key, getattr(self, key), self.n_samples, "rows in Y") for key in PARTS_OF_ROWS
        ]
        if self.X is not None:
            expected += [
                ("X", range(self.X.shape[0]), self.n_samples, "rows in Y"),
                ("feature_names", self.feature_names, self.X.shape[1], "columns in X"),
                ("idf", self.idf, self.X.shape[1], "columns in X"),
            ]
        for what, values, length, of in expected:
            if values is not None and len(values) != length:
                raise DataError(
                    f"data set {self.name!r}: {what} has length {len(values)}, but there are {length} {of}."
                )

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return int(self.Y.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns of X; 0 as long as texts are not vectorized."""
        return 0 if self.X is None else int(self.X.shape[1])

    @property
    def n_labels(self) -> int:
        """Number of columns of Y."""
        return int(self.Y.shape[1])

    @property
    def labels_per_sample(self) -> float:
        """Mean number of labels of a row."""
        return self.Y.nnz / self.n_samples if self.n_samples else 0.0

    @property
    def feature_density(self) -> float:
        """Share of entries of X that are stored; 1 if it is dense, 0 as long as texts are not vectorized."""
        if self.X is None or 0 in self.X.shape:
            return 0.0
        return self.X.nnz / (self.n_samples * self.n_features) if isinstance(self.X, csr_array) else 1.0

    def subset(self, rows: ArrayLike) -> Self:
        """Select rows by number or boolean mask, in the given order; the result has no splits."""
        chosen = np.asarray(rows)
        if chosen.dtype == bool:
            if chosen.shape != (self.n_samples,):
                raise DataError(f"the row mask has shape {chosen.shape}, expected ({self.n_samples},).")
            chosen = np.flatnonzero(chosen)
        chosen = _tidy_split("rows", chosen, self.n_samples, self.name)
        changed: dict[str, Any] = {"Y": self.Y[chosen], "splits": {}}
        if self.X is not None:
            changed["X"] = self.X[chosen]
        for key in PARTS_OF_ROWS:
            values = getattr(self, key)
            changed[key] = None if values is None else [values[row] for row in chosen]
        return replace(self, **changed)

    def split(self, name: str) -> Self:
        """Select the rows of one standard split, such as ``"train"``."""
        if name not in self.splits:
            known = ", ".join(map(repr, self.splits)) or "none"
            raise DataError(f"data set {self.name!r} has no split {name!r}; it has: {known}.")
        return self.subset(self.splits[name])

    def tfidf(self) -> Self:
        """Weight raw term counts by ``(1 + log(count)) * idf`` and scale rows to length one.

        The result carries no ``idf``, so that it cannot be applied twice.
        """
        if self.X is None or self.idf is None:
            raise DataError(
                f"data set {self.name!r} holds no raw term counts with idf; use its X as it is, "
                "or vectorize() if it holds texts."
            )
        counts: Any = csr_array(self.X)
        if counts.nnz and counts.data.min() <= 0:
            raise DataError(f"data set {self.name!r}: term counts must be positive, found {counts.data.min()}.")
        weights = (1 + np.log(counts.data)) * self.idf[counts.indices]
        weighted = csr_array((weights, counts.indices, counts.indptr), shape=counts.shape)
        return replace(self, X=normalize(weighted, copy=False), idf=None)

    def vectorize(self, vectorizer: Any = None) -> Self:
        """Turn the texts into features by a vectorizer fitted on the train rows (all rows if there is no split).

        Parameters
        ----------
        vectorizer : scikit-learn text vectorizer, optional
            Fitted in place. Default: ``TfidfVectorizer(sublinear_tf=True, min_df=2)``.
        """
        if self.texts is None:
            raise DataError(f"data set {self.name!r} holds no texts to vectorize.")
        if vectorizer is None:
            vectorizer = default_vectorizer(min_df=2, dtype=np.float32)
        rows = self.splits.get("train", range(self.n_samples))
        try:
            vectorizer.fit([self.texts[row] for row in rows])
        except ValueError as error:
            raise DataError(f"the texts of data set {self.name!r} cannot be vectorized: {error}") from error
        return replace(
            self,
            X=vectorizer.transform(self.texts),
            feature_names=vectorizer.get_feature_names_out() if has_terms(vectorizer) else None,
            idf=None,
        )

    def __repr__(self) -> str:
        if self.X is None:
            features = "texts"
        elif isinstance(self.X, csr_array):
            features = f"{self.n_features} features ({self.feature_density:.2%} stored)"
        else:
            features = f"{self.n_features} features (dense)"
        parts = [
            f"{self.n_samples} samples",
            features,
            f"{self.n_labels} labels",
            f"{self.labels_per_sample:.2f} labels/sample",
        ]
        if self.splits:
            parts.append("splits " + ", ".join(f"{key} {len(rows)}" for key, rows in self.splits.items()))
        return f"{type(self).__name__}({self.name!r}: {', '.join(parts)})"


def _tidy_features(X: Any, name: str) -> Any:
    sparse = issparse(X)
    with np.errstate(over="ignore"):  # what overflows float32 is reported as infinite below
        try:
            X = csr_array(X, dtype=np.float32) if sparse else np.asarray(X, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise DataError(f"data set {name!r}: X is not a matrix of numbers ({error}).") from error
    if X.ndim != 2:
        raise DataError(f"data set {name!r}: X has {X.ndim} dimension(s), expected 2.")
    if sparse and not X.has_canonical_format:
        X = X.copy()  # csr_array() may share the caller's arrays
        X.sum_duplicates()
    finite = np.isfinite(X.data if sparse else X)
    if not finite.all():
        row, column = _entry(X, ~finite)
        raise DataError(
            f"data set {name!r}: X is {X[row, column]} at row {row}, column {column}; "
            "replace missing and infinite values first."
        )
    return X


def _entry(matrix: Any, bad: NDArray[np.bool_]) -> tuple[int, int]:
    """Row and column of the first True of ``bad``, a mask over what ``matrix`` stores."""
    first = int(np.argmax(bad))
    if isinstance(matrix, csr_array):
        row = int(np.searchsorted(matrix.indptr, first, side="right")) - 1
        return row, int(matrix.indices[first])
    return first // matrix.shape[1], first % matrix.shape[1]


def _tidy_split(key: str, rows: Any, n_samples: int, name: str) -> NDArray[np.intp]:
    rows = np.asarray(rows)
    if rows.size == 0:
        return np.empty(0, dtype=np.intp)
    if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer):
        raise DataError(f"data set {name!r}: {key!r} must be one list of row numbers.")
    if rows.min() < 0 or rows.max() >= n_samples:
        bad = rows.min() if rows.min() < 0 else rows.max()
        raise DataError(f"data set {name!r}: {key!r} names row {bad}, but there are {n_samples} rows.")
    return np.asarray(rows, dtype=np.intp)
