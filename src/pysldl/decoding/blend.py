"""Votes and read-out together."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.light_estimator import clone
from pysldl.decoding.base import Decoder, LatentEvidence, NeighborVote
from pysldl.decoding.joint import CodedRows, JointNeighborDecoder
from pysldl.decoding.neighbors import NeighborDecoder
from pysldl.decoding.readout import LinearReadout
from pysldl.decoding.voting import argbest, quality
from pysldl.exceptions import DataError
from pysldl.metrics.topk import top_k

__all__ = ["BlendDecoder", "mixed_scores"]

WEIGHTS = (0.5, 0.3, 0.7, 0.15, 0.0, 0.85, 1.0)  # tried where none is given; the first of equals is taken
CHOOSING_ROWS = 3000


class BlendDecoder(Decoder):
    """``(1 - weight) * share of the votes + weight * read-out``. Both estimate the same probability.

    Parameters
    ----------
    neighbors : NeighborDecoder or JointNeighborDecoder, optional
        Its votes are normalized whatever it says, so that both parts are on one scale.
    readout : LinearReadout, optional
    weight : float or None
        Part of the read-out, in [0, 1]. None: chosen by P@k and nDCG@k (k = 1, 3, 5) on left-out training rows.

    Attributes
    ----------
    neighbors_ : NeighborDecoder or JointNeighborDecoder
    readout_ : LinearReadout
    weight_ : float
        As given or chosen.
    """

    _saved_state = ("neighbors_", "readout_", "weight_")

    def __init__(
        self,
        neighbors: NeighborDecoder | JointNeighborDecoder | None = None,
        readout: LinearReadout | None = None,
        *,
        weight: float | None = 0.5,
    ) -> None:
        self.neighbors = neighbors
        self.readout = readout
        self.weight = weight

    @property
    def input_kind(self) -> Literal["codes", "features", "both"]:  # type: ignore[override]
        """What its neighbors are compared by; the read-out takes the codes of that."""
        return "codes" if self.neighbors is None else self.neighbors.input_kind

    @property
    def needs_tuning(self) -> bool:
        return self.weight is None or (self.neighbors is not None and self.neighbors.needs_tuning)

    def fit(self, Z: Any, Y: sparse.csr_array) -> Self:
        if self.weight is not None and not 0 <= self.weight <= 1:
            raise DataError(f"weight must lie in [0, 1], but is {self.weight!r}.")
        votes = NeighborDecoder() if self.neighbors is None else clone(self.neighbors)
        if "normalize" in votes.get_params(deep=False):
            votes.set_params(normalize=True)
        before: Any = getattr(self, "neighbors_", None)
        for name, value in votes.get_params(deep=False).items():  # what was chosen before is kept, as the weight is
            if value is None and hasattr(before, f"{name}_"):
                setattr(votes, f"{name}_", getattr(before, f"{name}_"))
        self.weight_ = float(getattr(self, "weight_", WEIGHTS[0]) if self.weight is None else self.weight)
        self.neighbors_ = votes.fit(Z, Y)
        self.readout_ = (LinearReadout() if self.readout is None else clone(self.readout)).fit(_codes(Z), Y)
        return self

    def tune(self, Z_left_out: Any, rows: NDArray[np.integer], Z: Any) -> Self:
        """Choose what the neighbors left open, and then the weight, by the first three thousand of the ``rows``."""
        self.neighbors_.tune(Z_left_out, rows, Z)
        if self.weight is not None:
            return self
        Z_left_out, rows, Y = Z_left_out[:CHOOSING_ROWS], rows[:CHOOSING_ROWS], self.neighbors_.Y_
        votes = self.neighbors_.loo_scores(Z_left_out, rows, Z, Y)
        readout = self.readout_.loo_scores(_codes(Z_left_out), rows, _codes(Z), Y)

        def of_mixture(weight: float) -> float:
            return quality(Y[rows], top_k(mixed_scores(votes, readout, weight), 5)[0], ks=(1, 3, 5))

        self.weight_ = argbest(WEIGHTS, of_mixture)
        return self

    def scores(self, Z: Any) -> NDArray[np.float32]:
        return mixed_scores(self.neighbors_.scores(Z), self.readout_.scores(_codes(Z)), self._weight)

    @property
    def has_neighbor_path(self) -> bool:
        return not self.needs_tuning and (self.neighbors is None or self.neighbors.has_neighbor_path)

    def scores_path(self, Z: Any, n_neighbors: Sequence[int]) -> Iterator[NDArray[np.float32]]:
        readout = self.readout_.scores(_codes(Z))
        for votes in self.neighbors_.scores_path(Z, n_neighbors):
            yield mixed_scores(votes, readout, self._weight)

    def loo_scores(
        self, Z_left_out: Any, rows: NDArray[np.integer], Z: Any, Y: sparse.csr_array
    ) -> NDArray[np.float32]:
        return mixed_scores(
            self.neighbors_.loo_scores(Z_left_out, rows, Z, Y),
            self.readout_.loo_scores(_codes(Z_left_out), rows, _codes(Z), Y),
            self._weight,
        )

    def evidence(self, z: Any, label: int) -> LatentEvidence:
        code = z.codes[0] if isinstance(z, CodedRows) else z
        votes, readout = self.neighbors_.evidence(z, label), self.readout_.evidence(code, label)
        share = 1.0 - self._weight
        return LatentEvidence(
            share * votes.score + self._weight * readout.score,
            [NeighborVote(v.row, v.similarity, share * v.contribution) for v in votes.votes],
            self._weight * readout.direction,
            "read-out's part of the score",
            terms_in_score=True,
        )

    @property
    def _weight(self) -> float:
        """As chosen; a model that an earlier version saved knows only what it was given."""
        return float(getattr(self, "weight_", self.weight))  # type: ignore[arg-type]

    def memory(self, n_samples: int, n_components: int, n_labels: int) -> int:
        parts = (NeighborDecoder(), LinearReadout())
        return sum(part.memory(n_samples, n_components, n_labels) for part in parts)


def _codes(Z: Any) -> NDArray[np.float32]:
    return Z.codes if isinstance(Z, CodedRows) else Z


def mixed_scores(votes: sparse.csr_array, readout: NDArray[np.float32], weight: float) -> NDArray[Any]:
    """``(1 - weight) * votes + weight * readout``, dense of shape (n_rows, n_labels)."""
    mixed = np.float32(weight) * readout
    ballots = votes.tocoo()
    mixed[ballots.row, ballots.col] += np.float32(1.0 - weight) * ballots.data
    return mixed
