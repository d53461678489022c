"""Votes and read-out together."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from pysldl.decoding.base import Decoder, LatentEvidence, NeighborVote
from pysldl.decoding.neighbors import NeighborDecoder
from pysldl.decoding.readout import LinearReadout
from pysldl.exceptions import DataError

__all__ = ["BlendDecoder"]


class BlendDecoder(Decoder):
    """``(1 - weight) * share of the votes + weight * read-out``. Both estimate the same probability.

    Parameters
    ----------
    neighbors : NeighborDecoder, optional
        Its votes are normalised whatever it says, so that both parts are on one scale.
    readout : LinearReadout, optional
    weight : float
        Part of the read-out, in [0, 1].

    Attributes
    ----------
    neighbors_ : NeighborDecoder
    readout_ : LinearReadout
    """

    _saved_state = ("neighbors_", "readout_")

    def __init__(
        self,
        neighbors: NeighborDecoder | None = None,
        readout: LinearReadout | None = None,
        *,
        weight: float = 0.5,
    ) -> None:
        self.neighbors = neighbors
        self.readout = readout
        self.weight = weight

    def fit(self, Z: NDArray[np.float32], Y: sparse.csr_array) -> Self:
        if not 0 <= self.weight <= 1:
            raise DataError(f"weight must lie in [0, 1], but is {self.weight!r}.")
        votes = NeighborDecoder() if self.neighbors is None else clone(self.neighbors)
        self.neighbors_ = votes.set_params(normalize=True).fit(Z, Y)
        self.readout_ = (LinearReadout() if self.readout is None else clone(self.readout)).fit(Z, Y)
        return self

    def scores(self, Z: NDArray[np.float32]) -> NDArray[np.float32]:
        return self._mix(self.neighbors_.scores(Z), self.readout_.scores(Z))

    def left_out_scores(
        self,
        Z_left_out: NDArray[np.float32],
        rows: NDArray[np.integer],
        Z: NDArray[np.float32],
        Y: sparse.csr_array,
    ) -> NDArray[np.float32]:
        return self._mix(
            self.neighbors_.left_out_scores(Z_left_out, rows, Z, Y),
            self.readout_.left_out_scores(Z_left_out, rows, Z, Y),
        )

    def evidence(self, z: NDArray[np.float32], label: int) -> LatentEvidence:
        votes, readout = self.neighbors_.evidence(z, label), self.readout_.evidence(z, label)
        share = 1.0 - self.weight
        return LatentEvidence(
            share * votes.score + self.weight * readout.score,
            [NeighborVote(v.row, v.similarity, share * v.contribution) for v in votes.votes],
            self.weight * readout.direction,
            "read-out's part of the score",
        )

    def memory(self, n_samples: int, n_components: int, n_labels: int) -> int:
        parts = (NeighborDecoder(), LinearReadout())
        return sum(part.memory(n_samples, n_components, n_labels) for part in parts)

    def _mix(self, votes: sparse.csr_array, readout: NDArray[np.float32]) -> NDArray[Any]:
        readout = self.weight * readout
        votes = votes.tocoo()
        readout[votes.row, votes.col] += np.float32(1.0 - self.weight) * votes.data
        return readout
