"""A linear ranker for the candidates that a decoder proposes."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.constraints import Count, CountOrZero, NotNegative, Positive
from pysldl._utils.light_estimator import LightEstimator, validate_parameters
from pysldl.backend.candidate_scores import best_by_weights, score_candidates
from pysldl.backend.dispatch import as_int32_indices, warn_no_numba
from pysldl.backend.label_problems import LabelProblems, without_rows
from pysldl.backend.label_shards import HeldCandidates, LabelRows, fit_label_rows, label_rows
from pysldl.backend.squared_hinge import fit_squared_hinge, squared_hinge_memory
from pysldl.decoding.voting import best_option, clearly_better, row_quality
from pysldl.exceptions import DataError
from pysldl.metrics import inverse_propensity
from pysldl.ranking.candidates import (
    MOST_FREQUENT,
    Candidates,
    best_labels,
    candidate_recall,
    choose_frequent,
    draw_held_rows,
    frequent_labels,
    frequent_without_features,
    known_candidates,
    union_of_candidates,
    votes_of,
)
from pysldl.ranking.centroids import LabelCentroids
from pysldl.ranking.penalty import choose_penalty, some_labels

VOTE_POWERS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 1.0, 2.0, 4.0, 8.0, 14.0)  # the last: nearly the votes alone
TRIAL_POWERS, TRIAL_TOL, TRIAL_PARTS = (0.0, 0.15, 0.4, 1.0), 2.0, 3
TRIAL_LABELS = 3  # times the usual cost of a trial, before labels are left out
FAINTEST_VOTE = 1e-3
FEW_LABELS = 100  # up to so many, training with the rows of all of them costs little
CENTROIDS_TRIED = 25
# As many candidates as this for each label that a row has: a ranker cannot find a label that is no candidate.
CANDIDATES_OF_LABEL, FEWEST_CANDIDATES, MOST_CANDIDATES = 12, 75, 300


@dataclass(eq=False, repr=False)
class LinearRanker(LightEstimator):
    """One linear classifier for each label, trained on the rows that have it and on rows of which it is a candidate.

    The negatives of a label are the rows that have it among their candidates and not among their labels, so the cost
    follows rows x candidates x nonzeros and not the number of labels. A candidate's final score is
    ``sigmoid(2 s) * vote ** power``: ``s`` its linear score, ``vote`` its share of the votes against the row's best,
    and the power chosen on training rows held out from the classifiers. Where labels are few, all are scored; the
    decoder is then asked for votes only if they help held-out rows by more than chance.

    Parameters
    ----------
    n_candidates : int or None
        How many labels the decoder proposes for each row. None: twelve times the mean number of labels of a training
        row, but at least 75 and at most 300.
    n_frequent : int or None
        How many of the most frequent labels are candidates of every row, beside those of the decoder: rows with few
        words have few neighbors. None: the first of 5, 10, 20 and 40 with which candidates hold nearly as many labels
        of held-out rows as with 40 (within half a point of recall). Where there are no more than ``n_candidates``
        labels, and at most 100, all labels are candidates.
    n_centroid_candidates : int or None
        How many labels are candidates because the row is like the mean of their training rows, see
        :class:`~pysldl.ranking.centroids.LabelCentroids`. None: 25 if they hold more labels of held-out rows than the
        last 25 candidates of the decoder do, which cost as much; otherwise none.
    C : float or None
        Weight of the errors against the size of the weights. None: chosen on the held-out rows, see
        :func:`~pysldl.ranking.penalty.choose_penalty`.
    propensity : tuple of two floats, optional
        Constants (A, B) of the labels' propensities, see :func:`~pysldl.metrics.inverse_propensity`; (0.55, 1.5) is
        customary. An error on a row that has a label then counts by the label's inverse propensity, and the power is
        chosen by propensity-scored metrics: rare labels are favored.
    max_epochs : int
        Cap on the passes over the rows of a label.
    tol : float
        A label is done when the optimality conditions of all its rows hold to within this, in units of the margin.
    min_weight : float
        Smaller weights are dropped, as nearly all are.
    held_out : int
        Rows that choose the power and the calibration, at most a fifth: each label is fitted without them first, and
        then with them.

    Attributes
    ----------
    C_ : float
        As given or chosen.
    all_labels_ : bool
        Whether all labels are scored, and the best of them are the candidates.
    W_ : csr_array of shape (n_labels, n_features), float32
    bias_ : ndarray of shape (n_labels,)
    frequent_ : ndarray of shape (n_frequent,), int32
    centroids_ : LabelCentroids or None
    n_centroid_candidates_ : int
    vote_power_ : float
    candidate_recall_ : float
        Part of the held-out rows' labels that are among their candidates: no ranker can find more.

    Examples
    --------
    Rows that have a feature have its label; the decoder offers every row all labels, with equal votes:

    >>> X = sparse.csr_array(np.tile(np.eye(3, dtype=np.float32), (10, 1)))
    >>> labels, votes = np.tile(np.arange(3, dtype=np.int32), (30, 1)), np.ones((30, 3), dtype=np.float32)
    >>> ranker = LinearRanker(3, n_frequent=0).fit(X, X, labels, votes, np.random.RandomState(0))
    >>> found = ranker.rank(X[[1]], labels[:1], votes[:1])
    >>> int(found.labels[0, found.scores.argmax()])
    1
    """

    n_candidates: Count | None = 50
    _: KW_ONLY
    n_frequent: CountOrZero | None = None
    n_centroid_candidates: CountOrZero | None = None
    C: Positive | None = 1.0
    propensity: Annotated[tuple[float, float] | None, "array-like", None] = None
    max_epochs: Count = 100
    tol: Positive = 0.5
    min_weight: NotNegative = 0.1
    held_out: Count = 1000

    _saved_state = (
        "C_",
        "all_labels_",
        "W_",
        "bias_",
        "frequent_",
        "centroids_",
        "n_centroid_candidates_",
        "vote_power_",
        "candidate_recall_",
    )
    centroids_: LabelCentroids | None = field(init=False)

    @property
    def n_decoder_candidates(self) -> int:
        """Candidates that the decoder proposes for a row: ``n_candidates`` or, where it is None, the fewest."""
        return FEWEST_CANDIDATES if self.n_candidates is None else self.n_candidates

    def check_parameters(self) -> None:
        """An error where a parameter has a value that cannot be used: before candidates are computed for nothing."""
        validate_parameters(self)
        if self.propensity is not None and np.shape(self.propensity) != (2,):
            raise DataError(f"propensity must be two numbers, such as (0.55, 1.5), but is {self.propensity!r}.")

    def fit(
        self,
        X: sparse.csr_array,
        Y: sparse.csr_array,
        labels: NDArray[np.int32],
        votes: NDArray[np.float32],
        rng: np.random.RandomState,
        held: NDArray[np.integer] | None = None,
        late: NDArray[np.int32] | None = None,
    ) -> Self:
        """Train on the left-out candidates of the training rows.

        Parameters
        ----------
        X : csr_array of shape (n_samples, n_features), float32
        Y : csr_array of shape (n_samples, n_labels)
        labels, votes : ndarrays of shape (n_samples, n_candidates)
            Candidates of every row from its neighbors, itself left out; those of held-out rows suffice where
            :meth:`ranks_all_labels` says so.
        rng : RandomState
            Draws the held-out rows, which are kept as ``held_rows_``, with their candidates.
        held : ndarray of int, optional
            The rows to hold out, where :meth:`draw_held_rows` was called before.
        late : ndarray of shape (n_samples, n_late), int32, optional
            Candidates of every row that held-out rows had a part in proposing, while ``labels`` are those of the others
            alone, see :meth:`~pysldl.decoding.base.Decoder.split_candidates`. They join when the held-out rows do.
        """
        self.check_parameters()
        warn_no_numba()
        held = self.draw_held_rows(X.shape[0], rng) if held is None else held
        self.held_rows_, self.all_labels_ = held, self.ranks_all_labels(Y)
        if self.all_labels_:
            self.frequent_, self.centroids_, self.n_centroid_candidates_ = frequent_without_features(X, Y), None, 0
            rows = label_rows([np.full((Y.shape[0], 1), -1, dtype=np.int32)], Y, self.frequent_)
            held_labels = np.tile(self.frequent_, (len(held), 1))
            held_votes = votes_of(held_labels, labels[held], votes[held], Y.shape[1])
        else:
            self.frequent_ = (
                choose_frequent(Y, labels[held], Y[held])
                if self.n_frequent is None
                else frequent_labels(Y, self.n_frequent)
            )
            self._fit_centroids(X, Y, labels, held)
            held_labels, held_votes = self.expand_candidates(X[held], labels[held], votes[held])
            candidates = [labels]
            if self.centroids_ is not None:
                candidates.append(self.centroids_.candidates_of_all(X, self.n_centroid_candidates_))
                self.centroids_ = LabelCentroids().fit(X, Y)  # the held-out rows have their candidates
            rows = label_rows(candidates, Y, self.frequent_, late)
        # That a label has no rows but held-out ones would tell that it is right.
        others = np.bincount(Y.indices, minlength=Y.shape[1]) - np.bincount(Y[held].indices, minlength=Y.shape[1])
        held_labels, held_votes = known_candidates(held_labels, held_votes, others)
        self.C_ = self._choose_penalty(X, Y, rows, held_labels, held_votes) if self.C is None else self.C
        linear = self._fit_classifiers(X, Y, rows, held, held_labels)
        self.vote_power_ = _best_power(
            Y[held], held_labels, linear, held_votes, self.cost_of_labels(Y), clearly=self.all_labels_
        )
        if not self.needs_votes:
            held_votes = np.zeros_like(held_votes)
        self.held_candidates_ = Candidates(
            held_labels, linear, held_votes, _mixed(linear, held_votes, self.vote_power_)
        )
        self.candidate_recall_ = candidate_recall(held_labels, Y[held])
        return self

    def draw_held_rows(
        self, n_samples: int, rng: np.random.RandomState, held_out: int | None = None
    ) -> NDArray[np.integer]:
        """Rows to hold out of so many; ``held_out`` in place of the parameter, for a stage that follows."""
        return draw_held_rows(n_samples, rng, self.held_out if held_out is None else held_out)

    def ranks_all_labels(self, Y: sparse.csr_array) -> bool:
        """Whether labels are so few that all are ranked for every row; only held-out rows then need votes."""
        n_labels = int(np.count_nonzero(np.bincount(Y.indices)))
        return self.n_frequent is None and n_labels <= min(self.n_decoder_candidates, FEW_LABELS)

    def _fit_centroids(
        self, X: sparse.csr_array, Y: sparse.csr_array, labels: NDArray[np.int32], held: NDArray[np.integer]
    ) -> None:
        """Centroids of the rows that are not ``held``, if they are asked for or find what nothing else does."""
        n_candidates = CENTROIDS_TRIED if self.n_centroid_candidates is None else self.n_centroid_candidates
        self.centroids_, self.n_centroid_candidates_ = None, 0
        if n_candidates == 0:
            return
        centroids = LabelCentroids().fit(X, Y, left_out=held)
        if self.n_centroid_candidates is None:
            n_last = min(n_candidates, self.n_decoder_candidates // 3)
            alike = centroids.candidates(X[held], n_last)
            instead = union_of_candidates(labels[held, :-n_last], alike) if n_last else labels[held]
            if candidate_recall(instead, Y[held]) <= candidate_recall(labels[held], Y[held]):
                return
        self.centroids_, self.n_centroid_candidates_ = centroids, n_candidates

    def _choose_penalty(
        self,
        X: sparse.csr_array,
        Y: sparse.csr_array,
        rows: LabelRows,
        held_labels: NDArray[np.int32],
        held_votes: NDArray[np.float32],
    ) -> float:
        held = self.held_rows_

        def sample(n_rows: float) -> tuple[LabelProblems, float]:
            # First fewer rows: among fewer labels, classifiers that are too smooth rank well. With fewer rows the best
            # weight of errors is larger, between not at all and as much as the rows are fewer.
            parts = min(max(1, int(np.ceil(rows.sizes.sum() / max(n_rows, 1.0)))), TRIAL_PARTS)
            out = np.flatnonzero(np.arange(X.shape[0]) % parts)
            chosen = rows.of_labels(some_labels(rows.sizes, n_rows * parts * TRIAL_LABELS))
            return without_rows(chosen, np.concatenate([held, out]), X.shape[0]), float(np.sqrt(parts))

        return choose_penalty(
            X,
            Y,
            sample,
            lambda problems, C: self._solve(X, Y, problems, C, TRIAL_TOL),
            held,
            held_labels,
            lambda linear: _logarithms(linear, held_votes, TRIAL_POWERS),
        )

    def _solve(
        self, X: sparse.csr_array, Y: sparse.csr_array, problems: LabelProblems, C: float, tol: float
    ) -> tuple[sparse.csr_array, NDArray[np.float32]]:
        """Weights and biases for a trial, ``tol`` times less exact than those of the model."""
        W, bias, *_ = fit_squared_hinge(
            X,
            problems,
            C=C,
            positive_weight=self.cost_of_labels(Y),
            max_epochs=self.max_epochs,
            tol=tol * self.tol,
            min_weight=self.min_weight,
        )
        return W, bias

    def expand_candidates(
        self, X: sparse.csr_array, labels: NDArray[np.int32], votes: NDArray[np.float32]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Candidates with those of the centroids and the most frequent added, each once; an added one has no vote."""
        alike = [] if self.centroids_ is None else [self.centroids_.candidates(X, self.n_centroid_candidates_)]
        extended = union_of_candidates(labels, *alike, self.frequent_)
        all_votes = np.zeros(extended.shape, dtype=np.float32)
        all_votes[:, : votes.shape[1]] = votes
        return extended, all_votes

    def scored(self, X: sparse.csr_array, labels: NDArray[np.int32], votes: NDArray[np.float32]) -> Candidates:
        """The candidates with their linear scores and, of both, their scores."""
        linear = score_candidates(X, labels, self.W_, self.bias_)
        return Candidates(labels, linear, votes, _mixed(linear, votes, self.vote_power_))

    @property
    def needs_votes(self) -> bool:
        """Whether :meth:`rank` needs the candidates of a decoder."""
        return not self.all_labels_ or self.vote_power_ > 0

    def rank(
        self,
        X: sparse.csr_array,
        labels: NDArray[np.int32] | None = None,
        votes: NDArray[np.float32] | None = None,
    ) -> Candidates:
        """The candidates of a row with their scores: the best of all labels, or those of a decoder and added ones.

        Parameters
        ----------
        X : csr_array of shape (n_rows, n_features), float32
        labels, votes : ndarrays of shape (n_rows, n_candidates)
            What the decoder proposes; they may be left out unless :attr:`needs_votes`.
        """
        if not self.all_labels_:
            assert labels is not None and votes is not None
            return self.scored(X, *self.expand_candidates(X, labels, votes))
        n_labels = len(self.bias_)
        bias, width = self._bias_of_candidates(self.bias_), min(self.n_decoder_candidates, n_labels)
        best, linear = best_by_weights(X, self._weights_by_feature(), bias, width)
        most = self.frequent_[:width]
        empty = np.ix_(np.diff(X.indptr) == 0, np.arange(len(most)))  # of rows without features nothing else is known
        best[empty], linear[empty] = most, np.sort(bias[most])[::-1]
        given = np.zeros_like(linear)
        if labels is not None and votes is not None and self.vote_power_ > 0:
            given = votes_of(best, labels, votes, n_labels)
        return Candidates(best, linear, given, _mixed(linear, given, self.vote_power_))

    def _bias_of_candidates(self, bias: NDArray[np.float32]) -> NDArray[np.float32]:
        """The biases, -inf for labels without training rows."""
        allowed = np.full_like(bias, -np.inf)
        allowed[self.frequent_] = bias[self.frequent_]
        return allowed

    def _weights_by_feature(self) -> sparse.csr_array:
        """The transposed weights, made when first needed and not saved."""
        of, transposed = getattr(self, "_transposed", (None, None))
        if of is not self.W_:
            transposed = _by_feature(self.W_)
            self._transposed = (self.W_, transposed)
        return transposed

    def terms(self, label: int, features: NDArray[np.integer]) -> tuple[NDArray[np.float32], float]:
        """Weights of one label at some features, and its bias."""
        return self.W_[[label]][:, features].toarray().ravel(), float(self.bias_[label])

    def forget_held_rows(self) -> None:
        """Drop what only calibration needs."""
        del self.held_rows_, self.held_candidates_

    def memory(self, n_samples: int, n_features: int) -> int:
        """Bytes at the peak: candidates and votes, the rows of every label, and the work space of the classifiers."""
        width = self.n_decoder_candidates
        width += MOST_FREQUENT if self.n_frequent is None else self.n_frequent
        width += CENTROIDS_TRIED if self.n_centroid_candidates is None else self.n_centroid_candidates
        return 26 * n_samples * width + squared_hinge_memory(n_features)

    def _fit_classifiers(
        self,
        X: sparse.csr_array,
        Y: sparse.csr_array,
        rows: LabelRows,
        held: NDArray[np.integer],
        held_labels: NDArray[np.int32],
    ) -> NDArray[np.float32]:
        """Fit to all rows; returns the scores of the candidates ``held_labels`` by classifiers without ``held``."""
        self.W_, self.bias_, linear = fit_label_rows(
            X,
            rows,
            C=self.C_,
            positive_weight=self.cost_of_labels(Y),
            max_epochs=self.max_epochs,
            tol=self.tol,
            min_weight=self.min_weight,
            held=HeldCandidates(held, held_labels),
        )
        return linear

    def cost_of_labels(self, Y: sparse.csr_array) -> NDArray[np.float32] | None:
        """How much more an error counts on a row that has the label, (n_labels,); None: for no label more."""
        if self.propensity is None:
            return None
        A, B = self.propensity
        return inverse_propensity(Y, A, B).astype(np.float32)


def candidates_for(labels_per_row: float) -> int:
    """How many candidates a row gets where rows have so many labels on average."""
    return int(np.clip(round(CANDIDATES_OF_LABEL * labels_per_row), FEWEST_CANDIDATES, MOST_CANDIDATES))


def _by_feature(W: sparse.csr_array) -> sparse.csr_array:
    return as_int32_indices(sparse.csr_array(W.T))


def _best_power(
    Y: sparse.csr_array,
    labels: NDArray[np.int32],
    linear: NDArray[np.float32],
    votes: NDArray[np.float32],
    inv_propensity: NDArray[np.float32] | None,
    *,
    clearly: bool = False,
) -> float:
    """The power of the votes with which held-out rows are ranked best; ``clearly``: 0, where that may be chance."""
    scores = zip(VOTE_POWERS, _logarithms(linear, votes, VOTE_POWERS), strict=True)
    qualities = {power: row_quality(Y, best_labels(labels, mixed, 5), inv_propensity) for power, mixed in scores}
    best = best_option(VOTE_POWERS, lambda power: float(qualities[power].mean()))
    return 0.0 if clearly and not clearly_better(qualities[best], qualities[0.0]) else best


def _logarithms(
    linear: NDArray[np.float32], votes: NDArray[np.float32], powers: Sequence[float]
) -> Iterator[NDArray[np.float32]]:
    """The logarithm of what :func:`_mixed` gives, which ranks alike, for each of several powers."""
    with np.errstate(over="ignore"):
        belief = -np.log1p(np.exp(-2.0 * linear.astype(np.float64)))
    share = np.log(_shares(votes).astype(np.float64))
    for power in powers:
        yield (belief + power * share).astype(np.float32)


def _mixed(linear: NDArray[np.float32], votes: NDArray[np.float32], power: float) -> NDArray[np.float32]:
    # In double precision: single-precision exponentials and powers differ from processor to processor.
    with np.errstate(over="ignore"):
        belief = 1.0 / (1.0 + np.exp(-2.0 * linear.astype(np.float64)))
    if power:
        belief *= _shares(votes).astype(np.float64) ** power
    return np.where(np.isneginf(linear), -np.inf, belief).astype(np.float32)


def _shares(votes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Votes against the best of the row; that no one voted for a label does not exclude it."""
    share = votes / np.maximum(votes.max(axis=1, keepdims=True, initial=0.0), 1e-30)
    return np.asarray(np.maximum(share, np.float32(FAINTEST_VOTE)))
