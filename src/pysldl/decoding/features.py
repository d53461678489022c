"""Votes of the nearest neighbours in the original features, through an inverted index."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.decoding.base import Decoder, LatentEvidence, NeighborVote, label_prior, neighbors_to_ask, with_prior
from pysldl.kernels import say_what_is_missing, with_small_indices
from pysldl.kernels.postings import heaviest_terms, search_postings
from pysldl.kernels.voting import vote_top

__all__ = ["FeatureNeighborDecoder"]


class FeatureNeighborDecoder(Decoder):
    """Neighbours by cosine of sparse features; no embedding and no mapping are needed, and nothing is trained.

    Only the heaviest terms of a query are looked up, so a search touches the rows that share an informative word and
    no others. Neighbours vote with ``exp((s - s_max) / temperature)``.

    Parameters
    ----------
    n_neighbors : int
    n_terms : int
        Terms of a query that are looked up: more cost more and find a little more.
    temperature : float
        How fast a vote fades with the similarity.

    Attributes
    ----------
    postings_ : csr_array of shape (n_features, n_samples)
        The training rows, transposed: for each feature the rows that have it.
    Y_ : csr_array of shape (n_samples, n_labels)
    prior_ : csr_array of shape (1, n_labels)
        The answer for a row that shares no term with any training row.
    """

    works_on = "features"
    scores_are_sparse = True
    _saved_state = ("postings_", "Y_", "prior_")

    def __init__(self, n_neighbors: int = 50, *, n_terms: int = 20, temperature: float = 0.05) -> None:
        self.n_neighbors = n_neighbors
        self.n_terms = n_terms
        self.temperature = temperature

    def fit(self, Z: Any, Y: sparse.csr_array) -> Self:
        """Index training features ``Z``, of shape (n_samples, n_features), rows scaled to length 1."""
        neighbors_to_ask(self.n_neighbors, Y.shape[0])
        say_what_is_missing()
        self.postings_ = with_small_indices(sparse.csr_array(_float32(Z).T))
        self.postings_.sort_indices()
        self.postings_ = with_small_indices(self.postings_)
        self.Y_ = Y
        self.prior_ = label_prior(Y)
        return self

    def candidates(self, Z: Any, m: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        return self._vote_top(self._search(Z, None), m)

    def left_out_candidates(
        self, Z_left_out: Any, rows: NDArray[np.integer], Z: Any, Y: sparse.csr_array, m: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        return self._vote_top(self._search(Z_left_out, rows), m)

    def scores(self, Z: Any) -> sparse.csr_array:
        neighbors, similarities = self._search(Z, None)
        return self._vote(neighbors, similarities)

    def left_out_scores(self, Z_left_out: Any, rows: NDArray[np.integer], Z: Any, Y: sparse.csr_array) -> Any:
        neighbors, similarities = self._search(Z_left_out, rows)
        return self._vote(neighbors, similarities)

    def evidence(self, z: Any, label: int) -> LatentEvidence:
        neighbors, similarities = self._search(z, None)
        there = neighbors[0] >= 0
        neighbors, similarities = neighbors[:, there], similarities[:, there]
        weights = self._weights(neighbors, similarities)[0]
        contributions = weights * self.Y_[neighbors[0]][:, [label]].toarray().ravel()
        voted = np.flatnonzero(contributions)
        votes = [
            NeighborVote(int(neighbors[0, i]), float(similarities[0, i]), float(contributions[i]))
            for i in voted[np.argsort(-contributions[voted], kind="stable")]
        ]
        total = float(contributions.sum()) if there.any() else float(self.prior_[0, label])
        share = contributions[voted] / total if total > 0 else contributions[voted]
        direction = np.asarray(self.postings_[:, neighbors[0, voted]] @ share).ravel()
        return LatentEvidence(total, votes, direction, "similarity to the neighbours that carry the label")

    def memory(self, n_samples: int, n_components: int, n_labels: int) -> int:
        return 0  # the transposed features, which the classifier counts with its input

    def _search(self, Z: Any, leave_out: NDArray[np.integer] | None) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        queries = heaviest_terms(_float32(Z), self.n_terms)
        return search_postings(queries, self.postings_, min(self.n_neighbors, self.Y_.shape[0]), leave_out)

    def _vote_top(
        self, found: tuple[NDArray[np.int64], NDArray[np.float32]], m: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        return vote_top(found[0], self._weights(*found), self.Y_, m)

    def _weights(self, neighbors: NDArray[np.int64], similarities: NDArray[np.float32]) -> NDArray[np.float32]:
        """Shares that sum to 1 in every row; 0 where there is no neighbour."""
        if similarities.shape[1] == 0:
            return similarities
        weights = np.exp((similarities - similarities[:, :1]) / np.float32(self.temperature))
        weights[neighbors < 0] = 0.0
        totals = weights.sum(axis=1, keepdims=True)
        return np.divide(weights, totals, out=weights, where=totals > 0)

    def _vote(self, neighbors: NDArray[np.int64], similarities: NDArray[np.float32]) -> sparse.csr_array:
        there = neighbors >= 0
        indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        weights = self._weights(neighbors, similarities)
        ballots = sparse.csr_array((weights[there], neighbors[there], indptr), (len(neighbors), self.Y_.shape[0]))
        return with_prior(ballots @ self.Y_, np.logical_not(there.any(axis=1)), self.prior_)


def _float32(X: Any) -> sparse.csr_array:
    return sparse.csr_array(X if sparse.issparse(X) else np.atleast_2d(X), dtype=np.float32)
