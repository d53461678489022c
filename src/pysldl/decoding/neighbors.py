"""Votes of the nearest neighbors in the latent space (Eqs. 19 and 20)."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.constraints import Count, Positive, has_methods
from pysldl._utils.light_estimator import clone, validate_parameters
from pysldl.backend.topk import top_k_or_zero
from pysldl.backend.voting import vote_top, vote_totals
from pysldl.decoding.base import Ballots, Decoder, LatentEvidence, NeighborVote, clip_n_neighbors, label_prior
from pysldl.neighbors.exact import ExactIndex, NeighborIndex


@dataclass(eq=False, repr=False)
class NeighborDecoder(Decoder):
    """Each of the nearest training rows votes for its labels with weight 1/d, d the cosine distance.

    Parameters
    ----------
    n_neighbors : int
        The paper's k. Reduced, with a warning, where there are fewer training rows.
    normalize : bool
        Divide by the sum of the weights, so that scores are shares in [0, 1] that can be compared between rows. The
        paper does not; the ranking within a row is the same.
    min_distance : float
        Floor of d, where two codes coincide.
    exact_match : {"floor", "only"}
        Whether a neighbor at distance zero votes with the weight of the floor or, as in the authors' code, is the only
        one that votes.
    index : NeighborIndex, optional
        How neighbors are found: :class:`~pysldl.neighbors.exact.ExactIndex` by default, or
        :class:`~pysldl.neighbors.faiss_index.FaissIndex`.

    Attributes
    ----------
    index_ : NeighborIndex
    Y_ : csr_array of shape (n_samples, n_labels)
        Labels of the training rows.
    prior_ : csr_array of shape (1, n_labels)
        Share of training rows with each label: the scores of a code that is zero and so has no direction.
    n_neighbors_ : int
        Neighbors that vote.

    References
    ----------
    "Scalable Label Distribution Learning", Eqs. 19 (cosine distance) and 20 (votes).

    Examples
    --------
    >>> Z, Y = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]], dtype=np.float32), sparse.csr_array(np.eye(3))
    >>> NeighborDecoder(n_neighbors=2).fit(Z, Y).scores(np.array([[2.0, 1.0]], dtype=np.float32)).toarray().round(2)
    array([[0.33, 0.67, 0.  ]])
    """

    n_neighbors: Count = 30
    _: KW_ONLY
    normalize: bool = True
    min_distance: Positive = 1e-6
    exact_match: Literal["floor", "only"] = "floor"
    index: Annotated[NeighborIndex | None, has_methods("fit", "search"), None] = None

    scores_are_sparse = True
    _saved_state = ("index_", "Y_", "prior_", "n_neighbors_")

    def fit(self, Z: NDArray[np.float32], Y: sparse.csr_array) -> Self:
        validate_parameters(self)
        self.n_neighbors_ = clip_n_neighbors(self.n_neighbors, Y.shape[0])
        self.Y_, self.prior_ = Y, label_prior(Y)
        self.index_ = (ExactIndex() if self.index is None else clone(self.index)).fit(Z).tune(self.n_neighbors_)
        return self

    def scores(self, Z: NDArray[np.float32]) -> sparse.csr_array:
        return vote_totals(*self.ballots(Z), self.Y_, self.prior_)

    @property
    def has_neighbor_path(self) -> bool:
        return self.index is None or isinstance(self.index, ExactIndex)  # others are tuned to the number of neighbors

    def scores_path(self, Z: NDArray[np.float32], n_neighbors: Sequence[int]) -> Iterator[sparse.csr_array]:
        """Scores for several numbers of neighbors: the nearest k are the first of those of the largest search."""
        neighbors, distances = self.index_.search(Z, min(max(n_neighbors), self.n_neighbors_))
        for k in n_neighbors:
            yield vote_totals(*self._ballots(Z, neighbors[:, :k], distances[:, :k]), self.Y_, self.prior_)

    def candidates(self, Z: NDArray[np.float32], m: int) -> tuple[Any, Any]:
        return self._vote_top(self.ballots(Z), m)

    def loo_candidates(
        self, Z_left_out: Any, rows: NDArray[np.integer], Z: Any, Y: sparse.csr_array, m: int
    ) -> tuple[Any, Any]:
        return self._vote_top(self.ballots(Z_left_out, rows), m)

    def loo_scores(
        self, Z_left_out: NDArray[np.float32], rows: NDArray[np.integer], Z: NDArray[np.float32], Y: sparse.csr_array
    ) -> sparse.csr_array:
        return vote_totals(*self.ballots(Z_left_out, rows), self.Y_, self.prior_)

    def ballots(self, Z: NDArray[np.float32], exclude: NDArray[np.integer] | None = None) -> Ballots:
        """Who votes for the labels of rows; ``exclude`` is one training row each, which may not."""
        k = self.n_neighbors_ if exclude is None else max(1, min(self.n_neighbors_, self.Y_.shape[0] - 1))
        return self._ballots(Z, *self.index_.search(Z, k, exclude=exclude))

    def evidence(self, z: NDArray[np.float32], label: int) -> LatentEvidence:
        neighbors, distances = self.index_.search(z[None, :], self.n_neighbors_)
        weights = self._weights(distances)[0]
        column = self.Y_[neighbors[0]][:, [label]].toarray().ravel()
        contributions = weights * column
        if not z.any():  # the prior answered, no neighbor did
            contributions[:] = 0.0
        for_label = np.flatnonzero(contributions)
        votes = [
            NeighborVote(int(neighbors[0, i]), float(1.0 - distances[0, i]), float(contributions[i]))
            for i in for_label[np.argsort(-contributions[for_label], kind="stable")]
        ]
        # The mean cosine to the voters is linear in the code, once the code's length is fixed.
        pull = contributions @ self.index_.vectors_[neighbors[0]]
        length = float(np.linalg.norm(z)) * float(contributions.sum())
        direction = pull / length if length > 0 else np.zeros_like(pull)
        score = float(contributions.sum()) if z.any() else float(self.prior_[0, label])
        return LatentEvidence(score, votes, direction, "similarity to the neighbors that carry the label")

    def memory(self, n_samples: int, n_components: int, n_labels: int) -> int:
        return 4 * n_samples * n_components

    def _ballots(self, Z: NDArray[np.float32], neighbors: NDArray[np.int64], distances: NDArray[np.float64]) -> Ballots:
        silent = np.logical_not(Z.any(axis=1))
        return Ballots(np.where(silent[:, None], -1, neighbors).astype(np.int32), self._weights(distances))

    def _vote_top(self, ballots: Ballots, m: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The m labels with the most votes, without the votes of all others."""
        labels, votes = vote_top(*ballots, self.Y_, m)
        silent = (ballots.neighbors < 0).all(axis=1)
        if silent.any():
            labels[silent], votes[silent] = (best[0] for best in top_k_or_zero(self.prior_, m))
        return labels, votes

    def _weights(self, distances: NDArray[np.float64]) -> NDArray[np.float32]:
        """1/d of every neighbor, with the rules for d near zero, (n_rows, k)."""
        distances = np.maximum(distances, self.min_distance)
        weights = 1.0 / distances
        if self.exact_match == "only":
            exact = distances <= self.min_distance
            weights = np.where(exact.any(axis=1, keepdims=True), exact, weights)
        if self.normalize:
            weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
        return np.asarray(weights, dtype=np.float32)
