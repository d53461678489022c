"""Simple methods that keep every table honest: what does a new method add to these?"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.preprocessing import normalize as normalize_rows
from sklearn.utils import check_random_state

from pysldl._utils.memory import require_memory
from pysldl._utils.progress import Progress, ProgressCallback
from pysldl.backend.threads import single_threaded_blas
from pysldl.baselines.adaboost_c2.logistic import fit_logistic
from pysldl.baselines.held_out_calibration import CALIBRATION_ROWS, held_out_calibration
from pysldl.decoding import NeighborDecoder
from pysldl.estimator.base import BaseLabelClassifier
from pysldl.estimator.calibration import ScoreCalibration
from pysldl.exceptions import DataError
from pysldl.mapping import RidgeMapping

__all__ = ["FeatureNeighbors", "LabelPrior", "OneVsRestLogistic", "RidgeReadout"]


class LabelPrior(BaseLabelClassifier):
    """The share of training rows that carry each label, whatever the features say.

    Calibrated on the training rows themselves, which one row more or less hardly changes.

    Attributes
    ----------
    prior_ : ndarray of shape (n_labels,), float32
    """

    _saved_state = (*BaseLabelClassifier._saved_state, "prior_")

    def __init__(self, *, vectorizer: Any = None, memory_limit: int | str | None = None) -> None:
        self.vectorizer = vectorizer
        self.memory_limit = memory_limit

    def _fit_rows(self, X: Any, Y: sparse.csr_array) -> None:
        self.prior_ = (self.label_counts_ / Y.shape[0]).astype(np.float32)
        if self.target_kind_ != "classes":
            rows = slice(CALIBRATION_ROWS)
            self.calibration_ = ScoreCalibration().fit(self._score_rows(X[rows]), Y[rows])

    def _score_rows(self, X: Any) -> NDArray[np.float32]:
        return np.tile(self.prior_, (X.shape[0], 1))


class FeatureNeighbors(BaseLabelClassifier):
    """Votes of the nearest training rows by cosine of the raw features: SLDL without any latent space.

    Sparse features are made dense, since the search is; past the memory limit that is refused.

    Parameters
    ----------
    n_neighbors : int
    calibrate : bool
        Learn the threshold of ``predict`` and the probabilities from the scores that up to 5,000 training rows get
        when they are left out.
    vectorizer, memory_limit, random_state
        As for :class:`~pysldl.SLDLClassifier`; the seed draws the rows that calibrate.

    Attributes
    ----------
    decoder_ : NeighborDecoder
    """

    _saved_state = (*BaseLabelClassifier._saved_state, "decoder_")

    def __init__(
        self,
        n_neighbors: int = 30,
        *,
        calibrate: bool = True,
        vectorizer: Any = None,
        memory_limit: int | str | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.calibrate = calibrate
        self.vectorizer = vectorizer
        self.memory_limit = memory_limit
        self.random_state = random_state

    @single_threaded_blas
    def _fit_rows(self, X: Any, Y: sparse.csr_array) -> None:
        require_memory(
            2 * 4 * X.shape[0] * X.shape[1],
            f"A dense copy of {X.shape[0]} rows with {X.shape[1]} features",
            "Use SLDLClassifier, which searches among short codes.",
            self.memory_limit,
        )
        rows = _dense_rows(X)
        self.decoder_ = NeighborDecoder(self.n_neighbors).fit(rows, Y)
        if self.calibrate and self.target_kind_ != "classes":
            held = check_random_state(self.random_state).permutation(len(rows))[:CALIBRATION_ROWS]
            self.calibration_ = ScoreCalibration().fit(self.decoder_.loo_scores(rows[held], held, rows, Y), Y[held])

    @single_threaded_blas
    def _score_rows(self, X: Any) -> sparse.csr_array:
        return self.decoder_.scores(_dense_rows(X))


class RidgeReadout(BaseLabelClassifier):
    """Ridge regression from features straight to labels, all labels at once. Rows of X are scaled to length 1.

    Parameters
    ----------
    alpha : float
        Weight of the penalty.
    calibrate : bool
        Learn the threshold of ``predict`` and the probabilities from the scores that up to 5,000 training rows get
        when they are left out, which ridge regression gives in closed form.
    vectorizer, memory_limit, progress, random_state
        As for :class:`~pysldl.SLDLClassifier`.

    Attributes
    ----------
    mapping_ : RidgeMapping
    """

    _saved_state = (*BaseLabelClassifier._saved_state, "mapping_")

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        calibrate: bool = True,
        vectorizer: Any = None,
        memory_limit: int | str | None = None,
        progress: ProgressCallback | bool | None = None,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.calibrate = calibrate
        self.vectorizer = vectorizer
        self.memory_limit = memory_limit
        self.progress = progress
        self.random_state = random_state

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
        held = None
        if self.calibrate and self.target_kind_ != "classes":
            held = rng.permutation(X.shape[0])[:CALIBRATION_ROWS]
        self.mapping_.fit(normalize_rows(X), Y, leverage_of=held, progress=self._on_progress)
        if held is not None:
            left_out = self.mapping_.leave_one_out(self._score_rows(X[held]), Y[held])
            self.calibration_ = ScoreCalibration().fit(left_out, Y[held])

    @single_threaded_blas
    def _score_rows(self, X: Any) -> NDArray[np.float32]:
        return self.mapping_.predict(normalize_rows(X)).astype(np.float32, copy=False)


class OneVsRestLogistic(BaseLabelClassifier):
    """One logistic regression a label; the score is its probability. Rows of X are scaled to length 1.

    Parameters
    ----------
    C : float
        Weight of the loss against the L2 penalty.
    calibrate : bool
        Learn the threshold of ``predict`` and the probabilities on held-out rows; fitting takes twice as long.
    vectorizer, memory_limit, progress, random_state
        As for :class:`~pysldl.SLDLClassifier`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features, n_labels), float32
    intercept_ : ndarray of shape (n_labels,), float32
        Infinite for a label that all training rows carry, or none.
    """

    _saved_state = (*BaseLabelClassifier._saved_state, "coef_", "intercept_")

    def __init__(
        self,
        C: float = 1.0,
        *,
        calibrate: bool = True,
        vectorizer: Any = None,
        memory_limit: int | str | None = None,
        progress: ProgressCallback | bool | None = None,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.calibrate = calibrate
        self.vectorizer = vectorizer
        self.memory_limit = memory_limit
        self.progress = progress
        self.random_state = random_state

    @single_threaded_blas
    def _fit_rows(self, X: Any, Y: sparse.csr_array) -> None:
        if not self.C > 0:
            raise DataError(f"C must be positive, but is {self.C!r}.")
        n_samples, n_labels = Y.shape
        require_memory(
            4 * X.shape[1] * n_labels,
            f"A linear classifier for each of {n_labels} labels over {X.shape[1]} features",
            "Use SLDLClassifier, of which nothing that is trained grows with the number of labels.",
            self.memory_limit,
        )
        features = normalize_rows(X)
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
        if self.calibrate and self.target_kind_ != "classes":
            self.calibration_ = held_out_calibration(self, X, Y, check_random_state(self.random_state))

    @single_threaded_blas
    def _score_rows(self, X: Any) -> NDArray[np.float32]:
        return expit(normalize_rows(X) @ self.coef_ + self.intercept_).astype(np.float32, copy=False)


def _dense_rows(X: Any) -> NDArray[np.float32]:
    dense = X.toarray() if sparse.issparse(X) else X
    return np.asarray(dense, dtype=np.float32)
