"""A second ranking stage: boosted trees rescore the best candidates of a row."""

from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.constraints import Count, Positive, Weight, whole
from pysldl._utils.light_estimator import LightEstimator, validate_parameters
from pysldl.backend.dispatch import as_int32_indices
from pysldl.backend.label_pairs import SMOOTHING, count_pairs, pair_support
from pysldl.backend.trees import NO_TREES, TIE, Examples, Trees, boosted_forests, sum_of_trees
from pysldl.decoding.voting import clearly_better
from pysldl.metrics import inverse_propensity_from_counts
from pysldl.metrics.ranking import evaluate_rows, hits_of
from pysldl.ranking.candidates import Candidates, best_labels

FEATURES = (
    "linear score",
    "vote",
    "share of the best vote",
    "frequency of the label",
    "rank",
    "score",
    "share of the best score",
    "best score of the row",
    "second score of the row",
    "sum of the row's scores",
    "best vote of the row",
    "implied by the other candidates",
    "implies the other candidates",
)
"""What the trees see of a candidate, in the order of their columns."""

LOWEST = -10.0  # in place of the linear score of no label
MANY_ROWS, FOLDS_OF_MANY, FOLDS_OF_FEW = 2000, 2, 3  # of the cross-fitting: few rows are better used to learn from
MIN_LEAF = 200  # candidates in a leaf
# Standard errors by which trees may rank worse in cross-fitting before they are given up, and rows that show it: on
# fewer rows they must be better by as many as ERRORS_ASKED.
ERRORS_ALLOWED, FEW_ROWS, ERRORS_ASKED = 2.0, 200, 1.0

EQUALLY_MANY = 0.1  # of the labels


class LabelRecord(NamedTuple):
    """What training rows tell of labels: how frequent trees may take them for, their rows, and those of pairs."""

    frequency: NDArray[np.integer]
    counts: NDArray[np.integer]
    pairs: sparse.csr_array


@dataclass(eq=False, repr=False)
class TreeReranker(LightEstimator):
    """Gradient-boosted trees that rescore the best candidates of every row.

    Linear classifiers, or a linear read-out, and votes look at one label at a time. The trees see how a candidate
    stands among the others of its row: its rank, how far it is behind the best, how frequent its label is, and how much
    the others imply it and it implies the others, by the training rows that both labels share. They learn from rows
    that were held out from the first stage, and are used unless they rank those rows clearly worse in cross-fitting.

    Parameters
    ----------
    n_candidates : int
        Candidates of a row that are rescored; the others stay behind them in their order.
    n_trees : int
        Number of trees.
    max_leaves : int
        Most leaves of a tree.
    learning_rate : float
        Factor of every tree.
    propensity_power : float
        A candidate that is right counts by this power of its label's inverse propensity, so that rare labels are not
        pushed back.
    held_out : int
        Rows to hold out from the classifiers, at most a fifth of all.
    label_pairs : bool
        Whether the trees see how much the candidates of a row imply each other; the model then keeps for every two
        labels how many training rows have both, where several have.

    Attributes
    ----------
    trees_ : Trees
        Without roots where the order of the first stage was clearly better.
    baseline_ : float
        What the sum of the trees begins with.
    pairs_ : csr_array of shape (n_labels, n_labels), float32
        Training rows that have both of two labels, above the diagonal; without entries where the trees do not ask.
    gain_ : float
        By how much nDCG@5 of the held-out rows rises in cross-fitting.

    Examples
    --------
    >>> from pysldl import make_sldl
    >>> from pysldl.ranking import TreeReranker
    >>> make_sldl("accurate", reranker=TreeReranker(n_trees=40)).reranker.n_trees
    40
    """

    n_candidates: Count = 10
    _: KW_ONLY
    n_trees: Count = 30
    max_leaves: Annotated[int, whole(2)] = 8
    learning_rate: Positive = 0.2
    propensity_power: Weight = 0.3
    held_out: Count = 3000
    label_pairs: bool = True

    _saved_state = (
        *("roots_", "feature_", "threshold_", "left_", "right_", "value_", "depth_", "baseline_"),
        *("pairs_", "gain_"),
    )
    pairs_: sparse.csr_array = field(init=False)

    feature_names: ClassVar[tuple[str, ...]] = FEATURES

    def fit(self, candidates: Candidates, Y: sparse.csr_array, rows: NDArray[np.integer]) -> Self:
        """Learn from candidates of training rows that the first ranking stage has not seen.

        Parameters
        ----------
        candidates : Candidates
        Y : csr_array of shape (n_samples, n_labels)
            The labels of all training rows.
        rows : ndarray of int
            The rows of ``Y`` that the candidates belong to.

        Notes
        -----
        Counting the rows at hand too would tell the trees which candidates are right. Where many labels have as many
        rows as the most frequent, as in sets with a fixed number of rows a label, leaving them out tells it as well: a
        label has fewer others the more of the rows at hand have it. Trees then do not see how frequent a label is.

        Scores of the candidates by trees that have not seen their rows are kept for calibration until
        :meth:`pop_cross_fitted_scores` is called.
        """
        validate_parameters(self)
        Y_held, n_samples = Y[rows], Y.shape[0]
        all_counts = np.bincount(Y.indices, minlength=Y.shape[1])
        counts = all_counts - np.bincount(Y_held.indices, minlength=Y.shape[1])
        seen = np.full_like(counts, n_samples) if _equally_many(all_counts) else counts
        known = LabelRecord(seen, counts, count_pairs(Y, rows) if self.label_pairs else _no_pairs(Y.shape[1]))
        kept, _ = candidates.best(self.n_candidates)
        X = self.features(kept, known)
        is_true = hits_of(kept.labels, Y_held)
        of_label = inverse_propensity_from_counts(counts, n_samples) ** self.propensity_power
        weights = np.where(is_true, of_label[kept.labels], 1.0)
        usable = kept.labels >= 0
        n_folds = FOLDS_OF_MANY if len(X) >= MANY_ROWS else FOLDS_OF_FEW
        fold = np.arange(len(X)) % n_folds

        def examples(learn: NDArray[np.bool_]) -> Examples:
            learn = learn[:, None] & usable
            return Examples(X[learn], is_true[learn], weights[learn])

        # The trees of all rows are grown beside the others: they are seldom given up.
        learners = [*(fold != number for number in range(n_folds)), fold >= 0]
        *of_others, of_all = self._train([examples(learn) for learn in learners])
        crossed = np.full(candidates.scores.shape, -np.inf, dtype=np.float32)
        for number, trees in enumerate(of_others):
            self._set_trees(*trees)
            crossed[fold == number] = self._scores_by(candidates.of_rows(fold == number), known)
        before, after = (_row_ndcg(candidates.labels, scores, Y_held) for scores in (candidates.scores, crossed))
        self.gain_ = float((after - before).mean())
        # The trees of all rows know more than those of a part of them, which are judged here.
        helps = clearly_better(after, before, -ERRORS_ALLOWED if len(X) >= FEW_ROWS else ERRORS_ASKED)
        self._set_trees(*(of_all if helps else (NO_TREES, 0.0)))
        self.pairs_ = self.updated(Y).pairs_
        self._held_scores = crossed if helps else candidates.scores
        return self

    def updated(self, Y: sparse.csr_array) -> Self:
        """Return the same trees with the label pairs of other training rows, which may have further labels."""
        other = copy(self)
        other.pairs_ = count_pairs(Y) if self.label_pairs and len(self.roots_) else _no_pairs(Y.shape[1])
        return other

    def features(self, candidates: Candidates, known: LabelRecord) -> NDArray[np.float32]:
        """Features of candidates, best first, as the trees take them, of shape (n_rows, n_candidates, n_features)."""
        return candidate_features(candidates, known)

    def pop_cross_fitted_scores(self) -> NDArray[np.float32]:
        """Final scores of the candidates given to :meth:`fit`, cross-fitted; they can be asked for once."""
        scores: NDArray[np.float32] = self._held_scores
        del self._held_scores
        return scores

    def scores(self, candidates: Candidates, label_counts: NDArray[np.integer]) -> NDArray[np.float32]:
        """Final scores of all candidates, in [0, 1]; ``label_counts`` are the training rows of each label."""
        return self._scores_by(candidates, LabelRecord(label_counts, label_counts, self.pairs_))

    def _scores_by(self, candidates: Candidates, known: LabelRecord) -> NDArray[np.float32]:
        if len(self.roots_) == 0:
            return candidates.scores
        kept, places = candidates.best(self.n_candidates)
        X = self.features(kept, known)
        total = self.baseline_ + sum_of_trees(X, self.trees_)
        # Candidates in the same leaves of all trees keep their order.
        probability = (1.0 - TIE * np.arange(total.shape[1])) / (1.0 + np.exp(-total))
        probability = np.where(kept.labels >= 0, probability, np.inf)
        # What is not rescored keeps its order below the lowest that is.
        lowest = probability.min(axis=1, initial=1.0, keepdims=True)
        last = np.where(kept.labels >= 0, kept.scores, 1.0).min(axis=1, initial=1.0, keepdims=True)
        final = np.asarray(candidates.scores / np.maximum(last, 1e-30) * lowest, dtype=np.float32)
        final[np.arange(len(final))[:, None], places] = np.where(kept.labels >= 0, probability, -np.inf)
        return final

    @property
    def trees_(self) -> Trees:
        """The fitted trees."""
        return Trees(
            self.roots_, self.feature_, self.threshold_, self.left_, self.right_, self.value_, int(self.depth_)
        )

    def _set_trees(self, trees: Trees, baseline: float) -> None:
        self.roots_, self.feature_, self.threshold_, self.left_, self.right_, self.value_, self.depth_ = trees
        self.baseline_ = baseline

    def _train(self, sets: list[Examples]) -> list[tuple[Trees, float]]:
        return boosted_forests(
            sets,
            n_trees=self.n_trees,
            max_leaves=self.max_leaves,
            learning_rate=self.learning_rate,
            min_rows=MIN_LEAF,
        )

    def contributions(self, candidates: Candidates, label: int, label_counts: NDArray[np.integer]) -> dict[str, float]:
        """What each feature of a candidate of one row adds to the sum of the trees; empty where they do not rescore it.

        Along the path through a tree, the change of the mean from a node to the next belongs to the feature that the
        node asks for. With ``baseline`` the parts add up to the logit of the final score.
        """
        kept, _ = candidates.best(self.n_candidates)
        places = np.flatnonzero(kept.labels[0] == label)
        if len(self.roots_) == 0 or len(places) == 0:
            return {}
        x = self.features(kept, LabelRecord(label_counts, label_counts, self.pairs_))[0, places[0]]
        parts = dict.fromkeys(("baseline", *self.feature_names), 0.0)
        parts["baseline"] = self.baseline_
        for node in self.roots_:
            parts["baseline"] += float(self.value_[node])
            while self.left_[node] != node:
                below = self.left_[node] if x[self.feature_[node]] <= self.threshold_[node] else self.right_[node]
                parts[self.feature_names[self.feature_[node]]] += float(self.value_[below] - self.value_[node])
                node = below
        return parts

    def related(
        self, candidates: Candidates, label: int, label_counts: NDArray[np.integer]
    ) -> list[tuple[int, float, int]]:
        """The other candidates of one row that share rows with a label: their labels, scores, and rows with both.

        Those that imply it most come first; none where the trees do not rescore the label.
        """
        kept, _ = candidates.best(self.n_candidates)
        others = [(int(other), float(score)) for other, score in zip(kept.labels[0], kept.scores[0], strict=True)]
        if len(self.roots_) == 0 or label not in kept.labels[0]:
            return []
        found = []
        for other, score in others:
            shared = 0 if other < 0 or other == label else int(self.pairs_[min(other, label), max(other, label)])
            if shared:
                found.append((other, score, shared))
        return sorted(found, key=lambda pair: -pair[1] * pair[2] / (label_counts[pair[0]] + SMOOTHING))


def _no_pairs(n_labels: int) -> sparse.csr_array:
    return as_int32_indices(sparse.csr_array((n_labels, n_labels), dtype=np.float32))


def _equally_many(label_counts: NDArray[np.integer]) -> bool:
    """Whether more than a tenth of the labels have at least half the rows of the most frequent one."""
    counts = label_counts[label_counts > 0]
    return bool(np.mean(2 * counts >= counts.max(initial=1)) > EQUALLY_MANY) if counts.size else False


def candidate_features(candidates: Candidates, known: LabelRecord) -> NDArray[np.float32]:
    """Features of candidates, best first, as the trees take them, of shape (n_rows, n_candidates, n_features)."""
    labels, votes = candidates.labels, candidates.votes
    linear = np.where(labels >= 0, candidates.linear, LOWEST)
    scores = np.where(labels >= 0, candidates.scores, 0.0)
    best_vote = votes.max(axis=1, initial=0.0, keepdims=True)
    best = scores[:, :1]
    second = scores[:, 1:2] if scores.shape[1] > 1 else np.zeros_like(best)
    # Summed one by one: NumPy's own order of a sum depends on the processor.
    total = np.cumsum(scores, axis=1, dtype=np.float64)[:, -1:]
    support = pair_support(labels, scores, known.counts, known.pairs)
    columns = (
        linear,
        votes,
        votes / np.maximum(best_vote, 1e-30),
        known.frequency[labels],
        np.arange(labels.shape[1]),
        scores,
        scores / np.maximum(best, 1e-30),
        best,
        second,
        total,
        best_vote,
        support[..., 0],
        support[..., 1],
    )
    X = np.empty((*labels.shape, len(columns)), dtype=np.float32)
    for at, column in enumerate(columns):
        X[..., at] = column
    return X


def _row_ndcg(labels: NDArray[np.int32], scores: NDArray[np.float32], Y: sparse.csr_array) -> NDArray[np.float64]:
    return evaluate_rows(Y, best_labels(labels, scores, 5), (5,))["nDCG@5"]
