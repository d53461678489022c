"""A linear ranker for the candidates that a decoder proposes."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.light_estimator import LightEstimator
from pysldl.backend.candidate_scores import score_candidates
from pysldl.backend.dispatch import has_numba, warn_no_numba
from pysldl.backend.label_problems import LabelProblems, drop_duplicates, label_problems
from pysldl.backend.squared_hinge import PLAIN_BYTES, PLAIN_ROWS, fit_squared_hinge
from pysldl.decoding.voting import argbest, quality
from pysldl.exceptions import DataError
from pysldl.metrics import inverse_propensity
from pysldl.ranking.centroids import LabelCentroids

__all__ = ["LinearRanker"]

VOTE_POWERS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 1.0, 2.0, 4.0)
FAINTEST_VOTE = 1e-3
FREQUENT_TRIED, MOST_FREQUENT = (5, 10, 20), 40
RECALL_SPARED = 0.005
TYPICAL_TRIED, WORTH_TRYING = 25, 0.02
REFIT_BELOW = 20_000


class LinearRanker(LightEstimator):
    """One linear classifier a label, trained to tell the rows that have it from the rows that were offered it.

    The negatives of a label are the rows that have it among their candidates and not among their labels, so the cost
    follows rows x candidates x nonzeros and not the number of labels. A candidate's final score is
    ``sigmoid(2 s) * vote ** power``: ``s`` its linear score, ``vote`` its share of the votes against the row's best,
    and the power chosen on training rows held out from the classifiers.

    Parameters
    ----------
    n_candidates : int
        Labels of a row that the decoder proposes.
    n_frequent : int or None
        Labels with the most training rows that every row gets as candidates beside them: rows with few words have
        few neighbors, and a few labels may be on most rows. None: as few as find half a point of recall less than
        forty do, on rows held out.
    n_centroid_candidates : int or None
        Labels that a row gets as candidates because it is like the mean of their rows, see
        :class:`~pysldl.ranking.centroids.LabelCentroids`. None: 25 where they find two points of recall more, else
        none.
    C : float
        Weight of the errors against the size of the weights.
    propensity : tuple of two floats, optional
        Constants (A, B) of the labels' propensities, see :func:`~pysldl.metrics.inverse_propensity`; (0.55, 1.5) is
        customary. An error on a row that has a label then counts by the label's inverse propensity, and the power is
        chosen by propensity-scored metrics: rare labels are favored.
    max_epochs, tol, min_weight
        See :func:`~pysldl.backend.squared_hinge.fit_squared_hinge`.
    held_out : int
        Rows that choose the power and the calibration, at most a tenth. With fewer than 20,000 training rows the
        classifiers are then fitted again on all of them.

    Attributes
    ----------
    W_ : csr_array of shape (n_labels, n_features), float32
    bias_ : ndarray of shape (n_labels,)
    frequent_ : ndarray of shape (n_frequent,), int32
    centroids_ : LabelCentroids or None
    n_centroid_candidates_ : int
    vote_power_ : float
    candidate_recall_ : float
        Part of the held-out rows' labels that are among their candidates: no ranker can find more.
    """

    _saved_state = (
        "W_",
        "bias_",
        "frequent_",
        "centroids_",
        "n_centroid_candidates_",
        "vote_power_",
        "candidate_recall_",
    )
    centroids_: LabelCentroids | None = None  # as in a model that an earlier version saved
    n_centroid_candidates_ = 0

    def __init__(
        self,
        n_candidates: int = 50,
        *,
        n_frequent: int | None = None,
        n_centroid_candidates: int | None = None,
        C: float = 1.0,
        propensity: tuple[float, float] | None = None,
        max_epochs: int = 100,
        tol: float = 0.1,
        min_weight: float = 0.1,
        held_out: int = 1000,
    ) -> None:
        self.n_candidates = n_candidates
        self.n_frequent = n_frequent
        self.n_centroid_candidates = n_centroid_candidates
        self.C = C
        self.propensity = propensity
        self.max_epochs = max_epochs
        self.tol = tol
        self.min_weight = min_weight
        self.held_out = held_out

    def check_parameters(self) -> None:
        """An error where a parameter has a value that cannot be used."""
        if not self.n_candidates >= 1:
            raise DataError(f"n_candidates must be at least 1, but is {self.n_candidates!r}.")
        if self.n_centroid_candidates is not None and not self.n_centroid_candidates >= 0:
            raise DataError(f"n_centroid_candidates must be 0 or more, or None, but is {self.n_centroid_candidates!r}.")
        if self.propensity is not None and np.shape(self.propensity) != (2,):
            raise DataError(f"propensity must be two numbers, such as (0.55, 1.5), but is {self.propensity!r}.")

    def fit(
        self,
        X: sparse.csr_array,
        Y: sparse.csr_array,
        labels: NDArray[np.int32],
        votes: NDArray[np.float32],
        rng: np.random.RandomState,
    ) -> Self:
        """Train on the left-out candidates of the training rows.

        Parameters
        ----------
        X : csr_array of shape (n_samples, n_features), float32
        Y : csr_array of shape (n_samples, n_labels)
        labels, votes : ndarrays of shape (n_samples, n_candidates)
            Candidates of every row from its neighbors, itself left out.
        rng : RandomState
            Draws the held-out rows, which are kept as ``held_rows_``.
        """
        self.check_parameters()
        warn_no_numba()
        held = rng.permutation(X.shape[0])[: max(1, min(self.held_out, X.shape[0] // 10))]
        self.frequent_ = self._frequent(Y, labels[held], Y[held])
        self._fit_means(X, Y, labels, held)
        self.held_rows_ = held
        self.held_labels_, held_votes = self.expand_candidates(X[held], labels[held], votes[held])
        if self.centroids_ is not None:
            labels = np.hstack([labels, self.centroids_.candidates(X, self.n_centroid_candidates_)])
        self._fit_classifiers(X, Y, label_problems(labels, Y, everywhere=self.frequent_, left_out=held))
        self.vote_power_ = self._best_power(X[held], Y[held], self.held_labels_, held_votes, self.cost_of_labels(Y))
        self.held_scores_ = self.scores(X[held], self.held_labels_, held_votes)
        self.candidate_recall_ = _recall(self.held_labels_, Y[held])
        if X.shape[0] < REFIT_BELOW:
            self._fit_classifiers(X, Y, label_problems(labels, Y, everywhere=self.frequent_))
        return self

    def _frequent(
        self, Y: sparse.csr_array, held_labels: NDArray[np.int32], held_Y: sparse.csr_array
    ) -> NDArray[np.int32]:
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        n_tried = MOST_FREQUENT if self.n_frequent is None else self.n_frequent
        most = np.argsort(-counts, kind="stable")[:n_tried]
        by_count = most[counts[most] > 0].astype(np.int32)
        if self.n_frequent is not None:
            return by_count

        def recall_with(n: int) -> float:
            return _recall(
                drop_duplicates(np.hstack([held_labels, np.tile(by_count[:n], (len(held_labels), 1))])), held_Y
            )

        tries = [n for n in FREQUENT_TRIED if n < len(by_count)]
        enough = recall_with(len(by_count)) - RECALL_SPARED
        return by_count[: next((n for n in tries if recall_with(n) >= enough), len(by_count))]

    def _fit_means(
        self, X: sparse.csr_array, Y: sparse.csr_array, labels: NDArray[np.int32], held: NDArray[np.intp]
    ) -> None:
        """The means of the labels, the rows ``held`` left out, if they are asked for or find what nothing else does."""
        n_centroid_candidates = TYPICAL_TRIED if self.n_centroid_candidates is None else self.n_centroid_candidates
        self.centroids_, self.n_centroid_candidates_ = None, 0
        if n_centroid_candidates == 0:
            return
        means = LabelCentroids().fit(X, _without_labels(Y, held))
        if self.n_centroid_candidates is None:
            before = drop_duplicates(np.hstack([labels[held], self._everywhere(len(held))]))
            after = drop_duplicates(np.hstack([before, means.candidates(X[held], n_centroid_candidates)]))
            if _recall(after, Y[held]) < _recall(before, Y[held]) + WORTH_TRYING:
                return
        self.centroids_, self.n_centroid_candidates_ = means, n_centroid_candidates

    def _everywhere(self, n_rows: int) -> NDArray[np.int32]:
        return np.tile(self.frequent_, (n_rows, 1))

    def expand_candidates(
        self, X: sparse.csr_array, labels: NDArray[np.int32], votes: NDArray[np.float32]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Candidates with the typical and the most frequent labels added, each once; an added one has no vote."""
        typical = [] if self.centroids_ is None else [self.centroids_.candidates(X, self.n_centroid_candidates_)]
        extended = drop_duplicates(np.hstack([labels, *typical, self._everywhere(len(labels))]))
        return extended, np.pad(votes, ((0, 0), (0, extended.shape[1] - votes.shape[1])))

    def scores(self, X: sparse.csr_array, labels: NDArray[np.int32], votes: NDArray[np.float32]) -> NDArray[np.float32]:
        """Final scores of candidates, in [0, 1], shape of ``labels``; -inf beside a label of -1."""
        return _mixed(score_candidates(X, labels, self.W_, self.bias_), votes, self.vote_power_)

    def rank(
        self, X: sparse.csr_array, labels: NDArray[np.int32], votes: NDArray[np.float32]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The candidates of a decoder, those that are added to them, and the final scores of all."""
        labels, votes = self.expand_candidates(X, labels, votes)
        return labels, self.scores(X, labels, votes)

    def terms(self, label: int, features: NDArray[np.integer]) -> tuple[NDArray[np.float32], float]:
        """Weights of one label at some features, and its bias."""
        return self.W_[[label]][:, features].toarray().ravel(), float(self.bias_[label])

    def forget_held_rows(self) -> None:
        """Drop what only calibration needs."""
        del self.held_rows_, self.held_labels_, self.held_scores_

    def memory(self, n_samples: int, n_features: int) -> int:
        """Bytes at the peak: candidates and votes, the rows of every label, and the dense vectors of every thread.

        Without numba there are no threads, but the weights and rows of many labels at once.
        """
        width = self.n_candidates
        width += MOST_FREQUENT if self.n_frequent is None else self.n_frequent
        width += TYPICAL_TRIED if self.n_centroid_candidates is None else self.n_centroid_candidates
        work_space = 16 * 9 * n_features if has_numba() else PLAIN_BYTES + 64 * PLAIN_ROWS
        return 20 * n_samples * width + work_space

    def _fit_classifiers(self, X: sparse.csr_array, Y: sparse.csr_array, problems: LabelProblems) -> None:
        self.W_, self.bias_ = fit_squared_hinge(
            X,
            problems,
            C=self.C,
            positive_weight=self.cost_of_labels(Y),
            max_epochs=self.max_epochs,
            tol=self.tol,
            min_weight=self.min_weight,
        )

    def cost_of_labels(self, Y: sparse.csr_array) -> NDArray[np.float32] | None:
        """How much more an error counts on a row that has the label, (n_labels,); None: for no label more."""
        if self.propensity is None:
            return None
        A, B = self.propensity
        return inverse_propensity(Y, A, B).astype(np.float32)

    def _best_power(
        self,
        X: sparse.csr_array,
        Y: sparse.csr_array,
        labels: NDArray[np.int32],
        votes: NDArray[np.float32],
        inv_propensity: NDArray[np.float32] | None,
    ) -> float:
        linear = score_candidates(X, labels, self.W_, self.bias_)

        def of_power(power: float) -> float:
            order = np.argsort(-_mixed(linear, votes, power), axis=1, kind="stable")[:, :5]
            best = np.take_along_axis(labels, order, axis=1)
            return quality(Y, _padded(best, 5), inv_propensity)

        return argbest(VOTE_POWERS, of_power)


def _mixed(linear: NDArray[np.float32], votes: NDArray[np.float32], power: float) -> NDArray[np.float32]:
    # In double precision: single-precision exponentials and powers differ from processor to processor.
    with np.errstate(over="ignore"):
        belief = 1.0 / (1.0 + np.exp(-2.0 * linear.astype(np.float64)))
    share = votes / np.maximum(votes.max(axis=1, keepdims=True, initial=0.0), 1e-30)
    mixed = belief * np.maximum(share, FAINTEST_VOTE).astype(np.float64) ** power
    return np.where(np.isneginf(linear), -np.inf, mixed).astype(np.float32)


def _without_labels(Y: sparse.csr_array, rows: NDArray[np.integer]) -> sparse.csr_array:
    """``Y`` with nothing in the given rows."""
    kept = np.ones(Y.shape[0], dtype=Y.dtype)
    kept[rows] = 0
    return sparse.csr_array(sparse.diags_array(kept) @ Y)


def _recall(labels: NDArray[np.int32], Y: sparse.csr_array) -> float:
    """Part of the labels of ``Y`` that are among the candidates of their row."""
    carried = np.zeros(labels.shape, dtype=bool)
    for row, candidates in enumerate(labels):
        carried[row] = np.isin(candidates, Y.indices[Y.indptr[row] : Y.indptr[row + 1]])
    return float(carried.sum() / max(Y.nnz, 1))


def _padded(labels: NDArray[np.int32], width: int) -> Any:
    return np.pad(labels, ((0, 0), (0, max(0, width - labels.shape[1]))), constant_values=-1)
