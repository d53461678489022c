"""What a fitted classifier answers from its stages: the half of it that a service needs.

Nothing here learns, and nothing here waits for scikit-learn. The classifiers inherit it;
:func:`pysldl.persistence.load_predictor` makes it from a model folder on its own.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.suggestions import did_you_mean
from pysldl.backend.device import use_device
from pysldl.backend.row_norms import l2_normalize
from pysldl.backend.threads import fixed_order_blas, single_threaded_blas
from pysldl.decoding.base import CodedRows
from pysldl.estimator.calibration import ScoreCalibration
from pysldl.exceptions import DataError
from pysldl.inspection.explanation import Explanation, FeatureTerm, Neighbor
from pysldl.inspection.relations import MIN_COUNT, RelationFinder, Relations, label_relations
from pysldl.preprocessing.scaling import standardized

__all__ = ["LabelPredictor", "StagedPredictor", "without_unseen"]

BLOCK_BYTES = 128 << 20
SPARSE_BLOCK = 4096
LABELS_TO_COMPARE = 50_000  # with a name that is not known: a million would take seconds


class LabelPredictor:
    """Scores of rows in blocks of bounded memory, and labels by name. Features are expected to have been checked."""

    label_names_: NDArray[Any]
    label_counts_: NDArray[Any]
    feature_names_: NDArray[Any] | None
    n_features_in_: int
    n_samples_: int
    vectorizer_: Any
    calibration_: ScoreCalibration | None

    def _score_rows(self, X: Any) -> Any:
        """Scores of validated rows, (n_rows, n_labels): dense, or CSR where unstored labels are not predicted."""
        raise NotImplementedError

    def _rows_at_once(self) -> int:
        """Rows whose scores are held at the same time: dense ones, unless a subclass knows better."""
        return max(1, BLOCK_BYTES // (4 * len(self.label_names_)))

    def _features(self, X: Any, *, reset: bool) -> Any:
        """Features of rows; whoever is given them by strangers checks them here."""
        return X

    def _require_fit(self) -> None:
        """An error where the model was not fitted, which only one that learns can lack."""

    def label_column(self, label: str | int) -> int:
        """Column of a label given by name or by column; an unknown one is an error."""
        self._require_fit()
        if isinstance(label, (int, np.integer)):
            if 0 <= label < len(self.label_names_):
                return int(label)
            raise DataError(f"There is no label {label}: columns go from 0 to {len(self.label_names_) - 1}.")
        found = np.flatnonzero(self.label_names_ == label)
        if found.size == 0:
            near = did_you_mean(label, map(str, self.label_names_[:LABELS_TO_COMPARE]))
            raise DataError(f"Unknown label {label!r}: {near or 'label_names_ has all of them.'}")
        return int(found[0])

    def _score_checked(self, X: Any) -> Iterator[Any]:
        """Scores block by block of features that are known to be float32 or float64, finite, and CSR if sparse.

        Labels without training rows are -inf (dense) or not stored (CSR).
        """
        block = self._rows_at_once()
        unseen = self.label_counts_ == 0
        for start in range(0, X.shape[0], block):
            yield without_unseen(self._score_rows(X if block >= X.shape[0] else X[start : start + block]), unseen)

    def _as_sparse(self, labels: NDArray[np.integer], values: NDArray[Any]) -> sparse.csr_array:
        """CSR matrix of the labels that are not -1, with their values."""
        kept = labels >= 0
        indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        matrix = sparse.csr_array(
            (values[kept].astype(np.float32), labels[kept], indptr),
            shape=(len(labels), len(self.label_names_)),
        )
        matrix.sort_indices()
        return matrix


class StagedPredictor(LabelPredictor):
    """From features to scores through mapping, decoder and ranker, and the reasons for a score."""

    normalize: bool
    device: str
    feature_means_: NDArray[Any] | None = None  # as in a model that an earlier version saved
    feature_scales_: NDArray[Any] | None = None
    embedding_: Any
    mapping_: Any
    decoder_: Any
    ranker_: Any

    def _rows_at_once(self) -> int:
        """The scores of sparse decoders do not grow with the labels, and so neither does the number of their blocks."""
        return SPARSE_BLOCK if self.decoder_.scores_are_sparse else super()._rows_at_once()

    def _score_rows(self, X: Any) -> Any:
        return self._score_scaled(self._scaled(X))

    def _scaled(self, X: Any) -> Any:
        """Standard features and rows of length 1, where asked for; rows of length 1, as of tf-idf, are not copied."""
        if self.feature_means_ is not None:
            X = standardized(X, self.feature_means_, self.feature_scales_)
        return l2_normalize(X) if self.normalize else X

    def _rows_to_decode(self, X: Any, mapping: Any = None) -> Any:
        """What the decoder works on: features as they are, their codes, or both; codes of ``mapping``, if given."""
        mapping = self.mapping_ if mapping is None else mapping
        if mapping is None:
            return X
        codes = mapping.predict(X)
        return CodedRows(codes, X) if self.decoder_.input_kind == "both" else codes

    def _score_scaled(self, X: Any) -> Any:
        with use_device(self.device), fixed_order_blas():
            return self._score_through_stages(X)

    def _score_through_stages(self, X: Any) -> Any:
        codes = self._rows_to_decode(X)
        if self.ranker_ is None:
            return self.decoder_.scores(codes)
        width = min(self.ranker_.n_candidates, len(self.label_names_))
        rows = sparse.csr_array(X, dtype=np.float32)
        return self._as_sparse(*self.ranker_.rank(rows, *self.decoder_.candidates(codes, width)))

    @single_threaded_blas
    def explain(self, x: Any, label: str | int, *, top: int = 5) -> Explanation:
        """Why one row gets its score for one label.

        Parameters
        ----------
        x : array-like of shape (n_features,), sparse of shape (1, n_features), or str
            One row, or one text.
        label : str or int
            Name or column.
        top : int
            Neighbors and features listed.
        """
        column = self.label_column(label)
        X = self._scaled(self._features(_one_row(x), reset=False))
        row = sparse.csr_array(X)
        features, values = row.indices, row.data
        if self.mapping_ is None:
            evidence = self.decoder_.evidence(row, column)
            by_feature, constant = evidence.direction[features], 0.0
        else:
            code = self._rows_to_decode(X)
            evidence = self.decoder_.evidence(code if isinstance(code, CodedRows) else code[0], column)
            by_feature = self.mapping_.coef_[features] @ evidence.direction
            if evidence.feature_direction is not None:
                by_feature = by_feature + evidence.feature_direction[features]
            constant = float(self.mapping_.intercept_ @ evidence.direction)
        score, meaning = evidence.score, evidence.meaning
        if self.ranker_ is not None:
            score = float(self._score_scaled(X)[0, column])
            by_feature, constant = self.ranker_.terms(column, features)
            meaning = "linear score of the ranker"
        terms = values * by_feature
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
                FeatureTerm(self._feature_name(features[i]), float(values[i]), float(terms[i])) for i in largest
            ),
            terms_total=float(terms.sum()) + constant,
            terms_meaning=meaning,
        )

    def label_relations(
        self, top: int | None = 20, *, label: str | int | None = None, per_label: int = 1, min_count: int = MIN_COUNT
    ) -> Relations:
        """Directed relations between labels: "cloud implies sky", with the counts behind it and how sure it is.

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
        of = None if label is None else self.label_column(label)
        self._require_fit()
        return label_relations(
            self._training_labels(),
            self.label_names_,
            *self._gaussians(),
            top=top,
            per_label=per_label,
            min_count=min_count,
            of=of,
        )

    def relation_finder(self) -> RelationFinder:
        """What :meth:`label_relations` asks, for callers with many questions."""
        self._require_fit()
        return RelationFinder(self._training_labels(), *self._gaussians())

    def _gaussians(self) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Means and log-variances of the labels, or None twice."""
        log_variances = getattr(getattr(self, "embedding_", None), "log_variances_", None)
        return (None, None) if log_variances is None else (self.embedding_.components_, log_variances)

    def _training_labels(self) -> sparse.csr_array:
        decoder = self.decoder_
        neighbors = getattr(decoder, "neighbors_", decoder)
        if not hasattr(neighbors, "Y_"):
            raise DataError("This needs a decoder with neighbors, which keeps the labels of the training rows.")
        return neighbors.Y_

    def _labels_of_training_row(self, row: int) -> tuple[str, ...]:
        Y = self._training_labels()
        return tuple(str(name) for name in self.label_names_[Y.indices[Y.indptr[row] : Y.indptr[row + 1]]])

    def _feature_name(self, column: int) -> str:
        return f"feature {column}" if self.feature_names_ is None else str(self.feature_names_[column])


def without_unseen(scores: Any, unseen: NDArray[np.bool_]) -> Any:
    """Scores in which labels without training rows cannot be predicted: dense ones are -inf, CSR has none of them."""
    if not sparse.issparse(scores) and unseen.any():
        scores[:, unseen] = -np.inf
    return scores


def _one_row(x: Any) -> Any:
    """One row as something with rows."""
    if isinstance(x, str):
        return [x]
    if sparse.issparse(x):
        row = sparse.csr_array(x.reshape(1, -1) if x.ndim == 1 else x)
    else:
        row = np.atleast_2d(np.asarray(x))
    if row.shape[0] != 1:
        raise DataError(f"explain takes one row, but got {row.shape[0]}.")
    return row
