"""How much the vote of each neighbor counts, how to choose that, and the decoders that vote by similarity."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.voting import split_votes, vote_top, vote_totals, vote_weights
from pysldl.decoding.base import Ballots, Decoder, NeighborVote
from pysldl.metrics.ranking import evaluate_rows

# What is tried where nothing is asked for; the first is left only for something clearly better.
TEMPERATURES = (0.05, 0.03, 0.08, 0.02, 0.15, 0.3)
NEIGHBORS = (30, 50, 20, 10, 100)
CLEARLY = 0.01
EQUAL = 1e-9  # qualities that are closer differ by rounding

T = TypeVar("T")
Found = tuple[NDArray[np.int32], NDArray[np.float32]]  # neighbors and similarities, best first; -1 and 0 for none


class SimilarityDecoder(Decoder):
    """Base of the decoders whose neighbors vote with ``exp((s - s_max) / temperature)``: a subclass finds them.

    Attributes
    ----------
    n_neighbors_, temperature_
        As given or chosen.
    Y_ : csr_array of shape (n_samples, n_labels)
    prior_ : csr_array of shape (1, n_labels)
        The answer for a row that is near to nothing.
    """

    scores_are_sparse = True
    candidate_neighbors = 1  # asked for candidates at least
    n_neighbors_: int
    temperature_: float
    Y_: sparse.csr_array
    prior_: sparse.csr_array

    def _search(self, Z: Any, exclude: NDArray[np.integer] | None, k: int) -> Found:
        """The k nearest rows of ``Z``, and their similarities."""
        raise NotImplementedError

    def candidates(self, Z: Any, m: int) -> Found:
        return self._vote_top(self._search(Z, None, max(self.n_neighbors_, self.candidate_neighbors)), m)

    def loo_candidates(self, Z_left_out: Any, rows: NDArray[np.integer], Z: Any, Y: sparse.csr_array, m: int) -> Found:
        k = max(self.n_neighbors_, self.candidate_neighbors)
        return self._vote_top(self._search(Z_left_out, rows, k), m)

    def split_candidates(
        self,
        Z_left_out: Any,
        rows: NDArray[np.integer],
        Z: Any,
        Y: sparse.csr_array,
        m: int,
        is_held: NDArray[np.bool_],
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32]]:
        found = self._search(Z_left_out, rows, max(self.n_neighbors_, self.candidate_neighbors))
        return split_votes(*found, self.temperature_, self.Y_, m, is_held)

    def scores(self, Z: Any) -> sparse.csr_array:
        return vote_totals(*self.ballots(Z), self.Y_, self.prior_)

    def loo_scores(self, Z_left_out: Any, rows: NDArray[np.integer], Z: Any, Y: sparse.csr_array) -> sparse.csr_array:
        return vote_totals(*self.ballots(Z_left_out, rows), self.Y_, self.prior_)

    def ballots(self, Z: Any, exclude: NDArray[np.integer] | None = None) -> Ballots:
        """Who votes for the labels of rows: ``exclude`` is one training row each, which may not."""
        return ballots_of(self._search(Z, exclude, self.n_neighbors_), self.temperature_)

    def _vote_top(self, found: Found, m: int) -> Found:
        return vote_top(found[0], vote_weights(*found, self.temperature_), self.Y_, m)

    def _votes_for(self, z: Any, label: int) -> tuple[float, list[NeighborVote], NDArray[np.int32], NDArray[Any]]:
        """The score of ``label`` for one row, its votes, strongest first, who gave them, and their shares of it."""
        neighbors, similarities = (found[0] for found in self._search(z, None, self.n_neighbors_))
        weights = vote_weights(neighbors[None], similarities[None], self.temperature_)[0]
        contributions = weights * self.Y_[np.maximum(neighbors, 0)][:, [label]].toarray().ravel()
        voted = np.flatnonzero(contributions)
        voted = voted[np.argsort(-contributions[voted], kind="stable")]
        votes = [NeighborVote(int(neighbors[i]), float(similarities[i]), float(contributions[i])) for i in voted]
        total = float(contributions.sum()) if (neighbors >= 0).any() else float(self.prior_[0, label])
        share = contributions[voted] / total if total > 0 else contributions[voted]
        return total, votes, neighbors[voted], share


def best_option(options: Sequence[T], quality_of: Callable[[T], float], tolerance: float = EQUAL) -> T:
    """The first option whose quality is within ``tolerance`` of the highest; by default, equal up to rounding.

    Examples
    --------
    >>> best_option((1, 2, 3), {1: 0.3, 2: 0.1 + 0.2, 3: 0.0}.get)
    1
    """
    qualities = [quality_of(option) for option in options]
    enough = max(qualities) - tolerance
    return next(option for option, quality in zip(options, qualities, strict=True) if quality >= enough)


def ballots_of(found: Found, temperature: float) -> Ballots:
    """What neighbors that were found vote with."""
    return Ballots(np.ascontiguousarray(found[0]), vote_weights(*found, temperature))


def mask_unmatched(neighbors: NDArray[np.int32], similarities: NDArray[np.float32]) -> Found:
    """Neighbors without a positive similarity become -1, with similarity 0."""
    unmatched = np.logical_not(similarities > 0)
    return np.where(unmatched, np.int32(-1), neighbors), np.where(unmatched, np.float32(0.0), similarities)


def quality(
    Y: sparse.csr_array,
    labels: NDArray[np.integer],
    inv_propensity: NDArray[Any] | None = None,
    *,
    ks: tuple[int, ...] = (1, 5),
) -> float:
    """The criterion of all choices on held-out rows: the sum of P@k and nDCG@k of labels, best first.

    With inverse propensities, (n_labels,), the sum of PSP@k and PSnDCG@k. With few rows more ``ks`` are better: P@1 is
    0 or 1 for each row, and its mean over a few hundred rows mostly chance.
    """
    return float(row_quality(Y, labels, inv_propensity, ks=ks).mean())


def row_quality(
    Y: sparse.csr_array,
    labels: NDArray[np.integer],
    inv_propensity: NDArray[Any] | None = None,
    *,
    ks: tuple[int, ...] = (1, 5),
) -> NDArray[np.float64]:
    """Every row's part of :func:`quality`, which is the mean over rows."""
    metrics = evaluate_rows(Y, labels, ks, inv_propensity)
    kind = "" if inv_propensity is None else "PS"
    parts = [metrics[f"{kind}P@{k}"] for k in ks] + [metrics[f"{kind}nDCG@{k}"] for k in ks if k > 1]
    return np.asarray(sum(parts))


def clearly_better(quality: NDArray[np.float64], other: NDArray[np.float64], errors: float = 1.0) -> bool:
    """Whether the mean of the same rows' :func:`row_quality` is higher by more than ``errors`` standard errors.

    A negative number of them asks whether it is not clearly worse.

    Examples
    --------
    >>> rows = np.array([0.0, 1.0, 0.0, 1.0])
    >>> clearly_better(rows + 0.1, rows), clearly_better(rows, rows), clearly_better(1 - rows, rows)
    (True, False, False)
    """
    gain = quality - other
    return bool(gain.mean() - errors * gain.std() / np.sqrt(len(gain)) > EQUAL)


def best_votes(
    found: Found,
    Y: sparse.csr_array,
    rows: NDArray[np.integer],
    counts: tuple[int, ...],
    temperatures: tuple[float, ...],
) -> tuple[int, float]:
    """The number of neighbors and the temperature whose votes have the largest sum of P@1, P@5 and nDCG@5.

    It is the first of each, unless the best is ahead by more than chance on a few thousand rows. ``found`` are the
    neighbors of the training ``rows``, themselves left out, and their similarities, best first.
    """
    own = Y[rows]

    def of_votes(setting: tuple[int, float]) -> float:
        k, temperature = setting
        neighbors, similarities = np.ascontiguousarray(found[0][:, :k]), found[1][:, :k]
        labels, _ = vote_top(neighbors, vote_weights(neighbors, similarities, temperature), Y, 5)
        return quality(own, labels)

    first = (counts[0], temperatures[0])
    k, temperature = best = best_option(list(product(counts, temperatures)), of_votes)
    if of_votes(best) < of_votes(first) + CLEARLY:
        k, temperature = first
    return min(k, Y.shape[0]), float(temperature)
