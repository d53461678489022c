"""Learned on held-out rows: probabilities, a threshold, and sets of labels with a wanted recall or precision."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.light_estimator import LightEstimator
from pysldl.backend.topk import top_k
from pysldl.exceptions import DataError
from pysldl.inspection.display import html_table, text_table
from pysldl.metrics.ranking import hits_of
from pysldl.metrics.reliability import by_frequency, reliability_report

LABELS_PER_ROW = 50
EQUAL = 1e-12

SCORES_PER_ROW = 1000
KNOTS = 1024
ROWS_AT_ONCE = 512
PRECISION_CONFIDENCE = 0.9
# Columns of the moments: means over rows, and what is needed for the deviations of recall and of wrong labels.
RECALL, RECALL_SQUARED, SIZE, WRONG, SIZE_SQUARED, WRONG_SQUARED, SIZE_WRONG = range(7)


class _RankedRows(NamedTuple):
    """The best labels of held-out rows with their scores, (n_rows, k), whether they are true, and how many are."""

    labels: NDArray[Any]
    scores: NDArray[Any]
    hits: NDArray[np.bool_]
    n_true: NDArray[np.integer]

    def of(self, rows: NDArray[Any]) -> "_RankedRows":
        """Some of the rows."""
        return _RankedRows(*(column[rows] for column in self))

    def pairs(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores of all labels listed, and 1 where the label is true."""
        there = self.labels >= 0
        return self.scores[there].astype(np.float64), self.hits[there].astype(np.float64)


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
        """Learn from the scores of rows that the model did not see, and their labels, both (n_rows, n_labels)."""
        width = min(LABELS_PER_ROW, Y.shape[1])
        labels, best = top_k(scores, max(width, _scores_per_row(scores)))  # the first of them are the best ``width``
        hits = hits_of(labels, Y)
        self.sets_ = PredictionSets().fit_ranked(labels, best, hits, Y)
        labels, best = labels[:, :width], best[:, :width]
        floor = 0.0 if sparse.issparse(scores) else float(best[labels >= 0].min(initial=0.0))
        ranked = _RankedRows(labels, best, hits[:, :width], np.diff(Y.indptr))
        self._fit_ranked(ranked, Y.shape[1], floor)
        self.held_out_f1_ = _cross_fitted_f1(ranked)
        self.held_out_ = reliability_report(labels, Y, _cross_fitted_probabilities(ranked, Y.shape[1], floor))
        return self

    def _fit_ranked(self, ranked: _RankedRows, n_labels: int, floor: float) -> Self:
        """Learn from the best labels of every row and their scores; all others score at most ``floor``."""
        from sklearn.isotonic import IsotonicRegression  # not above: a model that only predicts would wait for it

        score, hit = ranked.pairs()
        n_relevant = int(ranked.n_true.sum())
        # All labels below a row's best are one point: the share of them that applied after all.
        n_rest = max(len(ranked.labels) * n_labels - score.size, 1)
        curve = IsotonicRegression(y_min=0.0, y_max=1.0).fit(
            np.append(score, floor),
            np.append(hit, (n_relevant - hit.sum()) / n_rest),
            sample_weight=np.append(np.ones_like(score), n_rest),
        )
        self.scores_ = curve.X_thresholds_
        # A run of hits does not make the next one certain, nor a run of misses.
        doubt = 1.0 / (score.size + 2.0)
        self.probabilities_ = np.clip(curve.y_thresholds_, doubt, 1.0 - doubt)
        self.threshold_ = _best_threshold(score, hit, n_relevant)
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


def _cross_fitted_f1(ranked: _RankedRows) -> float:
    """Micro-F1 of rows at thresholds that were chosen without them: for each half, on the other one."""
    n_predicted, n_hits = 0, 0
    halves = np.arange(len(ranked.labels)) % 2
    for half in (0, 1):
        judged, others = ranked.of(halves == half), ranked.of(halves != half)
        score, hit = others.pairs()
        if len(score) == 0:
            continue
        predicted = judged.scores >= _best_threshold(score, hit, int(others.n_true.sum()))
        n_predicted += int(predicted.sum())
        n_hits += int((predicted & judged.hits).sum())
    return 2.0 * n_hits / max(n_predicted + int(ranked.n_true.sum()), 1)


def _cross_fitted_probabilities(ranked: _RankedRows, n_labels: int, floor: float) -> NDArray[np.float64]:
    """Probabilities of rows by a curve that was learned without them: for each half, on the other one."""
    probabilities = np.zeros(ranked.scores.shape)
    halves = np.arange(len(ranked.labels)) % 2
    for half in (0, 1):
        judged, others = halves == half, ranked.of(halves != half)
        if judged.any() and (others.labels >= 0).any():
            curve = ScoreCalibration()._fit_ranked(others, n_labels, floor)
            probabilities[judged] = curve.probability(ranked.scores[judged])
    return probabilities


@dataclass(frozen=True, repr=False)
class SetCoverage:
    """What sets of labels hold on held-out rows, overall and by the number of training rows of a label.

    Attributes
    ----------
    threshold : float
        Labels that score at least this are in the set.
    recall : float
        Mean over rows with labels of the share of their labels that are in the set.
    precision : float
        Share of the labels in all sets that are right.
    mean_size : float
        Labels in a set.
    n_rows : int
        Held-out rows.
    groups : list of dict
        ``from`` and ``to``, numbers of training rows; ``n_labels`` with so many, ``n_true``, the held-out rows' labels
        among them, and ``recall``, the share of those that are in the sets.
    """

    threshold: float
    recall: float
    precision: float
    mean_size: float
    n_rows: int
    groups: list[dict[str, Any]]

    def __str__(self) -> str:
        return f"{self._summary()}\n{text_table(*self._table())}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._summary()}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return html_table(self._summary(), *self._table())

    def _summary(self) -> str:
        return (
            f"recall {self.recall:.3f}, precision {self.precision:.3f}, {self.mean_size:.1f} labels a row "
            f"on {self.n_rows} held-out rows"
        )

    def _table(self) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        rows = []
        for group in self.groups:
            last = "" if group["to"] is None else str(group["to"])
            span = last if group["from"] == group["to"] else f"{group['from']}-{last}" if last else f"{group['from']}+"
            recall = "" if group["recall"] is None else f"{group['recall']:.3f}"
            rows.append((span, group["n_labels"], group["n_true"], recall))
        return ("training rows", "labels", "true on held-out rows", "recall"), rows


class PredictionSets(LightEstimator):
    """Thresholds for sets of labels, from the scores of held-out rows.

    For a wanted recall the threshold is the highest for which conformal risk control [1]_ bounds the mean recall: over
    draws of held-out and new rows from the same source, the expected recall of a new row is at least the wanted one.
    With a ``confidence`` the bound is one of risk control instead: a one-sided normal bound on the mean recall of the
    held-out rows. For a wanted precision, which does not grow steadily with the threshold, the threshold is the lowest
    with such a normal bound on the share of wrong labels in all sets.

    Attributes
    ----------
    thresholds_ : ndarray of shape (n_knots,)
        Descending scores.
    moments_ : ndarray of shape (n_knots, 7)
        At each threshold the means of recall, squared recall, size, wrong labels, their squares and their product.
    n_rows_, n_labeled_ : int
        Held-out rows, and those with labels.
    true_labels_, true_scores_ : ndarrays of shape (n_true,)
        The labels of all held-out rows and their scores, -inf where a label was not among the best.

    References
    ----------
    .. [1] A. N. Angelopoulos, S. Bates, A. Fisch, L. Lei, T. Schuster, "Conformal Risk Control", ICLR 2024.

    Examples
    --------
    >>> Y = sparse.csr_array([[1, 0], [1, 0], [0, 1], [0, 1]] * 5)
    >>> scores = np.array([[0.9, 0.3], [0.8, 0.2], [0.1, 0.7], [0.4, 0.6]] * 5)
    >>> round(float(PredictionSets().fit(scores, Y).threshold(recall=0.9)), 1)
    0.6
    """

    _saved_state = ("thresholds_", "moments_", "n_rows_", "n_labeled_", "true_labels_", "true_scores_")

    def fit(self, scores: Any, Y: sparse.csr_array) -> Self:
        """Learn from the scores of rows that the model did not see, and their labels, both (n_rows, n_labels)."""
        labels, best = top_k(scores, _scores_per_row(scores))
        return self.fit_ranked(labels, best, hits_of(labels, Y), Y)

    def fit_ranked(
        self, labels: NDArray[np.integer], best: NDArray[Any], hits: NDArray[np.bool_], Y: sparse.csr_array
    ) -> Self:
        """:meth:`fit` to the best labels of every row, their scores, and whether they are true, (n_rows, k)."""
        if best[labels >= 0].min(initial=1.0) == 0.0:  # votes: a label that scores 0 has none
            labels, hits = np.where(best > 0, labels, -1), hits & (best > 0)
        there = labels >= 0
        pooled = np.sort(best[there])[::-1].astype(np.float64)
        places = np.unique(np.round(np.geomspace(1, max(len(pooled), 1), KNOTS)).astype(np.intp)) - 1
        self.thresholds_ = np.unique(pooled[places])[::-1] if len(pooled) else np.empty(0)
        n_true = np.diff(Y.indptr)
        self.n_rows_, self.n_labeled_ = int(Y.shape[0]), int((n_true > 0).sum())
        self.moments_ = self._moments(best.astype(np.float64), hits, there, n_true)
        row_of_entry = np.repeat(np.arange(Y.shape[0], dtype=np.int64), n_true)
        rows, slots = np.nonzero(hits)
        entries = row_of_entry * Y.shape[1] + Y.indices  # ascending
        self.true_labels_ = Y.indices.astype(np.int32)
        self.true_scores_ = np.full(len(entries), -np.inf, dtype=np.float32)
        self.true_scores_[np.searchsorted(entries, rows * Y.shape[1] + labels[rows, slots])] = best[rows, slots]
        return self

    def threshold(
        self, *, recall: float | None = None, precision: float | None = None, confidence: float | None = None
    ) -> float:
        """Return the score from which labels belong to a set; an error where that cannot be reached.

        One of ``recall`` and ``precision`` is given, between 0 and 1. ``confidence`` is that of the normal bound; by
        default, conformal risk control bounds recall, and 0.9 is taken for precision.
        """
        if (recall is None) == (precision is None):
            raise DataError("Give recall= or precision=, one of them: what the sets of labels should hold.")
        for name, value in (("recall", recall), ("precision", precision), ("confidence", confidence)):
            if value is not None and not 0 < value < 1:
                raise DataError(f"{name} must lie between 0 and 1, but is {value}.")
        if not self.n_labeled_:
            raise DataError("No held-out row had a label: sets of labels need more training rows.")
        if recall is not None:
            reached = self._recall_bounds(confidence)
            meets = np.flatnonzero(reached >= recall)[:1]
        else:
            reached = self._precision_bounds(PRECISION_CONFIDENCE if confidence is None else confidence)
            meets = np.flatnonzero(reached >= (precision or 0.0))[-1:]
        if meets.size:
            return float(self.thresholds_[meets[0]])
        wanted = f"recall={recall}" if recall is not None else f"precision={precision}"
        most = math.floor(1000 * max(float(reached.max(initial=0.0)), 0.0)) / 1000
        raise DataError(f"{wanted} is out of reach: the scores of {self.n_rows_} held-out rows allow at most {most:g}.")

    def coverage(self, threshold: float, counts: NDArray[np.integer]) -> SetCoverage:
        """Return what the sets at a threshold hold on held-out rows; ``counts`` are training rows of every label."""
        means = self.moments_[np.flatnonzero(self.thresholds_ >= threshold)[-1]]
        found = self.true_labels_[self.true_scores_ >= threshold]
        n_true, n_found = (np.bincount(labels, minlength=len(counts)) for labels in (self.true_labels_, found))
        return SetCoverage(
            threshold=threshold,
            recall=float(means[RECALL]),
            precision=float(1 - means[WRONG] / means[SIZE]),
            mean_size=float(means[SIZE]),
            n_rows=self.n_rows_,
            groups=by_frequency(n_true, n_found, counts),
        )

    def _moments(
        self, best: NDArray[np.float64], hits: NDArray[np.bool_], there: NDArray[np.bool_], n_true: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Means over rows at every threshold, in blocks of rows; see ``moments_``."""
        n_knots = len(self.thresholds_)
        first = np.searchsorted(-self.thresholds_, -best)  # the first threshold that a label reaches
        counted = there & (first < n_knots)
        total = np.zeros((n_knots, 7))
        places, wrong = first[counted], ~hits & there
        size, is_wrong = np.cumsum(counted, axis=1, dtype=np.int32)[counted], wrong[counted]
        before: NDArray[Any] = np.cumsum(wrong, axis=1, dtype=np.int32)[counted] - is_wrong

        def add_up(column: int, raised: NDArray[Any] | None) -> None:
            # By what every further label of a row, the best first, raises a number: whole ones, exact in any order.
            total[:, column] = np.cumsum(np.bincount(places, raised, minlength=n_knots))

        add_up(SIZE, None)
        add_up(WRONG, is_wrong)
        add_up(SIZE_SQUARED, 2 * size - 1)
        add_up(WRONG_SQUARED, is_wrong * (2 * before + 1))
        add_up(SIZE_WRONG, before + is_wrong * size)
        for start in range(0, len(best), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            labeled = n_true[rows] > 0
            recall = _counts_from(first[rows], hits[rows], n_knots)[labeled] / n_true[rows][labeled, None]
            total[:, RECALL] += recall.sum(axis=0)
            total[:, RECALL_SQUARED] += (recall**2).sum(axis=0)
        n_rows = np.full(7, max(self.n_rows_, 1))
        n_rows[[RECALL, RECALL_SQUARED]] = max(self.n_labeled_, 1)
        return np.asarray(total / n_rows)

    def _recall_bounds(self, confidence: float | None) -> NDArray[np.float64]:
        """Lower bound of the recall at each threshold."""
        mean, n = self.moments_[:, RECALL], self.n_labeled_
        if confidence is None:  # n recall >= (n + 1) target: one further row may be missed altogether
            return np.asarray(mean * n / (n + 1))
        deviation = np.sqrt(np.maximum(self.moments_[:, RECALL_SQUARED] - mean**2, 0.0) / n)
        return np.asarray(mean - _normal_quantile(confidence) * deviation)

    def _precision_bounds(self, confidence: float) -> NDArray[np.float64]:
        """Lower bound of the precision (share of right labels) at each threshold, by the delta method.

        One more wrong label is counted than there was, so that a single hit does not count as certainty.
        """
        size, n = self.moments_[:, SIZE], self.n_rows_
        share = np.minimum((self.moments_[:, WRONG] + 1 / n) / size, 1.0)
        variance = (
            self.moments_[:, WRONG_SQUARED]
            - 2 * share * self.moments_[:, SIZE_WRONG]
            + share**2 * self.moments_[:, SIZE_SQUARED]
        )
        deviation = np.sqrt(np.maximum(variance, 0.0) / n) / size
        return np.asarray(1 - share - _normal_quantile(confidence) * deviation)


def _scores_per_row(scores: Any) -> int:
    """How many scores of a row are looked at, at least 1."""
    most = int(np.diff(scores.indptr).max(initial=1)) if sparse.issparse(scores) else int(scores.shape[1])
    return min(SCORES_PER_ROW, most)


def _counts_from(first: NDArray[np.intp], counted: NDArray[np.bool_], n_knots: int) -> NDArray[np.float64]:
    """Numbers of labels of every row at or above each threshold, (n_rows, n_knots)."""
    rows = np.nonzero(counted)[0]
    places = rows * n_knots + first[counted]
    histogram = np.bincount(places[first[counted] < n_knots], minlength=len(first) * n_knots)
    return np.cumsum(histogram.reshape(len(first), n_knots), axis=1).astype(np.float64)


def _normal_quantile(share: float) -> float:
    from statistics import NormalDist  # not above: a service that predicts no sets would wait for it

    return NormalDist().inv_cdf(share)
