"""What every decoder offers to the classifier."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

__all__ = ["Decoder", "LatentEvidence", "NeighborVote"]


@dataclass(frozen=True)
class NeighborVote:
    """One training row that spoke for a label: how similar it is, and its part of the label's score."""

    row: int
    similarity: float
    contribution: float


@dataclass(frozen=True)
class LatentEvidence:
    """Why a code got its score for one label.

    Attributes
    ----------
    score : float
    votes : list of NeighborVote
        Strongest first; empty for a decoder without neighbours.
    direction : ndarray of shape (n_components,)
        ``direction · code`` is the linear part of the score; carried back through the mapping it gives the terms
        of the features.
    meaning : str
        What the linear terms add up to, in words.
    """

    score: float
    votes: list[NeighborVote]
    direction: NDArray[np.floating]
    meaning: str


class Decoder(BaseEstimator):
    """Latent codes to label scores."""

    _saved_state: tuple[str, ...] = ()

    def fit(self, Z: NDArray[np.float32], Y: sparse.csr_array) -> Self:
        """Learn from training codes ``Z`` (n_samples, n_components) and their labels ``Y`` (n_samples, n_labels)."""
        raise NotImplementedError

    def scores(self, Z: NDArray[np.float32]) -> Any:
        """Scores of codes, (n_rows, n_labels): CSR (unstored labels are not predicted) or dense."""
        raise NotImplementedError

    def left_out_scores(
        self,
        Z_left_out: NDArray[np.float32],
        rows: NDArray[np.integer],
        Z: NDArray[np.float32],
        Y: sparse.csr_array,
    ) -> Any:
        """Scores that training ``rows`` would get had they not been in the training set.

        ``Z_left_out`` holds the codes of ``rows`` from a mapping that never saw them; ``Z`` and ``Y`` are what
        ``fit`` got.
        """
        raise NotImplementedError

    def evidence(self, z: NDArray[np.float32], label: int) -> LatentEvidence:
        """Why the code ``z`` of shape (n_components,) got its score for ``label``."""
        raise NotImplementedError

    def memory(self, n_samples: int, n_components: int, n_labels: int) -> int:
        """Bytes that the fitted decoder holds."""
        raise NotImplementedError
