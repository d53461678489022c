"""What every classifier of the library shares: labels in, ranked labels out, in blocks of bounded memory."""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from pysldl._utils.memory import require_memory
from pysldl._utils.progress import ProgressCallback, progress_callback
from pysldl.backend.topk import top_k
from pysldl.estimator.calibration import ScoreCalibration
from pysldl.estimator.predictor import LabelPredictor
from pysldl.exceptions import DataError, SLDLWarning
from pysldl.metrics import evaluate
from pysldl.preprocessing.frames import is_frame
from pysldl.preprocessing.labels import as_classes, as_indicator, as_rows_of_names, encode_labels, indicator_of_names
from pysldl.preprocessing.text import as_texts

__all__ = ["BaseLabelClassifier"]


class BaseLabelClassifier(LabelPredictor, ClassifierMixin, BaseEstimator):
    """Base of the classifiers. A subclass learns in ``_fit_rows`` and scores a block of rows in ``_score_rows``.

    Attributes
    ----------
    label_names_ : ndarray of shape (n_labels,)
        Names of the labels: their column numbers as text where ``Y`` had none, the classes where ``Y`` was
        one-dimensional.
    label_counts_ : ndarray of shape (n_labels,)
        Training rows of each label. A label with none is never predicted.
    n_samples_ : int
        Training rows.
    n_features_in_ : int
    feature_names_ : ndarray of shape (n_features,) or None
    vectorizer_ : TfidfVectorizer or None
        Set where the model was fitted on texts.
    feature_idf_ : ndarray of shape (n_features,)
        Set by whoever fitted the model on weighted term counts, so that the words of a new text can be weighted alike.
    calibration_ : ScoreCalibration or None
    """

    _saved_state: tuple[str, ...] = (
        "label_names_",
        "label_counts_",
        "target_kind_",
        "n_samples_",
        "n_features_in_",
        "feature_names_in_",
        "feature_names_",
        "feature_idf_",
        "vectorizer_",
        "calibration_",
    )

    vectorizer: Any = None
    memory_limit: int | str | None = None
    _on_progress: ProgressCallback | None = None

    # What a subclass provides

    def _fit_rows(self, X: Any, Y: sparse.csr_array) -> None:
        """Learn from validated features (ndarray or csr_array) and a CSR indicator; may set ``calibration_``."""
        raise NotImplementedError

    # Fitting

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        label_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features), or texts
            Features, or one text per row: a list, tuple, array or Series of str, or a frame (pandas, Polars) whose only
            column holds them.
        y : indicator of shape (n_samples, n_labels), rows of label names, or array-like of shape (n_samples,)
            The labels Y.
            An indicator may be dense, sparse or a DataFrame whose columns name the labels. Rows of label names are a
            list, object array, Series or one-column frame with a list (tuple, set) of str in each row, [] for no
            labels. A one-dimensional ``y`` of plain values means one class per row; the model is then an ordinary
            classifier.
        label_names, feature_names : sequences of str, optional
            Names of the columns of ``y`` and ``X``.
        """
        on_progress = progress_callback(getattr(self, "progress", None))
        encoded = encode_labels(y, label_names)
        X = self._features(X, reset=True)
        check_consistent_length(X, encoded.Y)
        n_samples, n_labels = encoded.Y.shape
        if n_samples < 2:
            raise DataError(f"n_samples={n_samples}: the model learns from rows near each other and needs at least 2.")
        if encoded.Y.nnz == 0:
            raise DataError(f"Y holds no label at all: all {n_samples} rows of its {n_labels} columns are empty.")
        self.label_names_ = encoded.names
        self.target_kind_ = encoded.kind
        self.n_samples_ = n_samples
        self.label_counts_ = np.bincount(encoded.Y.indices, minlength=n_labels)
        self.feature_names_ = self._named_features(X, feature_names)
        self._report_unseen_labels()
        self.calibration_ = None
        self._on_progress = on_progress
        try:
            self._fit_rows(X, encoded.Y)
        finally:
            del self._on_progress  # a fitted model can be copied and pickled, whatever reported its progress
        return self

    # Predicting

    def predict_topk(
        self, X: Any, k: int = 5, *, names: bool = False, proba: bool = False
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """The k best labels of every row, best first.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features), or texts
        k : int
        names : bool
            Give names instead of columns of ``Y``.
        proba : bool
            Give calibrated probabilities instead of scores.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Columns of ``Y``, or names; -1, or the empty text, where a row has fewer labels.
        scores : ndarray of shape (n_samples, k), float32
            -inf (probability 0) where a row has fewer labels.
        """
        found = [top_k(block, k) for block in self._score_blocks(X)]
        labels = np.concatenate([part for part, _ in found])
        scores = np.concatenate([part for _, part in found])
        if proba:
            scores = self._fitted_calibration().probability(scores)
        if not names:
            return labels, scores
        if self.target_kind_ == "classes":
            raise DataError("names=True needs labels with names, but this model was fitted on one class per row.")
        return np.where(labels >= 0, self.label_names_[labels], ""), scores

    def predict_scores(self, X: Any, top: int = 100) -> sparse.csr_array:
        """Scores of the ``top`` best labels of every row, CSR of shape (n_samples, n_labels)."""
        labels, scores = self.predict_topk(X, min(top, len(self.label_names_)))
        return self._as_sparse(labels, scores)

    def decision_function(self, X: Any) -> NDArray[np.float32]:
        """Scores of every label, dense of shape (n_samples, n_labels); refused past the memory limit.

        A label that no training row carries gets the lowest score of its row, or 0 where that is lower. With two
        classes (one-dimensional ``Y``) the difference of their scores, of shape (n_samples,), as in scikit-learn.
        """
        dense = self._dense_scores(X)
        if self.target_kind_ == "classes" and dense.shape[1] == 2:
            return np.asarray(dense[:, 1] - dense[:, 0])
        return dense

    def predict(self, X: Any) -> Any:
        """Labels of every row, in the form ``fit`` was given.

        Returns
        -------
        csr_array of shape (n_samples, n_labels), list of lists of names, or ndarray of shape (n_samples,)
            An indicator answers an indicator, names answer names, classes answer classes. Labels are chosen by the
            threshold learned on left-out scores of the training rows.
        """
        if getattr(self, "target_kind_", None) == "classes":
            labels, _ = self.predict_topk(X, 1)
            return self.label_names_[labels.ravel()]
        threshold = self._fitted_calibration().threshold_
        k = min(len(self.label_names_), 100)
        labels, scores = self.predict_topk(X, k)
        chosen = np.where(scores >= threshold, labels, -1)
        if self.target_kind_ == "names":
            return [self.label_names_[row[row >= 0]].tolist() for row in chosen]
        return self._as_sparse(chosen, np.ones_like(scores))

    def predict_proba(self, X: Any, top: int | None = None) -> Any:
        """Calibrated probability of every label, dense of shape (n_samples, n_labels), or CSR of the ``top`` best.

        With one class per row the probabilities of a row sum to 1.
        """
        if top is not None:
            labels, scores = self.predict_topk(X, min(top, len(self.label_names_)), proba=True)
            return self._as_sparse(labels, scores)
        if getattr(self, "target_kind_", None) == "classes":
            shares = np.maximum(self._dense_scores(X), 0.0).astype(np.float64) + 1e-12
            return shares / shares.sum(axis=1, keepdims=True)
        calibration = self._fitted_calibration()
        probabilities = calibration.probability(self._dense_scores(X))
        probabilities[:, self.label_counts_ == 0] = 0.0
        return probabilities

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """nDCG@5 of the ranking; accuracy where the model was fitted on one class per row.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features), or texts
        y : the true labels, in any form that :meth:`fit` takes
            A label that the model has never seen counts as missed, and a warning says how many there are.
        sample_weight : array-like of shape (n_samples,), optional
            Only with one class per row.
        """
        if getattr(self, "target_kind_", None) == "classes":
            return float(np.average(self.predict(X) == as_classes(y), weights=sample_weight))
        if sample_weight is not None:
            raise DataError("sample_weight is not supported by the ranking score.")
        labels, _ = self.predict_topk(X, 5)
        Y = self.encode(y, unseen="keep")
        check_consistent_length(labels, Y)
        n_unseen = int((Y.indices >= len(self.label_names_)).sum())
        if n_unseen:
            warnings.warn(
                f"{n_unseen} of {Y.nnz} true labels are unknown to the model, which was fitted on rows without them; "
                "they count as missed.",
                SLDLWarning,
                stacklevel=2,
            )
        return evaluate(Y, labels, ks=(5,))["nDCG@5"]

    def encode(self, Y: Any, *, unseen: Literal["error", "keep", "drop"] = "error") -> sparse.csr_array:
        """Labels of new rows as an indicator with the columns of the model.

        Parameters
        ----------
        Y : indicator of shape (n_samples, n_labels) or rows of label names, in any form that :meth:`fit` takes
            The columns of a DataFrame are matched by name.
        unseen : {"error", "keep", "drop"}
            What to do with a name that the model does not know: refuse it; give it a column behind the known ones, so
            that metrics count it as missed; or leave it out.
        """
        check_is_fitted(self)
        if unseen not in ("error", "keep", "drop"):
            raise DataError(f"unseen must be 'error', 'keep' or 'drop', but is {unseen!r}.")
        rows = as_rows_of_names(Y)
        if rows is None:
            indicator = as_indicator(Y)
            columns = self._columns_by_name(Y)
            if columns is None:
                if indicator.shape[1] != len(self.label_names_):
                    raise DataError(f"Y has {indicator.shape[1]} labels, but the model knows {len(self.label_names_)}.")
                return indicator
            names = np.array(columns)
            bounds = zip(indicator.indptr[:-1], indicator.indptr[1:], strict=True)
            rows = [names[indicator.indices[start:end]].tolist() for start, end in bounds]
        known = set(self.label_names_.tolist())
        if unseen == "drop":
            rows = [[name for name in row if name in known] for row in rows]
        names = self.label_names_
        if unseen == "keep":
            new = sorted({name for row in rows for name in row} - known)
            names = np.concatenate([names, np.array(new, dtype=np.str_)]) if new else names
        return indicator_of_names(rows, names)

    def _columns_by_name(self, Y: Any) -> list[str] | None:
        """Names of the columns of a frame; None where either side has only numbers, so that positions must do."""
        if not is_frame(Y) or not hasattr(self, "label_names_"):
            return None
        columns = [str(column) for column in Y.columns]
        numbered = [str(i) for i in range(max(len(columns), len(self.label_names_)))]
        if columns == numbered[: len(columns)] or self.label_names_.tolist() == numbered[: len(self.label_names_)]:
            return None
        return columns

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, under scikit-learn's name."""
        return self.label_names_

    # Shared machinery

    def _features(self, X: Any, *, reset: bool) -> Any:
        """Validated features; texts go through the vectorizer."""
        texts = as_texts(X)
        if texts is not None:
            if reset:
                vectorizer = self.vectorizer if self.vectorizer is not None else TfidfVectorizer(sublinear_tf=True)
                self.vectorizer_ = clone(vectorizer)
                try:
                    X = self.vectorizer_.fit_transform(texts)
                except ValueError as error:
                    raise DataError(f"The texts give no features: {error}") from error
            elif getattr(self, "vectorizer_", None) is None:
                raise DataError("This model was fitted on features, not on texts: pass a matrix.")
            else:
                X = self.vectorizer_.transform(texts)
        elif reset:
            self.vectorizer_ = None
        return validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64], reset=reset)

    def _require_fit(self) -> None:
        check_is_fitted(self)

    def _named_features(self, X: Any, feature_names: Sequence[str] | None) -> NDArray[Any] | None:
        if feature_names is None:
            if self.vectorizer_ is not None:
                return self.vectorizer_.get_feature_names_out().astype(np.str_)
            return getattr(self, "feature_names_in_", None)
        names = np.asarray(feature_names).astype(np.str_)
        if names.shape != (X.shape[1],):
            raise DataError(f"feature_names holds {names.size} names, but X has {X.shape[1]} columns.")
        return names

    def _report_unseen_labels(self) -> None:
        unseen = np.flatnonzero(self.label_counts_ == 0)
        if unseen.size:
            some = ", ".join(repr(str(name)) for name in self.label_names_[unseen[:3]])
            more = ", ..." if unseen.size > 3 else ""
            warnings.warn(
                f"{unseen.size} of {len(self.label_counts_)} labels occur in no training row and will never be "
                f"predicted: {some}{more}.",
                SLDLWarning,
                stacklevel=3,
            )

    def _score_blocks(self, X: Any) -> Iterator[Any]:
        """Scores of ``X`` block by block; labels without training rows are -inf (dense) or not stored (CSR)."""
        check_is_fitted(self)
        X = self._features(X, reset=False)
        yield from self._score_checked(X)

    def _dense_scores(self, X: Any) -> NDArray[np.float32]:
        check_is_fitted(self)
        X = self._features(X, reset=False)
        n_rows = X.shape[0]
        require_memory(
            4 * n_rows * len(self.label_names_),
            f"A dense score matrix of {n_rows} rows and {len(self.label_names_)} labels",
            "Use predict_topk or predict_scores, which keep only the best labels of each row.",
            self.memory_limit,
        )
        blocks = []
        for scores in self._score_checked(X):
            block = scores.toarray() if sparse.issparse(scores) else scores
            hidden = np.isneginf(block)
            if hidden.any():
                lowest = np.min(block, axis=1, where=~hidden, initial=0.0)
                block = np.where(hidden, lowest[:, None], block)
            blocks.append(np.asarray(block, dtype=np.float32))
        return np.concatenate(blocks)

    def _fitted_calibration(self) -> ScoreCalibration:
        check_is_fitted(self)
        if self.calibration_ is None:
            raise DataError(
                f"This {type(self).__name__} learned neither threshold nor probabilities: fit it with calibrate=True, "
                "or use predict_topk, which needs neither."
            )
        return self.calibration_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags
