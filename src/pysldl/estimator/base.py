"""The base of all classifiers: ``fit`` checks features and labels in every form that users have, once."""

import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data

from pysldl._utils.constraints import between, has_methods, one_of
from pysldl._utils.light_estimator import all_or_nothing, validate_parameters
from pysldl._utils.progress import Progress, ProgressCallback, reporting
from pysldl.estimator.concepts import identifiers_of, identify_labels
from pysldl.estimator.predictor import LabelPredictor
from pysldl.estimator.settings import advice_on_parameter
from pysldl.exceptions import DataError, SLDLWarning
from pysldl.inspection.display import fitted_html, fitted_summary
from pysldl.metrics import evaluate
from pysldl.preprocessing.features import (
    append_dense,
    as_dense_rows,
    canonical_rows,
    column_names,
    first_missing,
    is_frame,
    require_dense,
)
from pysldl.preprocessing.labels import (
    EncodedLabels,
    as_classes,
    as_indicator,
    as_rows_of_names,
    check_label_names,
    encode_labels,
    indicator_of_names,
    name_array,
)
from pysldl.preprocessing.text import as_texts, choose_vectorizer, default_vectorizer, has_terms, hashing_vectorizer
from pysldl.preprocessing.vocabulary import Vocabulary


class TrainingRows(NamedTuple):
    """Checked rows to learn from, as :meth:`BaseLabelClassifier.fit` makes them of what it is given.

    ``X`` is finite, dense or CSR; ``labels`` are the indicator and what its columns are called; the ``vectorizer`` is
    the fitted one, where the rows are texts; the last ``n_dense`` columns of X were given as dense vectors. With a
    ``vocabulary``, ``label_ids`` are the identifiers of the labels.
    """

    X: Any
    labels: EncodedLabels
    feature_names: NDArray[Any] | None = None
    vectorizer: Any = None
    n_dense: int = 0
    vocabulary: Vocabulary | None = None
    label_ids: NDArray[Any] | None = None


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
        Those of the vectors included.
    n_dense_ : int
        Columns of the dense vectors beside the features, which are the last ones; 0 where there were none.
    feature_names_ : ndarray of shape (n_features,) or None
    vectorizer_ : TfidfVectorizer or None
        Set where the model was fitted on texts.
    feature_idf_ : ndarray of shape (n_features,)
        Inverse document frequencies, set after a fit to weighted term counts: a service then weights new texts alike.
    calibration_ : ScoreCalibration or None
    vocabulary_ : Vocabulary or None
        What the labels are, where the model was fitted with a vocabulary or got one by ``set_vocabulary``. Then
        ``label_names_`` are its preferred names.
    label_ids_ : ndarray of shape (n_labels,) or None
        Their identifiers (URIs).
    label_targets_ : ndarray of shape (n_labels,) or None
        The label that each label counts for after a change of the vocabulary: itself, the one that replaced it, or -1
        where it is deprecated.
    name_rates_ : ndarray of shape (n_labels,) or None
        How often each label applies where its name occurs in the text, after ``learn_name_rates``.
    mean_name_rate_ : float
        The same of all labels together.
    """

    _saved_state: tuple[str, ...] = (
        "label_names_",
        "label_counts_",
        "target_kind_",
        "n_samples_",
        "n_features_in_",
        "n_dense_",
        "feature_names_in_",
        "feature_names_",
        "feature_idf_",
        "vectorizer_",
        "calibration_",
        *("vocabulary_", "label_ids_", "label_targets_", "name_rates_", "mean_name_rate_"),
    )
    # Of parameters that mean the same in every classifier; a subclass adds those of its own.
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "calibrate": ["boolean"],
        "vectorizer": [has_methods("fit_transform", "transform"), one_of("auto", "hashing"), None],
        "memory_limit": [between(0, None, "neither"), str, None],
        "progress": ["boolean", callable, None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    calibrate: bool
    vectorizer: Any = None
    verbose: bool | int = False
    _on_progress: ProgressCallback | None = None

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        label_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        vocabulary: Vocabulary | None = None,
        dense: Any = None,
    ) -> Self:
        """Fit the model to rows and their labels.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features), or texts
            Features, or one text per row: a list, tuple, array or Series of str, or a frame (pandas, Polars) whose only
            column holds them.
        y : indicator of shape (n_samples, n_labels), rows of label names, or array-like of shape (n_samples,)
            The labels Y. An indicator may be dense, sparse or a DataFrame whose columns name the labels. Rows of label
            names are a list, object array, Series or one-column frame with a list (tuple, set) of str in each row, []
            for no labels. A one-dimensional ``y`` of plain values means one class per row; the model is then an
            ordinary classifier.
        label_names, feature_names : sequences of str, optional
            Names of the columns of ``y`` and ``X``.
        vocabulary : Vocabulary, optional
            What the labels are, see :func:`pysldl.datasets.read_vocabulary`. Labels may then be given by identifier,
            notation or name, and are called by their preferred names.
        dense : array-like of shape (n_samples, n_dense), optional
            Vectors of the same rows beside sparse X or texts, such as embeddings of the texts: an array, a frame, or a
            column of vectors. They become further features; where the decoder of an
            :class:`~pysldl.SLDLClassifier` works on features, neighbors are searched by both, and how much each counts
            is chosen on held-out training rows. That search is exact: its cost grows with the square of the rows. All
            methods that predict then take ``dense``, too.
        """
        validate_parameters(self)
        labels, label_ids = encode_labels(y, label_names), None
        if vocabulary is not None:
            labels, label_ids = identify_labels(labels, vocabulary)
        with self._timed("features"):
            X = self._features(X, dense, reset=True, Y=labels.Y)
        check_consistent_length(X, labels.Y)
        names = self._named_features(X, feature_names)
        return self._fit_to(TrainingRows(X, labels, names, self.vectorizer_, self.n_dense_, vocabulary, label_ids))

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, those of stages as ``stage__name``.

        Parameters
        ----------
        **params
            An unknown one is an error that names those that may have been meant.
        """
        try:
            super().set_params(**params)
        except (AttributeError, ValueError):
            present = self.get_params()
            unknown = next((key for key in params if key not in present), None)
            if unknown is None:
                raise
            told = advice_on_parameter(unknown, present)
            raise DataError(f"{type(self).__name__} has no parameter {unknown!r}: {told}") from None
        return self

    def _fit_to(self, rows: TrainingRows) -> Self:
        """Fit to checked rows: set what is known of them, then learn."""
        n_samples, n_labels = rows.labels.Y.shape
        if n_samples < 2:
            raise DataError(f"n_samples={n_samples}: the model learns from rows near each other and needs at least 2.")
        if rows.labels.Y.nnz == 0:
            raise DataError(f"Y holds no label at all: all {n_samples} rows of its {n_labels} columns are empty.")
        self.label_names_, self.target_kind_ = rows.labels.names, rows.labels.kind
        self.label_counts_ = np.bincount(rows.labels.Y.indices, minlength=n_labels)
        self.n_samples_, self.n_features_in_, self.n_dense_ = n_samples, int(rows.X.shape[1]), rows.n_dense
        self.feature_names_, self.vectorizer_ = rows.feature_names, rows.vectorizer
        self.vocabulary_, self.label_ids_ = rows.vocabulary, rows.label_ids
        self.label_targets_ = self.name_rates_ = self.calibration_ = None
        self._warn_of_labels()
        with reporting(getattr(self, "progress", None)) as report:
            self._on_progress = report
            try:
                self._fit_rows(rows.X, rows.labels.Y)
            finally:
                del self._on_progress  # a fitted model can be copied and pickled, whatever reported its progress
        if self.verbose:
            for name, value in fitted_summary(self):
                self._print(f"{name}: {value}")
        return self

    def _fit_rows(self, X: Any, Y: sparse.csr_array) -> None:
        """Learn from checked features (ndarray or csr_array) and a CSR indicator; may set ``calibration_``."""
        raise NotImplementedError

    @property
    def _wants_calibration(self) -> bool:
        """Whether to learn a threshold and probabilities; one class for each row needs none."""
        return self.calibrate and self.target_kind_ != "classes"

    def _warn_of_labels(self) -> None:
        """Warn of labels that are not in the vocabulary, that are one label spelled twice, or that no row carries."""
        if self.vocabulary_ is not None and self.label_ids_ is not None:
            unknown = [name for name in self.label_ids_.tolist() if name not in self.vocabulary_]
            if unknown:
                warnings.warn(
                    f"{len(unknown)} of {len(self.label_ids_)} labels are not in the vocabulary, such as "
                    f"{unknown[0]!r}; they keep their names.",
                    SLDLWarning,
                    stacklevel=5,
                )
        if self.target_kind_ == "names":
            names = self.label_names_.tolist()
            known = set(names)
            twins = [name for name in names if name != name.strip() and name.strip() in known]
            if twins:
                warnings.warn(
                    f"{len(twins)} of {len(names)} labels differ from another one only by blanks around them, such as "
                    f"{twins[0]!r} and {twins[0].strip()!r}: strip the names, unless they are different labels.",
                    SLDLWarning,
                    stacklevel=5,
                )
        unseen = np.flatnonzero(self.label_counts_ == 0)
        if unseen.size:
            some = ", ".join(repr(str(name)) for name in self.label_names_[unseen[:3]])
            more = ", ..." if unseen.size > 3 else ""
            warnings.warn(
                f"{unseen.size} of {len(self.label_names_)} labels have no training examples and will never be "
                f"predicted: {some}{more}.",
                SLDLWarning,
                stacklevel=5,
            )

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, dense: Any = None) -> float:
        """Return nDCG@5 of the ranking; accuracy where the model was fitted on one class per row.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features), or texts
        y : the true labels, in any form that :meth:`fit` takes
            A label that the model has never seen counts as missed, and a warning says how many there are.
        sample_weight : array-like of shape (n_samples,), optional
            Only with one class per row.
        dense : array-like of shape (n_samples, n_dense), optional
            Vectors of the same rows, where :meth:`fit` was given such.
        """
        self._require_fit()
        if self.target_kind_ == "classes":
            return float(np.average(self.predict(X, dense=dense) == as_classes(y), weights=sample_weight))
        if sample_weight is not None:
            raise DataError("sample_weight is not supported by the ranking score.")
        labels, _ = self.predict_topk(X, 5, dense=dense)
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
        """Return the labels of new rows as an indicator with the columns of the model.

        Parameters
        ----------
        Y : indicator of shape (n_samples, n_labels) or rows of label names, in any form that :meth:`fit` takes
            The columns of a DataFrame are matched by name, unless either side has only numbers.
        unseen : {"error", "keep", "drop"}
            What to do with a name that the model does not know: refuse it; give it a column behind the known ones, so
            that metrics count it as missed; or leave it out.
        """
        check_is_fitted(self)
        if unseen not in ("error", "keep", "drop"):
            raise DataError(f"unseen must be 'error', 'keep' or 'drop', but is {unseen!r}.")
        known = self.label_names_
        columns = column_names(Y) if is_frame(Y) else None
        if columns is not None and (_are_numbers(columns) or _are_numbers(known.tolist())):
            columns = None
        matched, names = self._matched_labels(Y, columns)
        if matched.shape[1] == len(known):
            return matched
        if names is None:
            raise DataError(f"Y has {matched.shape[1]} labels, but the model knows {len(known)}.")
        new = np.flatnonzero(matched.indices >= len(known))
        if unseen == "error" and new.size:
            row = int(np.searchsorted(matched.indptr, new[0], side="right")) - 1
            name = str(names[matched.indices[new[0]]])
            raise DataError(f"Row {row} carries the label {name!r}, which is not one of the {len(known)} known labels.")
        return matched if unseen == "keep" else matched[:, : len(known)]

    def _matched_labels(self, y: Any, columns: Sequence[str] | None) -> tuple[sparse.csr_array, NDArray[Any] | None]:
        """Indicator of new rows with the labels of the model as its first columns and new labels behind; names of all.

        Where ``y`` is an indicator and ``columns`` do not name its columns, they stay as they are, without names.
        """
        known = self.label_names_
        rows = as_rows_of_names(y)
        if rows is not None:
            given_names = list(dict.fromkeys(name for row in rows for name in row))
            own = dict(zip(given_names, self.match_names(given_names), strict=True))
            rows = [[own[name] for name in row] for row in rows]
            names = _with_new(known, sorted({name for row in rows for name in row}.difference(known.tolist())))
            return indicator_of_names(rows, names), names
        Y = as_indicator(y)
        if columns is None:
            return Y, None
        given = self.match_names(check_label_names(columns, Y.shape[1]).tolist())
        place = {name: position for position, name in enumerate(known.tolist())}
        new = [name for name in dict.fromkeys(given) if name not in place]
        place.update({name: len(known) + position for position, name in enumerate(new)})
        indices = np.array([place[name] for name in given], dtype=np.int32)[Y.indices]
        matched = sparse.csr_array((Y.data.copy(), indices, Y.indptr.copy()), shape=(Y.shape[0], len(place)))
        matched.sum_duplicates()
        matched.data[:] = 1
        return matched, _with_new(known, new)

    def match_names(self, names: Sequence[str]) -> list[str]:
        """Return labels by the names that the model has for them.

        Parameters
        ----------
        names : sequence of str
            With a vocabulary also identifiers, notations and alternative names. Whatever is not known stays as it is.
        """
        vocabulary, ids = self.vocabulary_, self.label_ids_
        if vocabulary is None or ids is None:
            return list(names)
        known, column_of = set(self.label_names_.tolist()), {one: column for column, one in enumerate(ids.tolist())}
        spelled = []
        for name, identifier in zip(names, identifiers_of(names, vocabulary), strict=True):
            if identifier in column_of:
                spelled.append(str(self.label_names_[column_of[identifier]]))
            elif name in known or identifier not in vocabulary:
                spelled.append(name)
            else:
                spelled.append(vocabulary.display_name(identifier))
        return spelled

    def _identify_new_labels(self) -> None:
        """Give identifiers to labels that were added behind the known ones."""
        vocabulary, ids, targets = self.vocabulary_, self.label_ids_, self.label_targets_
        if vocabulary is None or ids is None or len(ids) == len(self.label_names_):
            return
        new = identifiers_of(map(str, self.label_names_[len(ids) :]), vocabulary)
        self.label_ids_ = np.concatenate([ids, name_array(new)])
        if targets is not None:
            own = np.arange(len(ids), len(self.label_names_), dtype=np.int32)
            self.label_targets_ = np.concatenate([targets, own])

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, under scikit-learn's name."""
        return self.label_names_

    def _features(self, X: Any, dense: Any = None, *, reset: bool = False, Y: sparse.csr_array | None = None) -> Any:
        """Validated features; texts go through the vectorizer, which labels ``Y`` of the same rows may choose."""
        if X is None or (isinstance(X, (list, tuple)) and not X):
            raise DataError(f"X is {X!r}: pass one text per row, or a matrix of features with a row or more.")
        texts = as_texts(X)
        if texts is not None:
            if reset:
                self.vectorizer_ = self._new_vectorizer(texts, Y)
                try:
                    # What fit_transform gives has other last bits than what transform gives for the same texts.
                    X = self.vectorizer_.fit(texts).transform(texts)
                except ValueError as error:
                    why = str(error).rstrip(".")
                    if "empty vocab" in why:
                        why = "they have no words of two letters or more"
                    raise DataError(f"The texts give no features: {why}.") from error
            elif getattr(self, "vectorizer_", None) is None:
                raise DataError("This model was fitted on features, not on texts: pass a matrix.")
            else:
                X = self.vectorizer_.transform(texts)
        elif reset:
            self.vectorizer_ = None
        X = self._with_dense(X, dense, reset)
        try:
            X = validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64], reset=reset)
        except ValueError as error:
            if not str(error).startswith("Input X contains NaN"):
                raise
            row, column = first_missing(X)
            raise DataError(
                f"Input X contains NaN, first in row {row}, column {column}: fill it in, for example by scikit-learn's "
                "SimpleImputer before this classifier, or leave the row out."
            ) from None
        return canonical_rows(X)

    def _with_dense(self, X: Any, dense: Any, reset: bool) -> Any:
        """Features with the dense vectors, if there are any, as their last columns."""
        if reset:
            self.n_dense_ = 0
        if dense is None and not self.n_dense_:
            return X
        X = check_array(X, accept_sparse="csr", dtype=[np.float32, np.float64])
        vectors = as_dense_rows(dense, X.shape[0]) if reset else require_dense(dense, X.shape[0], self.n_dense_)
        if reset:
            self.n_dense_ = vectors.shape[1]
        return append_dense(X, vectors)

    def _new_vectorizer(self, texts: Sequence[str], Y: sparse.csr_array | None) -> Any:
        if self.vectorizer is None:
            return default_vectorizer()
        if self.vectorizer == "hashing":
            return hashing_vectorizer()
        if self.vectorizer == "auto":
            check_consistent_length(texts, Y)
            return choose_vectorizer(texts, Y)
        return clone(self.vectorizer)

    def _require_fit(self) -> None:
        check_is_fitted(self)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        """Report the beginning and the end of a stage that has no steps to count."""
        if self._on_progress is not None:
            self._on_progress(Progress(name, 0, 1))
        with self._timed(name):
            yield
        if self._on_progress is not None:
            self._on_progress(Progress(name, 1, 1))

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        """Print how long a stage took, if ``verbose``."""
        started = time.perf_counter()
        yield
        if self.verbose:
            self._print(f"{name}: {time.perf_counter() - started:.1f} s")

    def _print(self, line: str) -> None:
        print(f"[pysldl] {line}", file=sys.stderr, flush=True)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """What a notebook shows: scikit-learn's diagram and, once fitted, the stages with their held-out metrics."""
        shown: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in shown and hasattr(self, "label_names_"):
            shown["text/html"] += fitted_html(self)
        return shown

    def _named_features(self, X: Any, feature_names: Sequence[str] | None) -> NDArray[Any] | None:
        if feature_names is None:
            if self.vectorizer_ is None or not has_terms(self.vectorizer_):
                return getattr(self, "feature_names_in_", None)
            feature_names = self.vectorizer_.get_feature_names_out()
        names = name_array(feature_names)
        if self.n_dense_ and len(names) == X.shape[1] - self.n_dense_:
            names = np.concatenate([names, name_array([f"dense {column}" for column in range(self.n_dense_)])])
        if names.shape != (X.shape[1],):
            raise DataError(f"feature_names holds {names.size} names, but X has {X.shape[1]} columns.")
        return names

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags


def _with_new(known: NDArray[Any], new: Sequence[str]) -> NDArray[Any]:
    return np.concatenate([known, name_array(new)]) if new else known


def _are_numbers(names: Sequence[str]) -> bool:
    """Whether names are only the numbers of columns: "0", "1", "2", ..."""
    return list(names) == [str(number) for number in range(len(names))]
