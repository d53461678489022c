"""Incremental learning: add rows, with new labels, to a fitted classifier, or remove rows."""

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_consistent_length

from pysldl._utils.light_estimator import available_if
from pysldl.backend.dispatch import as_int32_indices
from pysldl.backend.linear_algebra import as_dense
from pysldl.backend.threads import single_threaded_blas
from pysldl.decoding.base import CodedRows
from pysldl.estimator.base import BaseLabelClassifier
from pysldl.estimator.predictor import StagedPredictor
from pysldl.exceptions import DataError
from pysldl.inspection.explanation import row_snippets
from pysldl.preprocessing.features import column_names, is_frame
from pysldl.preprocessing.labels import as_classes, indicator_of_names, name_array
from pysldl.preprocessing.text import as_texts
from pysldl.ranking.extend import extend_ranker

FEWEST_ROWS = 2


def _why_not_online(classifier: Any) -> str | None:
    fitted_without = hasattr(classifier, "n_samples_") and not hasattr(classifier, "training_features_")
    if classifier.online and not fitted_without:
        return None
    return "only one that was made and fitted with online=True keeps the features of its training rows."


class OnlineLearning(StagedPredictor, BaseLabelClassifier):
    """What ``online=True`` adds to a classifier in stages.

    Known labels keep their place in the latent space. The mapping and the neighbors become what a fit to the present
    rows with that embedding would make them. A ranker gets classifiers for new labels and keeps those it has; threshold
    and probabilities stay those of the last fit.

    Attributes
    ----------
    training_features_ : ndarray or csr_array of shape (n_samples, n_features)
        Features of the training rows as the mapping takes them.
    training_labels_ : csr_array of shape (n_samples, n_labels)
    training_excerpts_ : ndarray of shape (n_samples,)
        Snippets of the training rows for explanations, see :func:`~pysldl.inspection.explanation.row_snippets`. Set
        after a fit, if wanted; updated when rows are added or removed.
    """

    online: bool
    training_features_: Any
    training_labels_: sparse.csr_array
    training_excerpts_: NDArray[np.object_]

    @available_if(_why_not_online)
    @single_threaded_blas
    def partial_fit(self, X: Any, y: Any, *, label_names: Sequence[str] | None = None, dense: Any = None) -> Self:
        """Learn from further rows; the first call is :meth:`fit`.

        The features of texts are those of the first fit: words that it never saw are not taken up.

        Parameters
        ----------
        X : array-like or sparse of shape (n_new, n_features), or texts, as :meth:`fit` takes them
        y : indicator of shape (n_new, n_labels), rows of label names, or array-like of shape (n_new,)
            New names become new labels, behind the known ones. An indicator has the known labels as its first columns,
            or columns in any order that ``label_names`` names. A new class of a classifier with one class per row is
            refused.
        label_names : sequence of str, optional
            Names of the columns of ``y``.
        dense : array-like of shape (n_new, n_dense), optional
            Vectors of the same rows, where :meth:`fit` was given such.
        """
        if not hasattr(self, "n_samples_"):
            return self.fit(X, y, label_names=label_names, dense=dense)
        rows = _like(self.training_features_, self._scaled(self._features(X, dense)))
        Y, names = self._joined_labels(y, label_names)
        check_consistent_length(rows, Y)
        said = self.__dict__.get("training_excerpts_")
        known = self.training_labels_.copy()
        known.resize((known.shape[0], len(names)))
        self._learn(
            _stacked(self.training_features_, rows), sparse.vstack([known, Y], format="csr"), names, added=(rows, Y)
        )
        if said is not None:
            texts = as_texts(X)
            more = row_snippets(rows if texts is None else texts, self.feature_names_)
            self.training_excerpts_ = np.concatenate([said, more])
        return self

    @available_if(_why_not_online)
    @single_threaded_blas
    def remove_rows(self, rows: Any) -> Self:
        """Remove training rows: they no longer vote, and the mapping becomes that of the other rows.

        The embedding keeps what it learned of their labels. Rows behind a removed one move up by one number. A label
        without any row left is not predicted any more.

        Parameters
        ----------
        rows : int or array-like of int
            Numbers of training rows, as :meth:`explain` gives them: in the order of ``fit``, then of ``partial_fit``.
        """
        removed = _row_numbers(rows, self.n_samples_)
        kept = np.setdiff1d(np.arange(self.n_samples_), removed, assume_unique=True)
        if len(kept) < FEWEST_ROWS or self.training_labels_[kept].nnz == 0:
            raise DataError(
                f"remove_rows would leave {len(kept)} of {self.n_samples_} rows, and the model needs at least "
                f"{FEWEST_ROWS} of them, with a label among them."
            )
        X, Y, said = self.training_features_, self.training_labels_, self.__dict__.get("training_excerpts_")
        self._learn(X[kept], sparse.csr_array(Y[kept]), self.label_names_, removed=(X[removed], Y[removed]))
        if said is not None:
            self.training_excerpts_ = said[kept]
        return self

    def _keep_rows(self, X: Any, Y: sparse.csr_array) -> None:
        """Remember the training rows, if online; else drop those of an earlier fit."""
        for kept in ("training_features_", "training_labels_", "training_excerpts_"):
            self.__dict__.pop(kept, None)
        if self.online:
            self.training_features_ = as_int32_indices(sparse.csr_array(X)) if sparse.issparse(X) else X
            self.training_labels_ = Y

    def _learn(
        self,
        X: Any,
        Y: sparse.csr_array,
        names: NDArray[Any],
        *,
        added: tuple[Any, Any] | None = None,
        removed: tuple[Any, Any] | None = None,
    ) -> None:
        """Update all stages to the rows ``X`` and labels ``Y``; the model changes only if all of them succeed."""
        embedding, mapping, ranker = self.embedding_, self.mapping_, self.ranker_
        codes = self._rows_to_decode(X) if mapping is None else X
        if mapping is not None:
            embedding = copy(embedding).extend(Y)
            targets = [None if rows is None else (rows[0], embedding.transform(rows[1])) for rows in (added, removed)]
            mapping = copy(mapping).update(X, embedding.transform(Y), added=targets[0], removed=targets[1])
            codes = mapping.predict(X)
            if self.decoder_.input_kind == "both":
                codes = CodedRows(codes, X)
        decoder = copy(self.decoder_)
        if mapping is None and added is not None and hasattr(decoder, "extend"):
            decoder.extend(added[0], Y)
        else:
            # Every code moves with the mapping, so the neighbors are indexed anew: one product with the features.
            decoder.fit(codes, Y)
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        if ranker is not None:
            before = np.pad(self.label_counts_, (0, Y.shape[1] - len(self.label_counts_)))
            new = np.flatnonzero((before == 0) & (counts > 0))
            # An index beside vectors holds a part of the columns only.
            postings = None if self.n_dense_ else getattr(decoder, "postings_", None)
            ranker = extend_ranker(ranker, sparse.csr_array(X, dtype=np.float32), Y, new, postings)
        reranker = None if self.reranker_ is None else self.reranker_.updated(Y)
        self.embedding_, self.mapping_, self.decoder_ = embedding, mapping, decoder
        self.ranker_, self.reranker_ = ranker, reranker
        self.label_names_, self.label_counts_, self.n_samples_ = names, counts, Y.shape[0]
        self._identify_new_labels()
        self._keep_rows(X, Y)

    def _joined_labels(self, y: Any, label_names: Sequence[str] | None) -> tuple[sparse.csr_array, NDArray[Any]]:
        """Labels of new rows over the known labels and, behind them, the new ones; the names of all."""
        known = self.label_names_
        if self.target_kind_ == "classes":
            return indicator_of_names([[value] for value in as_classes(y).tolist()], known), known
        if label_names is None and is_frame(y):
            label_names = column_names(y)
        Y, names = self._matched_labels(y, label_names)
        if names is not None:
            return Y, names
        numbered = name_array(range(Y.shape[1]))
        if Y.shape[1] == len(known):
            return Y, known
        if Y.shape[1] > len(known) and np.array_equal(known, numbered[: len(known)]):
            return Y, numbered
        raise DataError(
            f"Y has {Y.shape[1]} columns, but the model knows {len(known)} labels: name the columns by label_names."
        )


def _row_numbers(rows: Any, n_samples: int) -> NDArray[np.intp]:
    numbers = np.atleast_1d(np.asarray(rows))
    if numbers.ndim != 1 or numbers.size == 0 or not np.issubdtype(numbers.dtype, np.integer):
        raise DataError("remove_rows takes the numbers of training rows: one, or a list of them.")
    wrong = numbers[(numbers < 0) | (numbers >= n_samples)]
    if wrong.size:
        raise DataError(f"There is no training row {wrong[0]}: they are numbered from 0 to {n_samples - 1}.")
    return np.unique(numbers).astype(np.intp)


def _like(kept: Any, X: Any) -> Any:
    """Rows in the form and precision of the kept training rows."""
    if sparse.issparse(kept):
        return as_int32_indices(sparse.csr_array(X, dtype=kept.dtype))
    return as_dense(X, kept.dtype)


def _stacked(above: Any, below: Any) -> Any:
    return sparse.vstack([above, below], format="csr") if sparse.issparse(above) else np.concatenate([above, below])
