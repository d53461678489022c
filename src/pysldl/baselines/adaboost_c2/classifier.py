"""AdaBoost.C2: one boosting path for each label, and in every round a classifier chain over all of them."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import check_random_state

from pysldl._utils.constraints import Count, Positive
from pysldl._utils.light_estimator import inherit_parameters
from pysldl._utils.memory import require_memory
from pysldl._utils.progress import Progress
from pysldl.backend.threads import single_threaded_blas
from pysldl.baselines.adaboost_c2.kernel_ridge_chain import KernelRidgeChain, KernelSystem
from pysldl.baselines.adaboost_c2.linear_chain import LinearChain
from pysldl.baselines.adaboost_c2.svm_chain import SVMChain, scale_gamma
from pysldl.baselines.base import NormalizingBaseline

SMALLEST_ERROR = 1e-10
BLOCK_BYTES = 256 << 20

Chain = LinearChain | SVMChain


@inherit_parameters
@dataclass(eq=False, repr=False)
class AdaBoostC2(NormalizingBaseline):
    """AdaC2: AdaBoost.C2, boosted classifier chains [1]_.

    Every label has its own AdaBoost path. In each round the learners form a classifier chain: a learner sees the
    features and the labels that come before its own, those with the smallest errors in the round before first. True
    labels are seen in training, predicted probabilities afterwards. A path whose weighted error falls below ``delta``
    is finished; its learner stays in the chains of later rounds. The score is the mean probability over the rounds of a
    path, weighted by AdaBoost's ``alpha``.

    Parameters
    ----------
    n_rounds : int, default=10
        T in [1]_.
    delta : float, default=0.01
        Weighted error below which a path is finished.
    learner : {"kernel_ridge", "ridge", "logistic", "svc"}, default="kernel_ridge"
        ``"svc"`` is the authors': a support vector machine with a Gaussian kernel, practical to a few thousand rows.
        ``"kernel_ridge"``, our default, is ridge regression with that kernel, which solves a whole round at once; it
        holds a matrix of all pairs of rows, practical to some twenty thousand. ``"ridge"`` and ``"logistic"`` are
        linear and take any number of rows.
    C : float, default=1.0
        Weight of the learner's loss against its penalty.
    variant : {"paper", "official"}, default="paper"
        ``"official"`` does what the authors' code does instead: weights of *correctly* classified rows grow; in later
        rounds only finished labels are ordered by error and the others are shuffled; the learner that finishes
        a path has no vote, unless it is the path's first. Two further defects of that code are left out: labels that
        no row carries get one made up, and columns of finished labels change places between training and prediction.
    calibrate : bool, default=True
        Learn the threshold of ``predict`` and the probabilities on held-out rows; fitting takes twice as long.
    normalize : bool, default=True
        Scale every row of X to length 1. The authors do not scale.

    Attributes
    ----------
    rounds_ : list of KernelRidgeChain, LinearChain or SVMChain
    vote_weights_ : ndarray of shape (n_rounds, n_labels), float32
        Weight of every learner in its label's score; those of a label sum to 1.
    always_ : ndarray of int
        Labels that all training rows carry, which need no learner.
    kernel_rows_ : ndarray or csr_array of shape (n_samples, n_features), or None
        The training rows that kernel ridge regression compares new ones with.
    gamma_ : float or None
        Of its kernel ``exp(-gamma |x - x'|²)``: scikit-learn's ``"scale"`` over the features, as in the authors' code.

    Notes
    -----
    With the paper's update and a linear learner, rankings over labels get worse with more rounds, though the error of
    each label falls: a linear learner cannot fit the few rows that boosting makes heavy, so that a path runs through
    all rounds and its later learners outvote the first. Learners with a kernel do not show it, nor does the authors'
    reversed update. ``docs/baselines.md`` has the numbers.

    References
    ----------
    .. [1] J. Li, X. Zhu, J. Wang. AdaBoost.C2: boosting classifiers chains for multi-label classification. AAAI 2023.

    Examples
    --------
    >>> from pysldl.baselines import AdaBoostC2
    >>> X, Y = [[1, 0], [0, 1], [1, 0], [0, 1]], [[1, 0], [0, 1], [1, 0], [0, 1]]
    >>> AdaBoostC2(n_rounds=2, random_state=0).fit(X, Y).predict_topk(X, 1)[0].ravel()
    array([0, 1, 0, 1])
    """

    n_rounds: Count = 10
    delta: Positive = 0.01
    learner: Literal["kernel_ridge", "ridge", "logistic", "svc"] = "kernel_ridge"
    C: Positive = 1.0
    variant: Literal["paper", "official"] = "paper"

    _saved_state = (*NormalizingBaseline._saved_state, "rounds_", "vote_weights_", "always_", "kernel_rows_", "gamma_")

    @single_threaded_blas
    def _fit_rows(self, X: Any, Y: sparse.csr_array) -> None:
        self._require_memory(X, Y)
        rng = check_random_state(self.random_state)
        features = self._training_features(self._scaled(X))
        n_samples, n_labels = Y.shape
        varied = np.flatnonzero((self.label_counts_ > 0) & (self.label_counts_ < n_samples))
        self.always_ = np.flatnonzero(self.label_counts_ == n_samples)
        self.rounds_: list[Chain] = []
        alphas = np.zeros((self.n_rounds, n_labels))
        errors = np.full(n_labels, np.inf)
        weights = np.full((n_samples, n_labels), 1.0 / n_samples, dtype=np.float32)
        chain = rng.permutation(varied)
        for number in range(self.n_rounds):
            labels = chain[errors[chain] >= self.delta]
            if labels.size == 0:
                break
            learners = self._new_chain().fit(features, Y, chain, labels, weights[:, labels])
            wrong = learners.decisions(features, Y) != (Y[:, labels].toarray() > 0)
            errors[labels], alphas[number, labels], weights[:, labels] = boost(
                weights[:, labels], wrong, reversed_update=self.variant == "official"
            )
            if self.variant == "official":
                finished = labels[errors[labels] < self.delta]
                alphas[number, finished] = 1.0 if number == 0 else 0.0
            self.rounds_.append(learners)
            chain = self._next_chain(varied, errors, rng)
            if self._on_progress is not None:
                self._on_progress(Progress("rounds", number + 1, self.n_rounds, float(errors[labels].mean())))
        self.vote_weights_ = self._vote_shares(alphas[: len(self.rounds_)])
        if self._wants_calibration:
            self.calibration_ = self._held_out_calibration(X, Y, rng)

    @single_threaded_blas
    def _score_rows(self, X: Any) -> NDArray[np.float32]:
        X = self._scaled(X)
        scores = np.zeros((X.shape[0], len(self.label_counts_)), dtype=np.float32)
        scores[:, self.always_] = 1.0
        block = X.shape[0] if self.kernel_rows_ is None else max(1, BLOCK_BYTES // (4 * self.kernel_rows_.shape[0]))
        for start in range(0, X.shape[0], max(block, 1)):
            rows = slice(start, start + block)
            features = X if self.kernel_rows_ is None else self._kernel(X[rows])
            P = np.zeros_like(scores[rows])
            for learners, shares in zip(self.rounds_, self.vote_weights_, strict=True):
                learners.fill(features, P)
                labels = learners.labels_
                scores[rows, labels] += shares[labels] * P[:, labels]
        return scores

    def _training_features(self, X: Any) -> Any:
        """What the learners see of the training rows: X itself, or its kernel."""
        self.kernel_rows_ = self.gamma_ = None
        if self.learner != "kernel_ridge":
            return X
        self.kernel_rows_, self.gamma_ = X, scale_gamma(X)
        return KernelSystem(self._kernel(X), self.C)

    def _kernel(self, X: Any) -> NDArray[np.float32]:
        """Of rows with those trained on, of shape (n_rows, n_samples)."""
        return np.asarray(rbf_kernel(X, self.kernel_rows_, gamma=self.gamma_), dtype=np.float32)

    def _new_chain(self) -> Chain:
        if self.learner == "kernel_ridge":
            return KernelRidgeChain(self.C)
        return SVMChain(self.C) if self.learner == "svc" else LinearChain(self.learner, self.C)

    def _next_chain(
        self, varied: NDArray[np.int64], errors: NDArray[np.float64], rng: np.random.RandomState
    ) -> NDArray[np.int64]:
        """Labels by the error of their latest learner, smallest first; so finished labels precede all others."""
        by_error = varied[np.argsort(errors[varied], kind="stable")]
        if self.variant == "paper":
            return by_error
        n_finished = int((errors[varied] < self.delta).sum())
        return np.concatenate([by_error[:n_finished], rng.permutation(by_error[n_finished:])])

    def _vote_shares(self, alphas: NDArray[np.float64]) -> NDArray[np.float32]:
        """Votes that sum to 1 for every label; equal ones if no learner of a label was better than chance."""
        learned = np.zeros(alphas.shape, dtype=bool)
        for number, learners in enumerate(self.rounds_):
            learned[number, learners.labels_] = True
        votes = np.where(alphas.sum(axis=0) > 0, alphas, learned)
        return np.asarray(votes / np.maximum(votes.sum(axis=0), SMALLEST_ERROR), dtype=np.float32)

    def _require_memory(self, X: Any, Y: sparse.csr_array) -> None:
        n_samples, n_labels = Y.shape
        in_kernel = self.learner in ("kernel_ridge", "svc")
        side, width = (n_samples, n_samples) if in_kernel else (X.shape[1] + n_labels, X.shape[1])
        advice = "Use learner='ridge', whose memory follows the features and not the rows, " if in_kernel else ""
        require_memory(
            3 * (8 if self.learner != "kernel_ridge" else 4) * side**2
            + 3 * 4 * n_samples * n_labels
            + self.n_rounds * 4 * (width + n_labels) * n_labels,
            f"Boosting {n_labels} labels over {n_samples} rows and {X.shape[1]} features",
            (advice or "Use fewer rounds, ")
            + "or SLDLClassifier, of which nothing that is trained grows with the number of labels.",
            self.memory_limit,
        )


def boost(
    weights: NDArray[np.float32], wrong: NDArray[np.bool_], *, reversed_update: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float32]]:
    """Do one AdaBoost step for every learner of a round; returns errors, alphas and new weights.

    ``error = sum of the weights of wrong rows``, ``alpha = ln((1 - error)/error)/2``, and the new weights are
    proportional to ``weights * exp(alpha)`` for wrong rows and ``weights * exp(-alpha)`` for the others. A learner no
    better than chance has alpha 0 and leaves the weights as they are. Both arrays have the shape (n_samples,
    n_learners), and each column of weights sums to 1. ``reversed_update`` changes the weights the other way round, as
    the authors' code does.
    """
    errors = (weights * wrong).sum(axis=0, dtype=np.float64)
    bounded = np.clip(errors, SMALLEST_ERROR, 0.5)
    alphas = 0.5 * np.log((1.0 - bounded) / bounded)
    step = -alphas if reversed_update else alphas
    changed = weights * np.exp(np.where(wrong, step, -step))
    return errors, alphas, (changed / changed.sum(axis=0)).astype(np.float32)
