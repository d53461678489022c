"""Votes and read-out together."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.constraints import Weight, has_methods
from pysldl._utils.light_estimator import clone, validate_parameters
from pysldl.backend.voting import mixed_top
from pysldl.decoding.base import (
    TUNING_ROWS,
    Ballots,
    Decoder,
    LatentEvidence,
    NeighborVote,
    ScoreParts,
    codes_of,
    formed,
)
from pysldl.decoding.joint import JointNeighborDecoder
from pysldl.decoding.neighbors import NeighborDecoder
from pysldl.decoding.readout import LinearReadout
from pysldl.decoding.voting import best_option, quality

FAINTEST = 1e-9  # the lowest mixed score of a part
WEIGHTS = (0.5, 0.3, 0.7, 0.15, 0.0, 0.85, 1.0)  # tried where none is given; the first of equals is taken


@dataclass(eq=False, repr=False)
class BlendDecoder(Decoder):
    """``(1 - weight) * share of the votes + weight * read-out``. Both estimate the same probability.

    Parameters
    ----------
    neighbors : NeighborDecoder or JointNeighborDecoder, optional
        Its votes are normalized whatever it says, so that both parts are on one scale.
    readout : LinearReadout, optional
        Default :class:`LinearReadout`.
    weight : float or None
        Part of the read-out, in [0, 1]. None: chosen by P@k and nDCG@k (k = 1, 3, 5) on held-out training rows.

    Attributes
    ----------
    neighbors_ : NeighborDecoder or JointNeighborDecoder
    readout_ : LinearReadout
    weight_ : float
        As given or chosen.

    Examples
    --------
    >>> Z, Y = np.eye(2, dtype=np.float32), sparse.csr_array(np.eye(2))
    >>> decoder = BlendDecoder(NeighborDecoder(n_neighbors=1), weight=0.25).fit(Z, Y)
    >>> decoder.scores(Z)
    array([[0.875, 0.   ],
           [0.   , 0.875]], dtype=float32)
    """

    neighbors: Annotated[NeighborDecoder | JointNeighborDecoder | None, has_methods("fit", "scores"), None] = None
    readout: Annotated[LinearReadout | None, has_methods("fit", "scores"), None] = None
    _: KW_ONLY
    weight: Weight | None = 0.5

    has_readout = has_parts = True
    _saved_state = ("neighbors_", "readout_", "weight_")

    @property
    def input_kind(self) -> Literal["codes", "features", "both"]:  # type: ignore[override]
        """What its neighbors are compared by; the read-out takes the codes of that."""
        return "codes" if self.neighbors is None else self.neighbors.input_kind

    @property
    def takes_unformed_codes(self) -> bool:  # type: ignore[override]
        """Whether its neighbors, too, only ask for products with codes."""
        return isinstance(self.neighbors, JointNeighborDecoder) and self.neighbors.n_axes is not None

    @property
    def needs_tuning(self) -> bool:
        return self.weight is None or (self.neighbors is not None and self.neighbors.needs_tuning)

    def fit(self, Z: Any, Y: sparse.csr_array) -> Self:
        validate_parameters(self)
        votes, readout = (clone(part) for part in self._parts())
        if "normalize" in votes.get_params(deep=False):
            votes.set_params(normalize=True)
        before: Any = getattr(self, "neighbors_", None)
        for name, value in votes.get_params(deep=False).items():  # what was chosen before is kept, as the weight is
            if value is None and hasattr(before, f"{name}_"):
                setattr(votes, f"{name}_", getattr(before, f"{name}_"))
        self.weight_ = float(self._given("weight", WEIGHTS[0]))
        self.neighbors_ = votes.fit(Z, Y)
        self.readout_ = readout.fit(codes_of(Z), Y)
        return self

    def tune(self, Z_left_out: Any, rows: NDArray[np.integer], Z: Any) -> Self:
        """Choose what the neighbors left open, and then the weight, by the first thousand of the ``rows``."""
        Z_left_out, rows, Y = Z_left_out[:TUNING_ROWS], rows[:TUNING_ROWS], self.neighbors_.Y_
        readout = self.readout_.loo_scores(codes_of(Z_left_out), rows, codes_of(Z), Y)
        own, n_best = Y[rows], min(5, Y.shape[1])

        def of_mixture(ballots: Ballots, weight: float) -> float:
            best = mixed_top(*ballots, Y, self.neighbors_.prior_, readout, weight, n_best)[0]
            return quality(own, np.pad(best, ((0, 0), (0, 5 - n_best)), constant_values=-1), ks=(1, 3, 5))

        if isinstance(self.neighbors_, JointNeighborDecoder) and self.neighbors_.needs_tuning:
            shares = (0.0, WEIGHTS[0]) if self.weight is None else (self.weight,)
            self.neighbors_.tune(Z_left_out, rows, Z, lambda found: max(of_mixture(found, share) for share in shares))
            ballots = self.neighbors_.pop_tuned_ballots()
        else:
            ballots = self.neighbors_.ballots(Z_left_out, rows)
        if self.weight is None:
            self.weight_ = best_option(WEIGHTS, lambda weight: of_mixture(ballots, weight))
        return self

    def scores(self, Z: Any) -> NDArray[np.float32]:
        return self._mixture(lambda: self.neighbors_.scores(Z), lambda: self.readout_.scores(codes_of(Z)))

    @property
    def readout_weights(self) -> NDArray[np.float32]:
        weights: NDArray[np.float32] = self.readout_.readout_weights
        return weights

    @property
    def has_neighbor_path(self) -> bool:
        return not self.needs_tuning and (self.neighbors is None or self.neighbors.has_neighbor_path)

    def scores_path(self, Z: Any, n_neighbors: Sequence[int]) -> Iterator[NDArray[np.float32]]:
        readout = self.readout_.scores(codes_of(Z))
        for votes in self.neighbors_.scores_path(Z, n_neighbors):
            yield mixed_scores(votes, readout, self.weight_)

    def loo_scores(
        self, Z_left_out: Any, rows: NDArray[np.integer], Z: Any, Y: sparse.csr_array
    ) -> NDArray[np.float32]:
        return self._mixture(
            lambda: self.neighbors_.loo_scores(Z_left_out, rows, Z, Y),
            lambda: self.readout_.loo_scores(codes_of(Z_left_out), rows, codes_of(Z), Y),
        )

    def score_parts(self, Z: Any, m: int) -> ScoreParts:
        """The m best labels of every row, with the read-out's score, the share of the votes, and both mixed."""
        ballots, codes = self.neighbors_.ballots(Z), codes_of(Z)
        if self.weight_ > 0:
            return self._best_parts(ballots, self.readout_.scores(codes), m)
        labels, votes, scores = self._best_mixed(ballots, None, m)
        return ScoreParts(labels, self.readout_.scores_of(codes, labels), votes, scores)

    def loo_score_parts(
        self, Z_left_out: Any, rows: NDArray[np.integer], Z: Any, Y: sparse.csr_array, m: int
    ) -> ScoreParts:
        """The same for training ``rows`` that may not speak for themselves."""
        ballots = self.neighbors_.ballots(Z_left_out, rows)
        return self._best_parts(ballots, self.readout_.loo_scores(codes_of(Z_left_out), rows, codes_of(Z), Y), m)

    def _best_parts(self, ballots: Ballots, readout: NDArray[np.float32], m: int) -> ScoreParts:
        labels, votes, scores = self._best_mixed(ballots, readout, m)
        return ScoreParts(labels, np.take_along_axis(readout, labels.astype(np.intp), axis=1), votes, scores)

    def _best_mixed(
        self, ballots: Ballots, readout: NDArray[np.float32] | None, m: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
        Y, prior = self.neighbors_.Y_, self.neighbors_.prior_
        # A read-out may be below zero, where no probability is.
        return mixed_top(*ballots, Y, prior, readout, self.weight_, min(m, Y.shape[1]), FAINTEST)

    def _mixture(
        self, votes: Callable[[], sparse.csr_array], readout: Callable[[], NDArray[np.float32]]
    ) -> NDArray[np.float32]:
        """Both parts mixed; a part without weight is not computed."""
        if self.weight_ == 0:
            return np.asarray(votes().toarray(), dtype=np.float32)
        return readout() if self.weight_ == 1 else mixed_scores(votes(), readout(), self.weight_)

    def evidence(self, z: Any, label: int) -> LatentEvidence:
        code = formed(codes_of(z))[0] if self.input_kind == "both" else z
        votes, readout = self.neighbors_.evidence(z, label), self.readout_.evidence(code, label)
        share = 1.0 - self.weight_
        return LatentEvidence(
            share * votes.score + self.weight_ * readout.score,
            [NeighborVote(v.row, v.similarity, share * v.contribution) for v in votes.votes],
            self.weight_ * readout.direction,
            "total of the linear part of the score",
            terms_in_score=True,
        )

    def memory(self, n_samples: int, n_components: int, n_labels: int) -> int:
        return sum(part.memory(n_samples, n_components, n_labels) for part in self._parts())

    def _parts(self) -> tuple[NeighborDecoder | JointNeighborDecoder, LinearReadout]:
        return self.neighbors or NeighborDecoder(), self.readout or LinearReadout()


def mixed_scores(votes: sparse.csr_array, readout: NDArray[np.float32], weight: float) -> NDArray[Any]:
    """``(1 - weight) * votes + weight * readout``, dense of shape (n_rows, n_labels)."""
    mixed = np.float32(weight) * readout
    ballots = votes.tocoo()
    mixed[ballots.row, ballots.col] += np.float32(1.0 - weight) * ballots.data
    return mixed
