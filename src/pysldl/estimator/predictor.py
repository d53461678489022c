"""The predicting half of the classifiers: from features to scores, labels, probabilities and reasons.

Nothing here learns, and nothing here imports scikit-learn. The classifiers inherit it, and
:func:`pysldl.persistence.load_predictor` builds it from a model folder on its own.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.light_estimator import available_if
from pysldl._utils.memory import require_memory
from pysldl._utils.suggestions import did_you_mean
from pysldl.backend.dispatch import FEW_ROWS, current_device, use_device
from pysldl.backend.linear_algebra import as_float32_rows, l2_normalize
from pysldl.backend.single_query import RankedStages, rank_rows
from pysldl.backend.threads import fixed_order_blas, single_threaded_blas
from pysldl.backend.topk import top_k, top_k_of_listed
from pysldl.backend.trees import NO_TREES
from pysldl.decoding.base import CodedRows, LatentEvidence, UnformedCodes
from pysldl.decoding.feature_neighbors import FeatureNeighborDecoder
from pysldl.estimator.calibration import PredictionSets, ScoreCalibration, SetCoverage
from pysldl.estimator.concepts import (
    BroaderLabels,
    VocabularyChange,
    add_named,
    in_hierarchy,
    merge_scores,
    name_rates,
    renamed_labels,
)
from pysldl.exceptions import DataError
from pysldl.inspection.explanation import Explanation, FeatureTerm, Neighbor, RelatedCandidate, ScorePart
from pysldl.inspection.relations import MIN_COUNT, RelationFinder, Relations, label_relations
from pysldl.neighbors.inverted_index import InvertedIndex
from pysldl.preprocessing.features import (
    append_dense,
    canonical_rows,
    library_of,
    make_frame,
    require_dense,
    row_index,
    split_dense,
    standardized,
)
from pysldl.preprocessing.vocabulary import Concept, NameMatcher, Vocabulary
from pysldl.ranking.candidates import Candidates
from pysldl.ranking.linear import LinearRanker
from pysldl.ranking.reranker import TreeReranker

BLOCK_BYTES = 128 << 20
SPARSE_BLOCK, RESCORED_BLOCK = 4096, 2048
MORE_TO_CHOOSE_FROM = 50  # labels beyond the k best, where a hierarchy or names in the text may change the order
LABELS_TO_COMPARE = 50_000  # with a name that is not known: a million would take seconds


class LabelLists(list[list[str]]):
    """A list of label names for every row; in NumPy one object a row, so that ``cross_val_predict`` can join folds."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[np.object_]:
        return np.fromiter(self, dtype=object, count=len(self))


class LabelPredictor:
    """Base of all classifiers: predicts labels, scores and probabilities, in blocks of bounded memory.

    A subclass scores rows in ``_score_rows``. Features are expected to have been checked; the classifiers that learn
    check them in ``_features``.
    """

    label_names_: NDArray[Any]
    label_counts_: NDArray[Any]
    target_kind_: str
    feature_names_: NDArray[Any] | None
    n_features_in_: int
    n_samples_: int
    n_dense_: int = 0
    vectorizer_: Any
    calibration_: ScoreCalibration | None
    vocabulary_: Vocabulary | None = None
    label_ids_: NDArray[Any] | None = None
    label_targets_: NDArray[np.int32] | None = None
    name_rates_: NDArray[np.float64] | None = None
    mean_name_rate_: float = 0.0
    memory_limit: int | str | None = None

    def _score_rows(self, X: Any) -> Any:
        """Scores of checked rows, (n_rows, n_labels): dense, or CSR; what CSR does not store is not predicted."""
        raise NotImplementedError

    def _rows_at_once(self) -> int:
        """Rows whose scores are held at the same time: dense ones, unless a subclass knows better."""
        return max(1, BLOCK_BYTES // (4 * len(self.label_names_)))

    def _features(self, X: Any, dense: Any = None) -> Any:
        if dense is not None or self.n_dense_:
            X = append_dense(X, require_dense(dense, X.shape[0], self.n_dense_))
        return canonical_rows(X)

    def _require_fit(self) -> None:
        """Raise an error where the model was not fitted; a model read from a folder always was."""

    def score_blocks(self, X: Any, *, dense: Any = None) -> Iterator[Any]:
        """Yield the scores of the rows ``X``, block by block; ``dense`` as in :meth:`predict_topk`.

        Yields
        ------
        ndarray or csr_array of shape (n_rows, n_labels)
            Labels without training rows are -inf in a dense block; what a CSR block does not store is not predicted.
        """
        self._require_fit()
        yield from self._score_checked(self._features(X, dense))

    def predict_topk(
        self,
        X: Any,
        k: int = 5,
        *,
        names: bool | Literal["id"] = False,
        proba: bool = False,
        hierarchy: Literal["broader", "narrower"] | None = None,
        match_names: bool | Sequence[str] = False,
        dense: Any = None,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the k best labels of every row, best first.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features), or texts
        k : int
        names : bool or "id"
            Give names instead of columns of ``Y``; with "id" the identifiers (URIs) of the vocabulary.
        proba : bool
            Give calibrated probabilities instead of scores.
        hierarchy : {"broader", "narrower"}, optional
            Make the labels of a row consistent with the broader links of the vocabulary. "broader": a label brings its
            broader labels, each before it and with at least its score. "narrower": of the k best labels those that have
            a narrower one among them are left out, and the next best take their places.
        match_names : bool or sequence of str
            Also consider labels whose preferred or alternative name occurs in the text, see :meth:`learn_name_rates`.
            Where X holds features, give the texts.
        dense : array-like of shape (n_samples, n_dense), optional
            Vectors of the same rows, where :meth:`fit` was given such.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Columns of ``Y``, or names; -1, or the empty text, where a row has fewer labels.
        scores : ndarray of shape (n_samples, k), float32
            -inf (probability 0) where a row has fewer labels.
        """
        if names not in (True, False, "id"):
            raise DataError(f"names must be True, False or 'id', but is {names!r}.")
        plain = hierarchy is None and match_names is False
        width = k if plain else max(k, min(k + MORE_TO_CHOOSE_FROM, len(self.label_names_)))
        labels, scores = self.top_labels(X, width, dense=dense)
        if match_names is not False:
            texts = _texts_of(X) if match_names is True else list(match_names)
            labels, scores = self._with_name_matches(labels, scores, texts)
        if hierarchy is not None:
            labels, scores = in_hierarchy(labels, scores, self._broader_labels(), k, hierarchy)
        labels, scores = labels[:, :k], scores[:, :k]
        if proba:
            scores = self._fitted_calibration().probability(scores)
        if not names:
            return labels, scores
        if self.target_kind_ == "classes":
            raise DataError(
                "names=True needs labels with names, but this model was fitted on one class per row: leave it out, and "
                "classes_[labels] are the classes."
            )
        spelled = self.label_names_ if names is True or self.label_ids_ is None else self.label_ids_
        return np.where(labels >= 0, spelled[labels], ""), scores

    def top_labels(self, X: Any, k: int, *, dense: Any = None) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the columns of the k best labels of every row and their scores, as :meth:`predict_topk` does.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features), or texts
        k : int
        dense : array-like of shape (n_samples, n_dense), optional
            As in :meth:`predict_topk`.
        """
        self._require_fit()
        found = [self._top_of_rows(rows, k) for rows in self._row_blocks(self._features(X, dense))]
        if len(found) == 1:
            return found[0]
        return np.concatenate([part for part, _ in found]), np.concatenate([part for _, part in found])

    def _top_of_rows(self, X: Any, k: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The k best labels of checked rows."""
        return top_k(self._without_unseen(self._score_rows(X)), k)

    def predict_frame(
        self, X: Any, k: int = 5, *, proba: bool = False, library: str | None = None, dense: Any = None
    ) -> Any:
        """Return the k best labels of every row as a frame with one line for each row and label.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features), or texts
        k : int
        proba : bool
            Give calibrated probabilities instead of scores.
        library : {"pandas", "polars", "pyarrow"}, optional
            What the frame is made with. Default: that of ``X``, and pandas where X is no frame.
        dense : array-like of shape (n_samples, n_dense), optional
            Vectors of the same rows, where :meth:`fit` was given such.

        Returns
        -------
        DataFrame or Table
            With the columns ``row`` (the index of a pandas ``X``, else numbers), ``rank``, ``label``, and ``score`` or
            ``probability``.
        """
        labels, scores = self.predict_topk(X, k, proba=proba, dense=dense)
        rows, slots = np.nonzero(labels >= 0)
        index = row_index(X, len(labels))
        columns = {
            "row": [index[row] for row in rows],
            "rank": slots + 1,
            "label": self.label_names_[labels[rows, slots]].tolist(),
            "probability" if proba else "score": scores[rows, slots],
        }
        return make_frame(columns, library or library_of(X) or "pandas")

    def predict_scores(self, X: Any, top: int = 100, *, dense: Any = None) -> sparse.csr_array:
        """Return the scores of the ``top`` best labels of every row, CSR of shape (n_samples, n_labels).

        ``dense`` as in :meth:`predict_topk`.
        """
        self._require_fit()
        return self._as_sparse(*self.predict_topk(X, min(top, len(self.label_names_)), dense=dense))

    def decision_function(self, X: Any, *, dense: Any = None) -> NDArray[np.float32]:
        """Return the scores of all labels, dense of shape (n_samples, n_labels); refused past the memory limit.

        A label that no training row carries gets the lowest score of its row, or 0 where that is lower. With two
        classes (one-dimensional ``Y``) the difference of their scores, of shape (n_samples,), as in scikit-learn.
        ``dense`` as in :meth:`predict_topk`.
        """
        scores = self._dense_scores(X, dense)
        if self.target_kind_ == "classes" and scores.shape[1] == 2:
            return np.asarray(scores[:, 1] - scores[:, 0])
        return scores

    def predict(self, X: Any, *, threshold: float | None = None, dense: Any = None) -> Any:
        """Return the labels of every row, in the form ``fit`` was given.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features), or texts
        threshold : float, optional
            Score from which a label is predicted. Default: the one that was best on held-out training rows.
        dense : array-like of shape (n_samples, n_dense), optional
            Vectors of the same rows, where :meth:`fit` was given such.

        Returns
        -------
        csr_array of shape (n_samples, n_labels), list of lists of names, or ndarray of shape (n_samples,)
            An indicator answers an indicator, names answer names (best first), classes answer classes.
        """
        self._require_fit()
        if threshold is not None and (not isinstance(threshold, (int, float, np.number)) or threshold != threshold):
            raise DataError(f"threshold must be a number, or None for the learned one, but is {threshold!r}.")
        if self.target_kind_ == "classes":
            labels, _ = self.predict_topk(X, 1, dense=dense)
            return self.label_names_[labels.ravel()]
        return self._labels_from(X, self._fitted_calibration().threshold_ if threshold is None else threshold, dense)

    def predict_set(
        self,
        X: Any,
        *,
        recall: float | None = None,
        precision: float | None = None,
        confidence: float | None = None,
        dense: Any = None,
    ) -> Any:
        """Return as many labels of every row as a wanted recall, or precision, allows.

        The threshold comes from the scores of held-out training rows, with a bound; new rows must come from the same
        source as those of ``fit``. See :class:`~pysldl.estimator.calibration.PredictionSets`.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features), or texts
        recall : float, optional
            Smallest sets in which a row's labels are found to this share, in the mean over rows.
        precision : float, optional
            Largest sets of whose labels this share is right, over all rows. Give one of the two.
        confidence : float, optional
            Confidence of the bound over draws of the held-out rows. Default: for recall, a bound in expectation
            (conformal risk control); for precision, 0.9.
        dense : array-like of shape (n_samples, n_dense), optional
            Vectors of the same rows, where :meth:`fit` was given such.

        Returns
        -------
        csr_array of shape (n_samples, n_labels), or list of lists of names
            In the form of :meth:`predict`. An error where held-out rows do not support what is wanted.

        Examples
        --------
        >>> from pysldl import make_sldl
        >>> from pysldl.datasets import make_asymmetric_multilabel
        >>> data = make_asymmetric_multilabel(random_state=0)
        >>> clf = make_sldl("fast").fit(data.X, data.Y)
        >>> clf.predict_set(data.X[:3], recall=0.9).shape
        (3, 90)
        """
        sets = self._prediction_sets()
        threshold = sets.threshold(recall=recall, precision=precision, confidence=confidence)
        return self._labels_from(X, threshold, dense)

    def set_coverage(
        self, *, recall: float | None = None, precision: float | None = None, confidence: float | None = None
    ) -> SetCoverage:
        """Return what the sets of :meth:`predict_set` hold on held-out training rows, also by label frequency.

        Parameters
        ----------
        recall, precision, confidence : float, optional
            As in :meth:`predict_set`.
        """
        sets = self._prediction_sets()
        threshold = sets.threshold(recall=recall, precision=precision, confidence=confidence)
        return sets.coverage(threshold, self.label_counts_)

    def _prediction_sets(self) -> PredictionSets:
        self._require_fit()
        if self.target_kind_ == "classes":
            raise DataError(
                "Sets of labels need rows with several labels, but this model was fitted on one class per row."
            )
        return self._fitted_calibration().sets_

    def _labels_from(self, X: Any, threshold: float, dense: Any) -> Any:
        """Labels that score at least ``threshold``, as names or as an indicator."""
        blocks = [_labels_above(block, threshold) for block in self.score_blocks(X, dense=dense)]
        if self.target_kind_ == "names":
            return LabelLists(self.label_names_[row[row >= 0]].tolist() for labels in blocks for row in labels)
        return sparse.vstack([self._as_sparse(labels, np.ones(labels.shape)) for labels in blocks], format="csr")

    def predict_proba(self, X: Any, top: int | None = None, *, dense: Any = None) -> Any:
        """Return calibrated probabilities, dense of shape (n_samples, n_labels), or CSR of the ``top`` best labels.

        With one class per row the probabilities of a row sum to 1. ``dense`` as in :meth:`predict_topk`.
        """
        self._require_fit()
        if top is not None:
            return self._as_sparse(*self.predict_topk(X, min(top, len(self.label_names_)), proba=True, dense=dense))
        if self.target_kind_ == "classes":
            shares = np.maximum(self._dense_scores(X, dense), 0.0).astype(np.float64) + 1e-12
            return shares / shares.sum(axis=1, keepdims=True)
        probabilities = self._fitted_calibration().probability(self._dense_scores(X, dense))
        probabilities[:, self.never_predicted()] = 0.0
        return probabilities

    def label_column(self, label: str | int) -> int:
        """Return the column of a label given by name or by column; an unknown one is an error."""
        self._require_fit()
        if isinstance(label, (int, np.integer)):
            if 0 <= label < len(self.label_names_):
                return int(label)
            raise DataError(f"There is no label {label}: columns go from 0 to {len(self.label_names_) - 1}.")
        found = np.flatnonzero(self.label_names_ == label)
        if found.size == 0 and self.vocabulary_ is not None:
            found = np.flatnonzero(self.label_ids_ == (self.vocabulary_.find(label) or label))
        if found.size == 0:
            near = did_you_mean(label, map(str, self.label_names_[:LABELS_TO_COMPARE]))
            raise DataError(f"Unknown label {label!r}: {near or 'label_names_ has all of them.'}")
        return int(found[0])

    def label_info(self, label: str | int) -> Concept:
        """Return what the vocabulary says of a label: identifier, names, notation, broader, narrower and related.

        Parameters
        ----------
        label : str or int
            Name, identifier or column.

        Returns
        -------
        Concept
            Without a vocabulary, or for a label that it does not have, only the name, which is the identifier, too.
        """
        column = self.label_column(label)
        name = str(self.label_names_[column])
        if self.vocabulary_ is None or self.label_ids_ is None:
            return Concept(name, {"": name})
        identifier = str(self.label_ids_[column])
        return self.vocabulary_[identifier] if identifier in self.vocabulary_ else Concept(identifier, {"": name})

    def set_vocabulary(self, vocabulary: Vocabulary) -> VocabularyChange:
        """Bring the labels to a vocabulary, the first or a changed one, without a refit.

        Labels are found by identifier, the first time also by notation and name. They get the preferred names; one
        that was replaced by another counts for it from now on, with the better of their scores; a deprecated one, and
        one that the vocabulary has lost, is not predicted any more. New concepts are learned by ``partial_fit``.

        Parameters
        ----------
        vocabulary : Vocabulary
            See :func:`pysldl.datasets.read_vocabulary`.

        Returns
        -------
        VocabularyChange
            What was renamed, merged and deprecated, and what is new.
        """
        self._require_fit()
        if self.target_kind_ == "classes":
            raise DataError("A vocabulary needs labels with names, but this model was fitted on one class per row.")
        names = self.label_names_
        ids = names if self.label_ids_ is None else self.label_ids_
        if self.label_targets_ is not None:  # what was merged stays so
            ids = np.where(self.label_targets_ >= 0, ids[self.label_targets_], ids)
        names, ids, targets, change = renamed_labels(names, ids, self.vocabulary_, vocabulary)
        self.vocabulary_, self.label_names_, self.label_ids_, self.label_targets_ = vocabulary, names, ids, targets
        return change

    def learn_name_rates(self, texts: Sequence[str], y: Any) -> Self:
        """Learn how often a label applies where its name occurs in the text, for ``predict_topk(match_names=True)``.

        Parameters
        ----------
        texts : sequence of str
            Of rows with known labels, such as those of ``fit``.
        y : indicator of shape (n_samples, n_labels) or rows of label names
            Their labels.
        """
        matches = self._name_matcher().find_all(list(texts))
        Y = self.encode(y, unseen="drop") if hasattr(self, "encode") else y
        self.name_rates_, self.mean_name_rate_ = name_rates(matches, Y, len(self.label_names_))
        return self

    def _name_matcher(self) -> NameMatcher:
        vocabulary, ids = self._needed_vocabulary("match_names")
        column = {identifier: number for number, identifier in enumerate(ids.tolist())}
        if self.label_targets_ is not None:
            column = {one: int(self.label_targets_[number]) for one, number in column.items()}
        names = ((name, column.get(identifier, -1)) for name, identifier in vocabulary.all_names())
        return NameMatcher((name, number) for name, number in names if number >= 0)

    def _with_name_matches(
        self, labels: NDArray[Any], scores: NDArray[Any], texts: Sequence[str]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """The best labels of rows and those that the texts name, which get the score of their rate as a probability."""
        calibration, rates = self._fitted_calibration(), self.name_rates_
        if rates is None:
            raise DataError("match_names needs rates: call learn_name_rates with texts and labels, once after fit.")
        rates = np.append(rates, np.full(len(self.label_names_) - len(rates), self.mean_name_rate_))
        named = np.interp(rates, calibration.probabilities_, calibration.scores_).astype(np.float32)
        named[self.label_counts_ == 0] = -np.inf
        return add_named(labels, scores, self._name_matcher().find_all(texts), named)

    def _broader_labels(self) -> BroaderLabels:
        vocabulary, ids = self._needed_vocabulary("hierarchy")
        return BroaderLabels(vocabulary, ids, self.never_predicted())

    def _needed_vocabulary(self, what: str) -> tuple[Vocabulary, NDArray[Any]]:
        self._require_fit()
        if self.vocabulary_ is None or self.label_ids_ is None:
            raise DataError(f"{what}: this model has no vocabulary. Give one to fit, or call set_vocabulary.")
        return self.vocabulary_, self.label_ids_

    def _score_checked(self, X: Any) -> Iterator[Any]:
        """Scores, block by block, of features that are known to be float32 or float64, finite, and CSR if sparse."""
        for rows in self._row_blocks(X):
            yield self._without_unseen(self._score_rows(rows))

    def _row_blocks(self, X: Any) -> Iterator[Any]:
        block = self._rows_at_once()
        for start in range(0, X.shape[0], block):
            yield X if block >= X.shape[0] else X[start : start + block]

    def _without_unseen(self, scores: Any) -> Any:
        """Scores in which labels without training rows cannot be predicted: dense ones are -inf, CSR has none."""
        if sparse.issparse(scores):
            seen = self.label_counts_[scores.indices] > 0
            if not seen.all():
                indptr = np.concatenate([[0], np.cumsum(seen)])[scores.indptr]
                scores = sparse.csr_array((scores.data[seen], scores.indices[seen], indptr), shape=scores.shape)
        else:
            unseen = self.label_counts_ == 0
            if unseen.any():
                scores[:, unseen] = -np.inf
        return scores if self.label_targets_ is None else merge_scores(scores, self.label_targets_)

    def never_predicted(self) -> NDArray[np.bool_]:
        """Return which labels have no training rows, own or of merged labels: ndarray of shape (n_labels,), bool."""
        if self.label_targets_ is None:
            return np.asarray(self.label_counts_ == 0)
        kept = self.label_targets_ >= 0
        counts = np.bincount(self.label_targets_[kept], self.label_counts_[kept], minlength=len(self.label_counts_))
        return np.asarray(counts == 0)

    def _dense_scores(self, X: Any, dense: Any) -> NDArray[np.float32]:
        self._require_fit()
        X = self._features(X, dense)
        require_memory(
            4 * X.shape[0] * len(self.label_names_),
            f"A dense score matrix of {X.shape[0]} rows and {len(self.label_names_)} labels",
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

    def _as_sparse(self, labels: NDArray[np.integer], values: NDArray[Any]) -> sparse.csr_array:
        """CSR matrix of the labels that are not -1, with their values."""
        kept = labels >= 0
        indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        shape = (len(labels), len(self.label_names_))
        matrix = sparse.csr_array((values[kept].astype(np.float32), labels[kept], indptr), shape=shape)
        matrix.sort_indices()
        return matrix

    def _fitted_calibration(self) -> ScoreCalibration:
        self._require_fit()
        if self.calibration_ is None:
            raise DataError(
                f"This {type(self).__name__} learned neither threshold nor probabilities: fit it with calibrate=True, "
                "or use predict_topk, which needs neither."
            )
        return self.calibration_


def why_no_codes(model: Any) -> str | None:
    """Return why a model has no latent codes; None where it has."""
    if hasattr(model, "mapping_"):
        without = model.mapping_ is None
    else:
        without = getattr(model.decoder, "input_kind", None) == "features"
    return "it works on the features themselves and has no latent codes." if without else None


class StagedPredictor(LabelPredictor):
    """Predicts through mapping, decoder and ranker, and explains scores."""

    normalize: bool
    device: str
    feature_means_: NDArray[Any] | None
    feature_scales_: NDArray[Any] | None
    embedding_: Any
    mapping_: Any
    decoder_: Any
    ranker_: Any
    reranker_: Any

    @available_if(why_no_codes)
    def transform(self, X: Any, *, dense: Any = None) -> NDArray[np.float32]:
        """Return the latent codes of the rows ``X`` (Eq. 18), of shape (n_samples, n_components).

        A model whose decoder works on the features themselves has no codes, and no such method. ``dense`` as in
        :meth:`predict_topk`.
        """
        self._require_fit()
        codes: NDArray[np.float32] = self.mapping_.predict(self._scaled(self._features(X, dense)))
        return codes

    @single_threaded_blas
    def explain(self, x: Any, label: str | int, *, top: int = 5, dense: Any = None) -> Explanation:
        """Explain the score of one row for one label: the neighbors, the features, and how they add up.

        Parameters
        ----------
        x : array-like of shape (n_features,), sparse of shape (1, n_features), or str
            One row, or one text.
        label : str or int
            Name or column.
        top : int
            Neighbors and features listed.
        dense : array-like of shape (n_dense,), optional
            The vector of the row, where :meth:`fit` was given such.

        Returns
        -------
        Explanation
        """
        column = self.label_column(label)
        X = self._scaled(self._features(_one_row(x), None if dense is None else np.atleast_2d(np.asarray(dense))))
        row = sparse.csr_array(X)
        evidence, weights, constant = self._evidence(X, row, column)
        score, meaning, first_score = evidence.score, evidence.meaning, 0.0
        rescoring: dict[str, float] = {}
        related: list[RelatedCandidate] = []
        if self._rescores:
            score = float(self._score_scaled(X)[0, column])
            if self.ranker_ is not None:
                weights, constant = self.ranker_.terms(column, row.indices)
                meaning = "total of the label's linear classifier"
            with use_device(self.device), fixed_order_blas():
                candidates = self._ranked(X, self._rows_to_decode(X))
            first_score = float(candidates.scores[0][candidates.labels[0] == column].sum())
            if self.reranker_ is not None:
                rescoring = self.reranker_.contributions(candidates, column, self.label_counts_)
                related = [
                    RelatedCandidate(str(self.label_names_[other]), value, int(self.label_counts_[other]), shared)
                    for other, value, shared in self.reranker_.related(candidates, column, self.label_counts_)[:top]
                ]
        terms = row.data * weights
        total = float(terms.sum()) + constant
        largest = np.argsort(-np.abs(terms), kind="stable")[:top]
        calibration = self.calibration_
        return Explanation(
            label=str(self.label_names_[column]),
            score=score,
            probability=None if calibration is None else float(calibration.probability(np.array(score))),
            neighbors=tuple(
                Neighbor(vote.row, vote.similarity, vote.contribution, self._labels_of_training_row(vote.row))
                for vote in evidence.votes[:top]
            ),
            terms=tuple(
                FeatureTerm(self._feature_name(row.indices[i]), float(row.data[i]), float(terms[i])) for i in largest
            ),
            terms_total=total,
            terms_meaning=meaning,
            parts=_sum_of(evidence, total, score) if self.ranker_ is None else _product_of(score, first_score, total),
            parts_multiply=self.ranker_ is not None,
            rescoring=tuple(ScorePart(name, value) for name, value in rescoring.items() if value != 0),
            related=tuple(related),
        )

    def label_relations(
        self, top: int | None = 20, *, label: str | int | None = None, per_label: int = 1, min_count: int = MIN_COUNT
    ) -> Relations:
        """Return directed relations between labels ("cloud implies sky"), with counts and how sure they are.

        A model with Gaussians adds the divergence both ways. See :class:`~pysldl.inspection.relations.LabelRelation`
        for what each relation holds and when it is called an implication.

        Parameters
        ----------
        top : int or None
            How many, strongest first; with ``label``, from and to that label each. None for all.
        label : str or int, optional
            Only relations from or to this label.
        per_label : int
            Relations of each label to more frequent ones; all of them with ``label``.
        min_count : int
            Labels on fewer training rows are left out.
        """
        self._require_fit()
        of = None if label is None else self.label_column(label)
        Y, names = self._training_labels(), self.label_names_
        return label_relations(Y, names, *self._gaussians(), top=top, per_label=per_label, min_count=min_count, of=of)

    def relation_finder(self) -> RelationFinder:
        """Return what finds the relations of :meth:`label_relations`, for callers with many queries."""
        self._require_fit()
        return RelationFinder(self._training_labels(), *self._gaussians())

    def _rows_at_once(self) -> int:
        """A fixed number where scores are sparse, since their size does not grow with the labels.

        Rescored rows have codes and scores of several kinds beside each other, so there are fewer of them.
        """
        if self.decoder_.scores_are_sparse:
            return SPARSE_BLOCK
        return min(super()._rows_at_once(), RESCORED_BLOCK) if self._rescores else super()._rows_at_once()

    def _score_rows(self, X: Any) -> Any:
        return self._score_scaled(self._scaled(X))

    def _score_scaled(self, X: Any) -> Any:
        with use_device(self.device), fixed_order_blas():
            codes = self._rows_to_decode(X)
            if not self._rescores:
                return self.decoder_.scores(codes)
            return self._as_sparse(*self._rescored(self._ranked(X, codes)))

    def _top_of_rows(self, X: Any, k: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
        if not self._rescores or self.label_targets_ is not None:
            return super()._top_of_rows(X, k)
        X = self._scaled(X)
        ranked = None
        if X.shape[0] <= FEW_ROWS and (stages := self._compiled_stages()) is not None:
            ranked = rank_rows(as_float32_rows(X), stages)
        if ranked is None:
            with use_device(self.device), fixed_order_blas():
                ranked = self._rescored(self._ranked(X, self._rows_to_decode(X), k))
        labels, scores = ranked
        return top_k_of_listed(np.where(self.label_counts_[labels] > 0, labels, -1), scores, k)

    def _compiled_stages(self) -> RankedStages | None:
        """The stages for :func:`~pysldl.backend.single_query.rank_rows`; None where it does not know one of them."""
        decoder, ranker, reranker = self.decoder_, self.ranker_, self.reranker_
        if type(decoder) is not FeatureNeighborDecoder or type(ranker) is not LinearRanker or ranker.all_labels_:
            return None
        index = decoder.index_
        if not isinstance(index, InvertedIndex) or type(reranker) not in (TreeReranker, type(None)):
            return None
        centroids = index if ranker.centroids_ is None else ranker.centroids_.index_
        return RankedStages(
            index.n_terms,
            index.max_postings,
            max(decoder.n_neighbors_, decoder.candidate_neighbors),
            float(decoder.temperature_),
            min(ranker.n_decoder_candidates, len(self.label_names_)),
            centroids.n_terms,
            centroids.max_postings,
            int(ranker.n_centroid_candidates_),
            float(ranker.vote_power_),
            0 if reranker is None else reranker.n_candidates,
            0.0 if reranker is None else float(reranker.baseline_),
            index.postings_,
            decoder.Y_,
            centroids.postings_,
            ranker.W_,
            ranker.W_ if reranker is None else reranker.pairs_,
            ranker.frequent_,
            ranker.bias_,
            self.label_counts_,
            NO_TREES if reranker is None else reranker.trees_,
        )

    def _rescored(self, candidates: Candidates) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Candidates with their final scores."""
        if self.reranker_ is None:
            return candidates.labels, candidates.scores
        return candidates.labels, self.reranker_.scores(candidates, self.label_counts_)

    @property
    def _rescores(self) -> bool:
        """Whether ranker or reranker follow the decoder."""
        return self.ranker_ is not None or self.reranker_ is not None

    def _ranked(self, X: Any, codes: Any, k: int | None = None) -> Candidates:
        """Candidates of rows with the scores of the first ranking stage.

        Those of a ranker, or, of a decoder that knows the parts of its scores, the k best labels, all by default, and
        in any case those that are rescored.
        """
        if self.ranker_ is None:
            m = len(self.label_names_) if k is None else max(k, self.reranker_.n_candidates)
            return Candidates(*self.decoder_.score_parts(codes, m))
        width = min(self.ranker_.n_decoder_candidates, len(self.label_names_))
        voted = self.decoder_.candidates(codes, width) if self.ranker_.needs_votes else ()
        ranked: Candidates = self.ranker_.rank(as_float32_rows(X), *voted)
        return ranked

    def _scaled(self, X: Any) -> Any:
        """Standard features and rows of length 1, where asked for; rows of length 1, as of tf-idf, are not copied."""
        if self.feature_means_ is not None:
            X = standardized(X, self.feature_means_, self.feature_scales_)
        return l2_normalize(X) if self.normalize else X

    def _rows_to_decode(self, X: Any, mapping: Any = None) -> Any:
        """What the decoder works on: features as they are, their codes, or both; codes of ``mapping``, if given.

        Without a mapping, dense vectors beside the features stand in for the codes.
        """
        mapping = self.mapping_ if mapping is None else mapping
        if mapping is None:
            if self.decoder_.input_kind != "both":
                return X
            features, vectors = split_dense(sparse.csr_array(X), self.n_dense_)
            return CodedRows(vectors, features)
        if self.decoder_.takes_unformed_codes and current_device() is None:
            return CodedRows(UnformedCodes(mapping, X), X)
        codes = mapping.predict(X)
        return CodedRows(codes, X) if self.decoder_.input_kind == "both" else codes

    def _evidence(self, X: Any, row: sparse.csr_array, column: int) -> tuple[LatentEvidence, NDArray[Any], float]:
        """Evidence of the decoder, and its linear part as weights of the features of ``row`` and a constant."""
        if self.mapping_ is None:
            evidence = self.decoder_.evidence(self._rows_to_decode(row), column)
            direction = evidence.direction
            if evidence.feature_direction is not None:
                direction = np.concatenate([evidence.feature_direction, direction])
            return evidence, direction[row.indices], 0.0
        code = self._rows_to_decode(X)
        evidence = self.decoder_.evidence(code if isinstance(code, CodedRows) else code[0], column)
        weights = self.mapping_.weights_at(row) @ evidence.direction
        if evidence.feature_direction is not None:
            weights = weights + evidence.feature_direction[row.indices]
        return evidence, weights, float(self.mapping_.intercept_ @ evidence.direction)

    def _gaussians(self) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Means and log-variances of the labels, or None twice."""
        log_variances = getattr(self.embedding_, "log_variances_", None)
        return (None, None) if log_variances is None else (self.embedding_.components_, log_variances)

    def _training_labels(self) -> sparse.csr_array:
        neighbors = getattr(self.decoder_, "neighbors_", self.decoder_)
        if not hasattr(neighbors, "Y_"):
            raise DataError("This needs a decoder with neighbors, which keeps the labels of the training rows.")
        return neighbors.Y_

    def _labels_of_training_row(self, row: int) -> tuple[str, ...]:
        Y = self._training_labels()
        return tuple(str(name) for name in self.label_names_[Y.indices[Y.indptr[row] : Y.indptr[row + 1]]])

    def _feature_name(self, column: int) -> str:
        return f"feature {column}" if self.feature_names_ is None else str(self.feature_names_[column])


def _labels_above(scores: Any, threshold: float) -> NDArray[np.int64]:
    """Labels that score at least ``threshold``, best first, (n_rows, the most of a row); -1 where a row has fewer."""
    if sparse.issparse(scores):
        n_before = np.concatenate([[0], np.cumsum(scores.data >= threshold)])
        n_above = np.diff(n_before[scores.indptr])
    else:
        n_above = np.count_nonzero(scores >= threshold, axis=1)
    labels, best = top_k(scores, max(1, int(n_above.max(initial=0))))
    return np.where(best >= threshold, labels, -1)


def _sum_of(evidence: LatentEvidence, linear: float, score: float) -> tuple[ScorePart, ...]:
    """The parts of a decoder's score, and what a reranker adds; they add up to the ``score``, zeros are left out."""
    votes = sum(vote.contribution for vote in evidence.votes)
    read_out = linear if evidence.terms_in_score else 0.0
    parts = {"neighbors": votes, "linear read-out": read_out, "label prior": evidence.score - votes - read_out}
    parts["reranker"] = score - evidence.score
    least = 1e-5 * max(abs(evidence.score), abs(votes), abs(read_out))
    return tuple(ScorePart(name, value) for name, value in parts.items() if abs(value) > least)


def _product_of(score: float, first_score: float, linear: float) -> tuple[ScorePart, ...]:
    """The factors of a ranker's score, and of a reranker's; none where the label was no candidate."""
    sigmoid = 0.5 * (1.0 + math.tanh(linear))
    if first_score == 0.0 or sigmoid == 0.0:
        return ()
    parts = ScorePart("linear classifier, sigmoid(2 s)", sigmoid), ScorePart("neighbors", first_score / sigmoid)
    return parts if score == first_score else (*parts, ScorePart("reranker", score / first_score))


def _texts_of(X: Any) -> Sequence[str]:
    from pysldl.preprocessing.text import as_texts  # not above: it waits for scikit-learn

    texts = as_texts(X)
    if texts is None:
        raise DataError("match_names=True needs texts, but X holds features: give the texts, match_names=texts.")
    return texts


def _one_row(x: Any) -> Any:
    """One row as a matrix or a list with one row."""
    if isinstance(x, str):
        return [x]
    if isinstance(x, (list, tuple)) and len(x) > 1 and isinstance(x[0], str):
        raise DataError(f"explain takes one row, but got {len(x)}.")
    if sparse.issparse(x):
        row = sparse.csr_array(x.reshape(1, -1) if x.ndim == 1 else x)
    else:
        row = np.atleast_2d(np.asarray(x))
    if row.shape[0] != 1:
        raise DataError(f"explain takes one row, but got {row.shape[0]}.")
    return row
