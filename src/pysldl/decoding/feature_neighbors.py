"""Votes of the nearest neighbors in the original features."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import as_int32_indices, warn_no_numba
from pysldl.backend.inverted_index import search_inverted_index, top_terms
from pysldl.backend.voting import vote_top
from pysldl.decoding.base import Decoder, LatentEvidence, NeighborVote, label_prior, neighbors_to_ask
from pysldl.decoding.voting import NEIGHBORS, TEMPERATURES, best_votes, mask_unmatched, vote_shares, vote_weights
from pysldl.neighbors.exact import dense_rows, index_of, unit_vectors

__all__ = ["FeatureNeighborDecoder"]

CHOOSING_ROWS = 3000


class FeatureNeighborDecoder(Decoder):
    """Neighbors by cosine of the features; no embedding and no mapping are needed, and nothing is trained.

    Sparse features go through an inverted index: only the heaviest terms of a query are looked up, so a search touches
    the rows that share an informative word and no others. Dense ones are compared with every row. Neighbors vote with
    ``exp((s - s_max) / temperature)``.

    Parameters
    ----------
    n_neighbors : int or None
    n_terms : int
        Terms of a sparse query that are looked up: more cost more and find a little more.
    index_terms : int or None
        Heaviest terms of every training row that are indexed; None for all. Fewer make the index smaller and the search
        faster.
    temperature : float or None
        How fast a vote fades with the similarity. What is None is chosen by the votes' P@1, P@5 and nDCG@5 on
        training rows that are left out of the search.

    Attributes
    ----------
    n_neighbors_, temperature_
        As given or chosen.
    postings_ : csr_array of shape (n_features, n_samples) or None
        Sparse training rows, transposed: for each feature the rows that have it among their heaviest.
    vectors_ : ndarray of shape (n_samples, n_features), float32, or None
        Dense training rows.
    Y_ : csr_array of shape (n_samples, n_labels)
    prior_ : csr_array of shape (1, n_labels)
        The answer for a row that shares no term with any training row.
    """

    input_kind = "features"
    scores_are_sparse = True
    _saved_state = ("n_neighbors_", "temperature_", "postings_", "vectors_", "Y_", "prior_")
    postings_: Any
    vectors_: NDArray[np.float32] | None = None  # as in a model that an earlier version saved

    def __init__(
        self,
        n_neighbors: int | None = 50,
        *,
        n_terms: int = 20,
        index_terms: int | None = None,
        temperature: float | None = 0.05,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_terms = n_terms
        self.index_terms = index_terms
        self.temperature = temperature

    def fit(self, Z: Any, Y: sparse.csr_array) -> Self:
        """Index training features ``Z``, of shape (n_samples, n_features), rows scaled to length 1.

        What is to be chosen keeps what was chosen before, or a common value.
        """
        asked = self._given("n_neighbors", NEIGHBORS)
        if self.n_neighbors is not None:
            neighbors_to_ask(asked, Y.shape[0])
        warn_no_numba()
        self.n_neighbors_ = min(asked, Y.shape[0])
        self.temperature_ = float(self._given("temperature", TEMPERATURES))
        self.postings_, self.vectors_ = None, None
        if sparse.issparse(Z):
            self.postings_ = self._postings_of(Z)
        else:
            self.vectors_ = unit_vectors(Z)
        self.Y_ = Y
        self.prior_ = label_prior(Y)
        return self

    def extend(self, Z: Any, Y: sparse.csr_array) -> Self:
        """Index further rows ``Z`` behind the present ones, as a fit to all would; ``Y`` holds the labels of all."""
        self.n_neighbors_ = min(self._given("n_neighbors", NEIGHBORS), Y.shape[0])
        if self.vectors_ is not None:
            self.vectors_ = np.vstack([self.vectors_, unit_vectors(dense_rows(Z))])
        else:
            self.postings_ = as_int32_indices(sparse.hstack([self.postings_, self._postings_of(Z)], format="csr"))
        self.Y_ = Y
        self.prior_ = label_prior(Y)
        return self

    @property
    def needs_tuning(self) -> bool:
        return None in (self.n_neighbors, self.temperature)

    def tune(self, Z_left_out: Any, rows: NDArray[np.integer], Z: Any) -> Self:
        """Choose what was not given, by the first three thousand of the ``rows``."""
        if not self.needs_tuning:
            return self
        rows = rows[:CHOOSING_ROWS]
        counts = NEIGHBORS if self.n_neighbors is None else (self.n_neighbors,)
        temperatures = TEMPERATURES if self.temperature is None else (self.temperature,)
        self.n_neighbors_ = min(max(counts), self.Y_.shape[0])
        found = self._search(Z_left_out[:CHOOSING_ROWS], rows)
        self.n_neighbors_, self.temperature_ = best_votes(found, self.Y_, rows, counts, temperatures)
        return self

    def candidates(self, Z: Any, m: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        return self._vote_top(self._search(Z, None), m)

    def loo_candidates(
        self, Z_left_out: Any, rows: NDArray[np.integer], Z: Any, Y: sparse.csr_array, m: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        return self._vote_top(self._search(Z_left_out, rows), m)

    def scores(self, Z: Any) -> sparse.csr_array:
        return vote_shares(self._search(Z, None), self.temperature_, self.Y_, self.prior_)

    def loo_scores(self, Z_left_out: Any, rows: NDArray[np.integer], Z: Any, Y: sparse.csr_array) -> Any:
        return vote_shares(self._search(Z_left_out, rows), self.temperature_, self.Y_, self.prior_)

    def evidence(self, z: Any, label: int) -> LatentEvidence:
        neighbors, similarities = self._search(z, None)
        there = neighbors[0] >= 0
        neighbors, similarities = neighbors[:, there], similarities[:, there]
        weights = vote_weights(neighbors, similarities, self.temperature_)[0]
        contributions = weights * self.Y_[neighbors[0]][:, [label]].toarray().ravel()
        voted = np.flatnonzero(contributions)
        votes = [
            NeighborVote(int(neighbors[0, i]), float(similarities[0, i]), float(contributions[i]))
            for i in voted[np.argsort(-contributions[voted], kind="stable")]
        ]
        total = float(contributions.sum()) if there.any() else float(self.prior_[0, label])
        share = contributions[voted] / total if total > 0 else contributions[voted]
        if self.vectors_ is not None:
            direction = share @ self.vectors_[neighbors[0, voted]]
        else:
            direction = np.asarray(self.postings_[:, neighbors[0, voted]] @ share).ravel()
        return LatentEvidence(total, votes, direction, "similarity to the neighbors that carry the label")

    def memory(self, n_samples: int, n_components: int, n_labels: int) -> int:
        return 0  # the transposed features, which the classifier counts with its input

    def _queries(self, Z: Any) -> sparse.csr_array:
        return as_int32_indices(top_terms(_float32(Z), self.n_terms))

    def _postings_of(self, Z: Any) -> sparse.csr_array:
        """For each feature the rows of ``Z`` that have it among their heaviest, (n_features, n_rows)."""
        rows = _float32(Z)
        if self.index_terms is not None:
            rows = top_terms(rows, self.index_terms)
        return as_int32_indices(sparse.csr_array(as_int32_indices(rows).T))

    def _search(self, Z: Any, exclude: NDArray[np.integer] | None) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        if self.vectors_ is None:
            return search_inverted_index(self._queries(Z), self.postings_, self.n_neighbors_, exclude)
        k = max(1, min(self.n_neighbors_, self.Y_.shape[0] - (exclude is not None)))
        return mask_unmatched(*index_of(self.vectors_).nearest(unit_vectors(dense_rows(Z)), k, exclude=exclude))

    def _vote_top(
        self, found: tuple[NDArray[np.int32], NDArray[np.float32]], m: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        return vote_top(found[0], vote_weights(*found, self.temperature_), self.Y_, m)


def _float32(X: Any) -> sparse.csr_array:
    return sparse.csr_array(X if sparse.issparse(X) else np.atleast_2d(X), dtype=np.float32)
