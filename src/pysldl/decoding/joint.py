"""Neighbors by latent code and by original features together."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.constraints import Count, Positive, Weight
from pysldl._utils.light_estimator import validate_parameters
from pysldl.backend.dispatch import as_int32_indices, warn_no_numba
from pysldl.backend.linear_algebra import dense_rows, evenly_spread, l2_normalize, principal_axes, unit_vectors
from pysldl.backend.nearest import largest, pair_products
from pysldl.backend.topk import drop_duplicates
from pysldl.backend.voting import vote_top, vote_weights
from pysldl.decoding.base import (
    TUNING_ROWS,
    Ballots,
    CodedRows,
    LatentEvidence,
    clip_n_neighbors,
    codes_times,
    formed,
    label_prior,
)
from pysldl.decoding.voting import EQUAL, Found, SimilarityDecoder, ballots_of, best_option, mask_unmatched, quality
from pysldl.neighbors.exact import coarse, index_of, nearest_coarse, nearest_coarse_rows
from pysldl.neighbors.inverted_index import InvertedIndex

# What is tried where nothing is asked for; the first of equals is taken, so the cheapest search comes first.
WEIGHTS = (0.0, 1.0, 0.5, 0.25, 0.75, 0.1)
TEMPERATURES = (0.05, 0.02, 0.1, 0.2, 0.5, 1.0)
NEIGHBORS = (50, 10, 20, 30, 100, 200)
# Beside a read-out: what is common comes first, and is left for what is better by more than chance.
WEIGHTS_BESIDE = (0.75, 0.5, 1.0, 0.25, 0.0)
TEMPERATURES_BESIDE = (0.1, 0.05, 0.2, 0.02, 0.5, 1.0)
NEIGHBORS_COMPARED = (50, 10, 20, 30, 100)  # where codes alone are searched, for no more rows than are compared
COMPARED = 100  # rows near by code that are compared by both parts where codes alone are searched
CHANCE = 0.01  # of a thousand rows
# Up to so many features, and bytes, rows are searched as dense vectors, unless fewer than this share of their values
# differ from zero: then an index that looks up all of them is faster than a plain product.
DENSE_FEATURES, DENSE_BYTES, DENSE_SHARE = 2048, 512 << 20, 1 / 8


@dataclass(eq=False, repr=False)
class JointNeighborDecoder(SimilarityDecoder):
    """Neighbors by ``weight * cos(z) + (1 - weight) * cos(x)``, who vote with ``exp((s - s_max) / temperature)``.

    Rows of few dense features are searched exactly, as one dense vector of both parts. Of rows of sparse features the
    nearest by code and the nearest through an inverted index are taken together and compared anew by both parts.

    Parameters
    ----------
    n_neighbors, weight, temperature : int, float, float or None
        None: chosen by the votes' P@k and nDCG@k (k = 1, 3, 5) on training rows that are left out of the search and,
        in :class:`~pysldl.SLDLClassifier`, have codes of a mapping that never saw them.
    n_terms : int
        Terms of a query that are looked up in the inverted index where there are many features; of few, all are.
    n_axes : int or None
        Compare codes by their projections to so many axes, those of the most variance, and round the vectors of the
        training rows to eight bits: both are smaller and faster, and hardly change a similarity. None: as they are.
    search : {"both", "codes"}
        Of sparse features: look for neighbors by code and through the inverted index, or by code alone, and then for
        a hundred at least; in both cases all that were found are compared by both parts.

    Attributes
    ----------
    n_neighbors_, weight_, temperature_
        As given or chosen.
    axes_ : ndarray of shape (n_components, n_axes), float32, or None
    vectors_ : ndarray of shape (n_samples, n_axes [+ n_features]), float32
        Unit codes and, where the search is exact, unit features beside them.
    index_ : InvertedIndex or None
        Of the features; None where the search is exact.
    Y_ : csr_array of shape (n_samples, n_labels)
    prior_ : csr_array of shape (1, n_labels)
        The answer for a row that is near to nothing.

    Examples
    --------
    >>> rows = CodedRows(np.eye(2, dtype=np.float32), np.array([[1.0, 1.0], [1.0, 0.0]], dtype=np.float32))
    >>> decoder = JointNeighborDecoder(1, weight=0.5, temperature=0.1).fit(rows, sparse.csr_array(np.eye(2)))
    >>> decoder.scores(rows[[1]]).toarray()
    array([[0., 1.]])
    """

    n_neighbors: Count | None = None
    _: KW_ONLY
    weight: Weight | None = None
    temperature: Positive | None = None
    n_terms: Count = 20
    n_axes: Count | None = None
    search: Literal["both", "codes"] = "both"

    input_kind = "both"
    candidate_neighbors = 50  # the votes may do with fewer, a ranker wants more labels
    _saved_state = ("n_neighbors_", "weight_", "temperature_", "axes_", "vectors_", "index_", "Y_", "prior_")
    index_: InvertedIndex | None = field(init=False)
    axes_: NDArray[np.float32] | None = field(init=False)

    def fit(self, Z: CodedRows, Y: sparse.csr_array) -> Self:  # type: ignore[override]
        """Index training rows. What is to be chosen keeps what was chosen before, or a common value."""
        validate_parameters(self)
        warn_no_numba()
        if self.n_neighbors is not None:
            clip_n_neighbors(self.n_neighbors, Y.shape[0])
        self.n_neighbors_ = min(self._given("n_neighbors", NEIGHBORS[0]), Y.shape[0])
        self.weight_ = float(self._given("weight", 0.5))
        self.temperature_ = float(self._given("temperature", TEMPERATURES[0]))
        self.Y_, self.prior_ = Y, label_prior(Y)
        self._features = None
        self.axes_ = None if self.n_axes is None else principal_axes(formed(evenly_spread(Z.codes)), self.n_axes)
        is_exact = _are_dense(Z.features) and (self.search == "both" or not sparse.issparse(Z.features))
        vectors = self._joined(Z) if is_exact else self._unit_codes(Z)
        self.vectors_ = vectors if self.n_axes is None else coarse(vectors)
        self.index_ = None if is_exact else self._empty_index(Z.features).fit(_unit_rows(Z.features))
        return self

    def _empty_index(self, features: sparse.csr_array) -> InvertedIndex:
        n_samples, n_features = features.shape
        if n_features > DENSE_FEATURES:
            return InvertedIndex(self.n_terms)
        return InvertedIndex(n_features, max_postings=max(1, n_samples * n_features))

    @property
    def postings_(self) -> sparse.csr_array | None:
        """The inverted index, (n_features, n_samples); None where the search is exact."""
        return None if self.index_ is None else self.index_.postings_

    @property
    def needs_tuning(self) -> bool:
        return None in (self.weight, self.temperature, self.n_neighbors)

    def tune(
        self,
        Z_left_out: CodedRows,
        rows: NDArray[np.integer],
        Z: CodedRows,
        judge: Callable[[Ballots], float] | None = None,
    ) -> Self:
        """Choose what was not given, on the first thousand ``rows``, with codes as if they had never been seen.

        ``Z`` are all training rows, as ``fit`` got them. ``judge`` says how good votes are, for whoever mixes them with
        something else; by default their best labels are judged.
        """
        if not self.needs_tuning:
            return self
        Z_left_out, rows = Z_left_out[:TUNING_ROWS], rows[:TUNING_ROWS]
        Y = self.Y_[rows]
        weights: tuple[float, ...] = WEIGHTS if judge is None else WEIGHTS_BESIDE
        temperatures: tuple[float, ...] = TEMPERATURES if judge is None else TEMPERATURES_BESIDE
        weights = weights if self.weight is None else (self.weight,)
        temperatures = temperatures if self.temperature is None else (self.temperature,)
        by_codes = self.search == "codes" and self.index_ is not None
        counts: tuple[int, ...] = NEIGHBORS_COMPARED if by_codes else NEIGHBORS
        counts = counts if self.n_neighbors is None else (self.n_neighbors,)
        most = min(max(counts), max(1, self.Y_.shape[0] - 1))
        pairs, of_codes, of_features = self._both_similarities(Z_left_out, rows, most)

        @cache
        def ranked(weight: float) -> Found:
            return _most_similar(pairs, weight * of_codes + np.float32(1 - weight) * of_features, most)

        @cache
        def of_votes(weight: float, temperature: float, k: int) -> float:
            voters = ranked(weight)[0][:, :k], ranked(weight)[1][:, :k]
            if judge is not None:
                return judge(ballots_of(voters, temperature))
            return quality(Y, vote_top(voters[0], vote_weights(*voters, temperature), self.Y_, 5)[0], ks=(1, 3, 5))

        # One after the other: all settings of the three together take ten times as long and choose no better.
        few, first = counts[0], temperatures[0]
        chance = EQUAL if judge is None else CHANCE * np.sqrt(TUNING_ROWS / len(rows))
        if judge is not None:
            first = best_option(temperatures, lambda temperature: of_votes(weights[0], temperature, few), chance)
        weight = best_option(weights, lambda weight: of_votes(weight, first, few), chance)
        temperature = best_option(temperatures, lambda temperature: of_votes(weight, temperature, few), chance)
        k = best_option(counts, lambda k: of_votes(weight, temperature, k), chance)
        found = ranked(weight)
        self.weight_, self.temperature_ = float(weight), float(temperature)
        self.n_neighbors_ = min(k, self.Y_.shape[0])
        if judge is not None:
            self._tuned_ballots = ballots_of((found[0][:, :k], found[1][:, :k]), temperature)
        return self

    def pop_tuned_ballots(self) -> Ballots:
        """Who votes for the rows of :meth:`tune`, as :meth:`ballots` says; they can be asked for once."""
        ballots = self._tuned_ballots
        del self._tuned_ballots
        return ballots

    def evidence(self, z: CodedRows, label: int) -> LatentEvidence:  # type: ignore[override]
        """Why the one row of ``z`` got its score for ``label``."""
        score, votes, neighbors, share = self._votes_for(z, label)
        # The mean similarity to the voters is linear in both parts, once their lengths are fixed.
        pull = share @ self.vectors_[neighbors]
        codes = self._coordinates(z)
        of_codes, of_features = self.weight_ * pull[: codes.shape[1]], (1 - self.weight_) * pull[codes.shape[1] :]
        if self.axes_ is not None:
            of_codes = self.axes_ @ of_codes
        if self.index_ is not None:
            of_features = (1 - self.weight_) * np.asarray(self.index_.postings_[:, neighbors] @ share).ravel()
        values = z.features.data if sparse.issparse(z.features) else z.features
        lengths = [float(np.linalg.norm(part)) for part in (codes, values)]
        return LatentEvidence(
            score,
            votes,
            of_codes / max(lengths[0], 1e-30),
            "similarity to the neighbors that carry the label",
            feature_direction=of_features / max(lengths[1], 1e-30),
        )

    def memory(self, n_samples: int, n_components: int, n_labels: int) -> int:
        return 4 * n_samples * n_components  # the features, or their transpose, the classifier counts with its input

    def _search(self, Z: CodedRows, exclude: NDArray[np.integer] | None, k: int) -> Found:
        k = max(1, min(k, self.Y_.shape[0] - (exclude is not None)))
        if self.index_ is None:
            queries = self._joined(Z)
            width = Z.codes.shape[1] if self.axes_ is None else self.axes_.shape[1]
            queries[:, :width] *= np.float32(self.weight_)
            queries[:, width:] *= np.float32(1 - self.weight_)
            return mask_unmatched(*self._nearest(queries, self.vectors_, k, exclude))
        by = (self.weight_ > 0, self.weight_ < 1)
        pairs, of_codes, of_features = self._union(self._unit_codes(Z), _unit_rows(Z.features), exclude, k, by)
        return _most_similar(pairs, self.weight_ * of_codes + np.float32(1 - self.weight_) * of_features, k)

    def _nearest(
        self, Q: NDArray[np.float32], vectors: NDArray[np.float32], k: int, exclude: NDArray[np.integer] | None
    ) -> Found:
        if self.n_axes is not None:
            return nearest_coarse(Q, vectors, k, exclude)
        return index_of(vectors).nearest(Q, k, exclude=exclude)

    def _unit_codes(self, Z: CodedRows) -> NDArray[np.float32]:
        """Codes, by the axes where there are some, of length 1."""
        return unit_vectors(self._coordinates(Z))

    def _coordinates(self, Z: CodedRows) -> NDArray[np.float32]:
        """Codes, by the axes where there are some."""
        return formed(Z.codes) if self.axes_ is None else codes_times(Z.codes, self.axes_)

    def _joined(self, Z: CodedRows) -> NDArray[np.float32]:
        """Both parts side by side."""
        return np.hstack([self._unit_codes(Z), unit_vectors(dense_rows(Z.features))])

    def _union(
        self,
        codes: NDArray[np.float32],
        features: sparse.csr_array,
        exclude: NDArray[np.integer] | None,
        k: int,
        by: tuple[bool, bool] = (True, True),
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
        """The nearest by code and the nearest by features, each once, and both similarities of all of them.

        ``by`` says whether to search by codes, and whether by features.
        """
        assert self.index_ is not None
        if self.search == "codes":
            most = self.Y_.shape[0] - (exclude is not None)
            k = min(max(k, COMPARED), most)
            if self.n_axes is None:
                pairs = np.sort(self._nearest(codes, self.vectors_, k, exclude)[0], axis=1)
            else:
                pairs = nearest_coarse_rows(codes, self.vectors_, k, exclude)
        else:
            found = []
            if by[0]:
                found.append(self._nearest(codes, self.vectors_, k, exclude)[0])
            if by[1]:
                found.append(self.index_.nearest(features, k, exclude=exclude)[0])
            pairs = _each_once(found)
        return pairs, pair_products(codes, pairs, self.vectors_), pair_products(features, pairs, self._rows())

    def _both_similarities(
        self, Z_left_out: CodedRows, rows: NDArray[np.integer], k: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
        """As :meth:`_union`, whatever the weight is so far."""
        codes = self._unit_codes(Z_left_out)
        if self.index_ is not None:
            return self._union(codes, _unit_rows(Z_left_out.features), rows, k)
        width = codes.shape[1]
        parts = [
            (codes, np.ascontiguousarray(self.vectors_[:, :width])),
            (unit_vectors(dense_rows(Z_left_out.features)), np.ascontiguousarray(self.vectors_[:, width:])),
        ]
        pairs = _each_once([self._nearest(q, own, k, rows)[0] for q, own in parts])
        of_codes, of_features = (pair_products(q, pairs, own) for q, own in parts)
        return pairs, of_codes, of_features

    def _rows(self) -> sparse.csr_array:
        """The training features by rows, made from the inverted index when first needed and not saved."""
        if getattr(self, "_features", None) is None:
            self._features = as_int32_indices(sparse.csr_array(self.index_.postings_.T))  # type: ignore[union-attr]
        return self._features


def _are_dense(features: Any) -> bool:
    """Whether to compare all rows with all others as dense vectors."""
    n_samples, n_features = features.shape
    if n_features > DENSE_FEATURES or 4 * n_samples * n_features > DENSE_BYTES:
        return False
    return not sparse.issparse(features) or features.nnz >= DENSE_SHARE * n_samples * n_features


def _each_once(found: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    """Rows of several searches side by side, ascending; -1 instead of a repetition."""
    return drop_duplicates(np.sort(np.hstack(found), axis=1))


def _most_similar(pairs: NDArray[np.int32], similarities: NDArray[np.float32], k: int) -> Found:
    """The k most similar of every row, best first, of equals the lower row."""
    places, best = largest(np.where(pairs < 0, np.float32(-np.inf), similarities), min(k, pairs.shape[1]))
    return mask_unmatched(np.take_along_axis(pairs, places.astype(np.intp), axis=1), best)


def _unit_rows(features: Any) -> sparse.csr_array:
    """Features as CSR in single precision, rows of length 1."""
    rows = features if sparse.issparse(features) else np.atleast_2d(features)
    return as_int32_indices(l2_normalize(sparse.csr_array(rows, dtype=np.float32)))
