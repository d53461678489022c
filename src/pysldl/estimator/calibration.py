"""From scores to probabilities and to a yes or no, learned on the scores of held-out rows."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.light_estimator import LightEstimator
from pysldl.backend.topk import top_k
from pysldl.estimator.prediction_sets import PredictionSets
from pysldl.metrics.ranking import hits_of
from pysldl.metrics.reliability import reliability_report

LABELS_PER_ROW = 50
EQUAL = 1e-12


class ScoreCalibration(LightEstimator):
    """One monotone curve from score to probability, and the threshold with the best micro-F1.

    Attributes
    ----------
    scores_, probabilities_ : ndarray of shape (n_knots,)
        The isotonic curve, linear between its knots.
    threshold_ : float
        Labels that score at least this are predicted.
    held_out_f1_ : float
        Micro-F1 on the held-out rows, those of each half at the threshold that is best on the other half.
    held_out_ : dict
        How good the model was on the held-out rows, see :func:`~pysldl.metrics.reliability.reliability_report`.
    sets_ : PredictionSets
        Thresholds for sets of labels with a wanted recall or precision.

    Examples
    --------
    >>> Y = sparse.csr_array([[1, 0], [1, 0], [0, 1], [0, 1]])
    >>> scores = np.array([[0.9, 0.3], [0.8, 0.2], [0.1, 0.7], [0.4, 0.6]])
    >>> calibration = ScoreCalibration().fit(scores, Y)
    >>> calibration.threshold_
    0.5
    >>> calibration.probability(np.array([0.1, 0.9])).round(1)
    array([0.1, 0.9])
    """

    _saved_state = ("scores_", "probabilities_", "threshold_", "held_out_f1_", "held_out_", "sets_")

    def fit(self, scores: Any, Y: sparse.csr_array) -> Self:
        """Learn from held-out rows.

        Parameters
        ----------
        scores : ndarray or csr_array of shape (n_rows, n_labels)
            Of a model that did not see the rows.
        Y : csr_array of shape (n_rows, n_labels)
            Their labels.
        """
        labels, best = top_k(scores, min(LABELS_PER_ROW, Y.shape[1]))
        floor = 0.0 if sparse.issparse(scores) else float(best[labels >= 0].min(initial=0.0))
        self._fit_ranked(labels, best, Y, floor)
        self.sets_ = PredictionSets().fit(scores, Y)
        self.held_out_f1_ = _cross_fitted_f1(labels, best, Y)
        self.held_out_ = reliability_report(
            labels,
            best,
            Y,
            lambda some, scored, true: ScoreCalibration()._fit_ranked(some, scored, true, floor).probability,
        )
        return self

    def _fit_ranked(self, labels: NDArray[Any], best: NDArray[Any], Y: sparse.csr_array, floor: float) -> Self:
        """Learn from the best labels of every row and their scores; all others score at most ``floor``."""
        from sklearn.isotonic import IsotonicRegression  # not above: a model that only predicts would wait for it

        rows, slots = np.nonzero(labels >= 0)
        score = best[rows, slots].astype(np.float64)
        hit = np.asarray(Y[rows, labels[rows, slots]], dtype=np.float64).ravel()
        # All labels below a row's best are one point: the share of them that applied after all.
        n_rest = max(Y.shape[0] * Y.shape[1] - score.size, 1)
        curve = IsotonicRegression(y_min=0.0, y_max=1.0).fit(
            np.append(score, floor),
            np.append(hit, (Y.nnz - hit.sum()) / n_rest),
            sample_weight=np.append(np.ones_like(score), n_rest),
        )
        self.scores_ = curve.X_thresholds_
        # A run of hits does not make the next one certain, nor a run of misses.
        doubt = 1.0 / (score.size + 2.0)
        self.probabilities_ = np.clip(curve.y_thresholds_, doubt, 1.0 - doubt)
        self.threshold_ = _best_threshold(score, hit, n_relevant=Y.nnz)
        return self

    def probability(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probabilities of an array of scores; -inf, the score of an empty slot, has probability 0."""
        return np.where(np.isneginf(scores), 0.0, np.interp(scores, self.scores_, self.probabilities_))


def _best_threshold(score: NDArray[np.float64], hit: NDArray[np.float64], n_relevant: int) -> float:
    """Threshold with the best micro-F1; halfway to the next lower score."""
    order = np.argsort(-score)
    score, hits = score[order], np.cumsum(hit[order])
    f1 = 2.0 * hits / (np.arange(1, len(hits) + 1) + max(n_relevant, 1))
    last_of_ties = np.append(score[1:] < score[:-1], True)
    f1 = np.where(last_of_ties, f1, -1.0)
    best = int(np.argmax(f1 >= f1.max() - EQUAL))  # the first, the highest threshold, of those that differ by rounding
    below = score[best + 1] if best + 1 < len(score) else score[best]
    return float((score[best] + below) / 2.0)


def _cross_fitted_f1(labels: NDArray[Any], best: NDArray[Any], Y: sparse.csr_array) -> float:
    """Micro-F1 of rows at thresholds that were chosen without them: for each half, on the other one."""
    hits = hits_of(labels, Y)
    n_predicted, n_hits = 0, 0
    halves = np.arange(len(labels)) % 2
    for half in (0, 1):
        judged, others = halves == half, np.flatnonzero(halves != half)
        there = labels[others] >= 0
        if not there.any():
            continue
        scores, known = best[others][there].astype(np.float64), hits[others][there].astype(np.float64)
        predicted = best[judged] >= _best_threshold(scores, known, n_relevant=Y[others].nnz)
        n_predicted += int(predicted.sum())
        n_hits += int((predicted & hits[judged]).sum())
    return 2.0 * n_hits / max(n_predicted + int(Y.nnz), 1)
