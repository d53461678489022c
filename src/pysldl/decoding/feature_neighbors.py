"""Votes of the nearest neighbors in the original features."""

from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.constraints import Count, Positive
from pysldl._utils.light_estimator import validate_parameters
from pysldl.backend.dispatch import warn_no_numba
from pysldl.backend.linear_algebra import dense_rows, unit_vectors
from pysldl.decoding.base import TUNING_ROWS, LatentEvidence, clip_n_neighbors, label_prior
from pysldl.decoding.joint import JointNeighborDecoder
from pysldl.decoding.voting import NEIGHBORS, TEMPERATURES, Found, SimilarityDecoder, best_votes, mask_unmatched
from pysldl.neighbors.exact import ExactIndex, index_of
from pysldl.neighbors.inverted_index import MAX_POSTINGS, InvertedIndex
from pysldl.preprocessing.features import is_mostly_dense


@dataclass(eq=False, repr=False)
class FeatureNeighborDecoder(SimilarityDecoder):
    """Neighbors by cosine of the features; no embedding and no mapping are needed, and nothing is trained.

    Sparse features go through an inverted index: only the heaviest terms of a query are looked up, the rarest first, so
    a search touches the rows that share an informative word and no others. Dense ones, and sparse ones of which most
    values are not zero, are compared with every row. Neighbors vote with ``exp((s - s_max) / temperature)``.

    Parameters
    ----------
    n_neighbors : int or None
        Training rows that vote; None chooses, see ``temperature``.
    n_terms : int
        Terms of a sparse query that are looked up: more cost more and find a little more.
    index_terms : int or None
        Heaviest terms of every training row that are indexed; None for all. Fewer make the index smaller and the search
        faster.
    max_postings : int
        Postings that a sparse query reads at most, those of its rarest terms: see
        :class:`~pysldl.neighbors.InvertedIndex`.
    temperature : float or None
        How fast the weight of a vote falls with the similarity. What is None is chosen by the votes' P@1, P@5 and
        nDCG@5 on training rows that are left out of the search.

    Attributes
    ----------
    n_neighbors_, temperature_
        As given or chosen.
    index_ : InvertedIndex or ExactIndex
        Of sparse or dense training rows.
    Y_ : csr_array of shape (n_samples, n_labels)
    prior_ : csr_array of shape (1, n_labels)
        Share of training rows with each label: the scores of a row without a term in common with training rows.

    Examples
    --------
    >>> X, Y = sparse.csr_array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), sparse.csr_array(np.eye(3, dtype=np.float32))
    >>> decoder = FeatureNeighborDecoder(n_neighbors=2).fit(X, Y)
    >>> decoder.candidates(sparse.csr_array([[0.0, 1.0]]), m=2)[0]
    array([[2, 1]], dtype=int32)
    """

    n_neighbors: Count | None = 50
    _: KW_ONLY
    n_terms: Count = 20
    index_terms: Count | None = None
    max_postings: Count = MAX_POSTINGS
    temperature: Positive | None = 0.05

    input_kind = "features"
    _saved_state = ("n_neighbors_", "temperature_", "index_", "Y_", "prior_")

    def fit(self, Z: Any, Y: sparse.csr_array) -> Self:
        """Index training features ``Z``, of shape (n_samples, n_features), rows scaled to length 1.

        What is to be chosen keeps what was chosen before, or a common value.
        """
        validate_parameters(self)
        if self.n_neighbors is not None:
            clip_n_neighbors(self.n_neighbors, Y.shape[0])
        warn_no_numba()
        self.temperature_ = float(self._given("temperature", TEMPERATURES[0]))
        self.index_: InvertedIndex | ExactIndex = (
            InvertedIndex(self.n_terms, index_terms=self.index_terms, max_postings=self.max_postings).fit(Z)
            if sparse.issparse(Z) and not is_mostly_dense(Z)
            else ExactIndex().fit(dense_rows(Z))
        )
        return self._take_labels(Y)

    def extend(self, Z: Any, Y: sparse.csr_array) -> Self:
        """Index further rows ``Z`` behind the present ones, as a fit to all would; ``Y`` holds the labels of all."""
        if isinstance(self.index_, InvertedIndex):
            self.index_ = copy(self.index_).extend(Z)
        else:
            self.index_ = index_of(np.vstack([self.index_.vectors_, unit_vectors(dense_rows(Z))]))
        return self._take_labels(Y)

    def beside_vectors(self) -> JointNeighborDecoder:
        """Return an unfitted decoder with these parameters for rows that have vectors beside their features."""
        return JointNeighborDecoder(self.n_neighbors, temperature=self.temperature, n_terms=self.n_terms)

    def _take_labels(self, Y: sparse.csr_array) -> Self:
        self.n_neighbors_ = min(self._given("n_neighbors", NEIGHBORS[0]), Y.shape[0])
        self.Y_, self.prior_ = Y, label_prior(Y)
        return self

    @property
    def postings_(self) -> sparse.csr_array | None:
        """The inverted index, (n_features, n_samples); None for dense features."""
        return getattr(self.index_, "postings_", None)

    @property
    def needs_tuning(self) -> bool:
        return None in (self.n_neighbors, self.temperature)

    def tune(self, Z_left_out: Any, rows: NDArray[np.integer], Z: Any) -> Self:
        """Choose what was not given, by the first thousand of the ``rows``."""
        if not self.needs_tuning:
            return self
        rows = rows[:TUNING_ROWS]
        counts = NEIGHBORS if self.n_neighbors is None else (self.n_neighbors,)
        temperatures = TEMPERATURES if self.temperature is None else (self.temperature,)
        found = self._search(Z_left_out[:TUNING_ROWS], rows, min(max(counts), self.Y_.shape[0]))
        self.n_neighbors_, self.temperature_ = best_votes(found, self.Y_, rows, counts, temperatures)
        return self

    def evidence(self, z: Any, label: int) -> LatentEvidence:
        score, votes, neighbors, share = self._votes_for(z, label)
        if isinstance(self.index_, InvertedIndex):
            direction = np.asarray(self.index_.postings_[:, neighbors] @ share).ravel()
        else:
            direction = share @ self.index_.vectors_[neighbors]
        return LatentEvidence(score, votes, direction, "similarity to the neighbors that carry the label")

    def memory(self, n_samples: int, n_components: int, n_labels: int) -> int:
        return 0  # the transposed features, which the classifier counts with its input

    def split_candidates(
        self,
        Z_left_out: Any,
        rows: NDArray[np.integer],
        Z: Any,
        Y: sparse.csr_array,
        m: int,
        is_held: NDArray[np.bool_],
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32]]:
        if not isinstance(self.index_, InvertedIndex):
            return super().split_candidates(Z_left_out, rows, Z, Y, m, is_held)
        votes = {"n_neighbors": self.n_neighbors_, "temperature": self.temperature_}
        return self.index_.split_votes(Z_left_out, self.Y_, m, exclude=rows, is_held=is_held, **votes)  # type: ignore[arg-type]

    def _search(self, Z: Any, exclude: NDArray[np.integer] | None, k: int) -> Found:
        if isinstance(self.index_, InvertedIndex):
            return self.index_.nearest(Z, k, exclude=exclude)
        k = max(1, min(k, self.Y_.shape[0] - (exclude is not None)))
        return mask_unmatched(*self.index_.nearest(unit_vectors(dense_rows(Z)), k, exclude=exclude))
