"""Simple control methods, which show what a new method adds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.utils import check_random_state

from pysldl._utils.constraints import Count, Positive
from pysldl._utils.light_estimator import inherit_parameters
from pysldl._utils.memory import require_memory
from pysldl._utils.progress import Progress
from pysldl.backend.linear_algebra import as_dense
from pysldl.backend.threads import single_threaded_blas
from pysldl.baselines.base import CALIBRATION_ROWS, BaselineClassifier, NormalizingBaseline
from pysldl.baselines.logistic import fit_logistic
from pysldl.decoding import NeighborDecoder
from pysldl.estimator.calibration import ScoreCalibration
from pysldl.mapping import RidgeMapping


@inherit_parameters
@dataclass(eq=False, repr=False)
class LabelPrior(BaselineClassifier):
    """The share of training rows that carry each label, whatever the features say.

    Parameters
    ----------
    calibrate : bool, default=True
        Learn the threshold of ``predict`` and the probabilities on up to 5,000 of the training rows themselves, which
        one row more or less hardly changes.
    random_state : int, RandomState instance or None, default=None
        Without effect: nothing here is random.

    Attributes
    ----------
    prior_ : ndarray of shape (n_labels,), float32

    Examples
    --------
    >>> from pysldl.baselines import LabelPrior
    >>> LabelPrior().fit([[1], [2], [3], [4]], [[1, 0], [1, 1], [1, 0], [0, 0]]).prior_
    array([0.75, 0.25], dtype=float32)
    """

    _saved_state = (*BaselineClassifier._saved_state, "prior_")

    def _fit_rows(self, X: Any, Y: sparse.csr_array) -> None:
        self.prior_ = (self.label_counts_ / Y.shape[0]).astype(np.float32)
        if self._wants_calibration:
            rows = slice(CALIBRATION_ROWS)
            self.calibration_ = ScoreCalibration().fit(self._score_rows(X[rows]), Y[rows])

    def _score_rows(self, X: Any) -> NDArray[np.float32]:
        return np.tile(self.prior_, (X.shape[0], 1))


@inherit_parameters
@dataclass(eq=False, repr=False)
class FeatureNeighbors(BaselineClassifier):
    """Votes of the nearest training rows by cosine of the raw features: SLDL without any latent space.

    Sparse features are made dense, since the search is; past the memory limit that is refused.

    Parameters
    ----------
    n_neighbors : int, default=30
        Neighbors that vote.
    calibrate : bool, default=True
        Learn the threshold of ``predict`` and the probabilities from the leave-one-out scores of up to 5,000 training
        rows.
    random_state : int, RandomState instance or None, default=None
        Seed of the draw of the rows that calibrate.

    Attributes
    ----------
    decoder_ : NeighborDecoder

    Examples
    --------
    >>> from pysldl.baselines import FeatureNeighbors
    >>> X, Y = [[1, 0], [0, 1], [1, 0], [0, 1]], [[1, 0], [0, 1], [1, 0], [0, 1]]
    >>> FeatureNeighbors(n_neighbors=1).fit(X, Y).predict_topk([[2, 1]], 1)[0]
    array([[0]])
    """

    n_neighbors: Count = 30

    _saved_state = (*BaselineClassifier._saved_state, "decoder_")

    @single_threaded_blas
    def _fit_rows(self, X: Any, Y: sparse.csr_array) -> None:
        require_memory(
            2 * 4 * X.shape[0] * X.shape[1],
            f"A dense copy of {X.shape[0]} rows with {X.shape[1]} features",
            "Use SLDLClassifier, which searches among short codes.",
            self.memory_limit,
        )
        rows = as_dense(X, np.float32)
        self.decoder_ = NeighborDecoder(self.n_neighbors).fit(rows, Y)
        if self._wants_calibration:
            held = check_random_state(self.random_state).permutation(len(rows))[:CALIBRATION_ROWS]
            self.calibration_ = ScoreCalibration().fit(self.decoder_.loo_scores(rows[held], held, rows, Y), Y[held])

    @single_threaded_blas
    def _score_rows(self, X: Any) -> sparse.csr_array:
        return self.decoder_.scores(as_dense(X, np.float32))


@inherit_parameters
@dataclass(eq=False, repr=False)
class RidgeReadout(NormalizingBaseline):
    """Ridge regression from features straight to labels, all labels at once.

    Parameters
    ----------
    alpha : float, default=1.0
        Weight of the penalty.
    calibrate : bool, default=True
        Learn the threshold of ``predict`` and the probabilities from the leave-one-out scores of up to 5,000 training
        rows, which ridge regression gives in closed form.

    Attributes
    ----------
    mapping_ : RidgeMapping

    Examples
    --------
    >>> from pysldl.baselines import RidgeReadout
    >>> X, Y = [[1, 0], [0, 1], [1, 0], [0, 1]], [[1, 0], [0, 1], [1, 0], [0, 1]]
    >>> RidgeReadout(alpha=1.0).fit(X, Y).decision_function([[1, 0]]).round(3)
    array([[0.667, 0.   ]], dtype=float32)
    """

    alpha: Positive = 1.0

    _saved_state = (*NormalizingBaseline._saved_state, "mapping_")

    @single_threaded_blas
    def _fit_rows(self, X: Any, Y: sparse.csr_array) -> None:
        rng = check_random_state(self.random_state)
        self.mapping_ = RidgeMapping(self.alpha, random_state=int(rng.randint(2**31 - 1)))
        nonzeros = X.nnz if sparse.issparse(X) else X.size
        require_memory(
            self.mapping_.memory(X.shape[0], X.shape[1], nonzeros, Y.shape[1]),
            f"Ridge regression of {Y.shape[1]} labels",
            "Use SLDLClassifier, whose regression does not grow with the number of labels.",
            self.memory_limit,
        )
        held = rng.permutation(X.shape[0])[:CALIBRATION_ROWS] if self._wants_calibration else None
        self.mapping_.fit(self._scaled(X), Y, leverage_of=held, progress=self._on_progress)
        if held is not None:
            left_out = self.mapping_.leave_one_out(self._score_rows(X[held]), Y[held])
            self.calibration_ = ScoreCalibration().fit(left_out, Y[held])

    @single_threaded_blas
    def _score_rows(self, X: Any) -> NDArray[np.float32]:
        return np.asarray(self.mapping_.predict(self._scaled(X)), dtype=np.float32)


@inherit_parameters
@dataclass(eq=False, repr=False)
class OneVsRestLogistic(NormalizingBaseline):
    """One logistic regression per label; the score is its probability.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss against the L2 penalty.
    calibrate : bool, default=True
        Learn the threshold of ``predict`` and the probabilities on held-out rows; fitting takes twice as long.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features, n_labels), float32
    intercept_ : ndarray of shape (n_labels,), float32
        Infinite for a label that all training rows carry, or none.

    Examples
    --------
    >>> from pysldl.baselines import OneVsRestLogistic
    >>> X, Y = [[1, 0], [0, 1], [1, 0], [0, 1]], [[1, 0], [0, 1], [1, 0], [0, 1]]
    >>> OneVsRestLogistic(C=10.0).fit(X, Y).predict_topk(X, 1)[0].ravel()
    array([0, 1, 0, 1])
    """

    C: Positive = 1.0

    _saved_state = (*NormalizingBaseline._saved_state, "coef_", "intercept_")

    @single_threaded_blas
    def _fit_rows(self, X: Any, Y: sparse.csr_array) -> None:
        n_samples, n_labels = Y.shape
        require_memory(
            4 * X.shape[1] * n_labels,
            f"A linear classifier for each of {n_labels} labels over {X.shape[1]} features",
            "Use SLDLClassifier, of which nothing that is trained grows with the number of labels.",
            self.memory_limit,
        )
        features = self._scaled(X)
        columns = Y.tocsc()
        self.coef_ = np.zeros((X.shape[1], n_labels), dtype=np.float32)
        self.intercept_ = np.where(self.label_counts_ > 0, np.inf, -np.inf).astype(np.float32)
        varied = np.flatnonzero((self.label_counts_ > 0) & (self.label_counts_ < n_samples))
        for step, label in enumerate(varied, 1):
            carried = np.zeros(n_samples, dtype=bool)
            carried[columns.indices[columns.indptr[label] : columns.indptr[label + 1]]] = True
            self.coef_[:, label], self.intercept_[label] = fit_logistic(features, carried, self.C)
            if self._on_progress is not None:
                self._on_progress(Progress("labels", step, len(varied)))
        if self._wants_calibration:
            self.calibration_ = self._held_out_calibration(X, Y, check_random_state(self.random_state))

    @single_threaded_blas
    def _score_rows(self, X: Any) -> NDArray[np.float32]:
        return np.asarray(expit(self._scaled(X) @ self.coef_ + self.intercept_), dtype=np.float32)
