"""The base class of decoders, and what they share."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.light_estimator import LightEstimator
from pysldl.backend.linear_algebra import times_axes
from pysldl.backend.nearest import pair_products
from pysldl.backend.topk import top_k_or_zero
from pysldl.exceptions import SLDLWarning

PRIOR_LABELS = 1000
TUNING_ROWS = 1000  # at most so many training rows choose the parameters that are None


@dataclass(frozen=True)
class UnformedCodes:
    """Latent codes (n_rows, n_components) of rows that are not formed: products with them take the way of the features.

    Where labels are their own codes, a code is as long as there are labels, and a row has far fewer features.
    """

    mapping: Any
    features: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and components."""
        return self.features.shape[0], self.mapping.coef_.shape[1]

    def __getitem__(self, rows: Any) -> "UnformedCodes":
        return UnformedCodes(self.mapping, self.features[rows])

    def __len__(self) -> int:
        return int(self.features.shape[0])


Codes = NDArray[np.float32] | UnformedCodes


@dataclass(frozen=True)
class CodedRows:
    """Latent codes (n_rows, n_components) and features (n_rows, n_features) of the same rows."""

    codes: Codes
    features: Any

    def __getitem__(self, rows: Any) -> "CodedRows":
        return CodedRows(self.codes[rows], self.features[rows])

    def __len__(self) -> int:
        return len(self.codes)


def codes_of(Z: Any) -> Codes:
    """The codes of rows that may have features beside them."""
    codes: Codes = Z.codes if isinstance(Z, CodedRows) else Z
    return codes


def formed(codes: Codes) -> NDArray[np.float32]:
    """Codes as an array."""
    if not isinstance(codes, UnformedCodes):
        return codes
    made: NDArray[np.float32] = codes.mapping.predict(codes.features)
    return made


def codes_times(codes: Codes, B: NDArray[np.float32]) -> NDArray[np.float32]:
    """``codes @ B``, summed in double precision and rounded once: labels of the same rows get the same score."""
    if isinstance(codes, UnformedCodes):
        product: NDArray[np.float32] = codes.mapping.predict_times(codes.features, B)
        return product
    return times_axes(codes, B)


def codes_times_at(codes: Codes, B: NDArray[np.float32], columns: NDArray[np.integer]) -> NDArray[np.float32]:
    """:func:`codes_times` at some columns of each row, of the shape of ``columns``."""
    if isinstance(codes, UnformedCodes):
        product: NDArray[np.float32] = codes.mapping.predict_times_at(codes.features, B, columns)
        return product
    return pair_products(codes, columns, np.ascontiguousarray(B.T))


@dataclass(frozen=True)
class NeighborVote:
    """A training row that voted for a label: its similarity, and its part of the label's score."""

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
        Strongest first; empty for a decoder without neighbors.
    direction : ndarray of shape (n_components,)
        ``direction · code`` is the linear part of the score; carried back through the mapping it gives the terms
        of the features.
    meaning : str
        What the linear terms add up to, in words.
    feature_direction : ndarray of shape (n_features,) or None
        The same for what a decoder reads off the features beside the code.
    terms_in_score : bool
        Whether the linear terms are a part of the score, as those of a read-out are.
    """

    score: float
    votes: list[NeighborVote]
    direction: NDArray[np.floating]
    meaning: str
    feature_direction: NDArray[np.floating] | None = None
    terms_in_score: bool = False


class Ballots(NamedTuple):
    """Who votes for the labels of rows, (n_rows, k): training rows, -1 for none, and what the vote of each counts.

    A row without any gets the label prior.
    """

    neighbors: NDArray[np.int32]
    weights: NDArray[np.float32]


class ScoreParts(NamedTuple):
    """Scores of some labels of rows, and what they consist of; arrays of shape (n_rows, n_listed), best first."""

    labels: NDArray[np.int32]
    readout: NDArray[np.float32]
    votes: NDArray[np.float32]
    scores: NDArray[np.float32]


class Decoder(LightEstimator):
    """Base of the decoders, which turn latent codes, features, or both (:class:`CodedRows`) into scores of labels."""

    _saved_state: tuple[str, ...] = ()
    input_kind: Literal["codes", "features", "both"] = "codes"
    scores_are_sparse: bool = False
    has_readout: bool = False
    takes_unformed_codes: bool = False
    has_parts: bool = False  # of a score, which a reranker may weigh anew: score_parts and loo_score_parts

    @property
    def needs_tuning(self) -> bool:
        """Whether :meth:`tune` has something to choose."""
        return False

    def fit(self, Z: NDArray[np.float32], Y: sparse.csr_array) -> Self:
        """Learn from training codes ``Z`` (n_samples, n_components) and their labels ``Y`` (n_samples, n_labels)."""
        raise NotImplementedError

    def tune(self, Z_left_out: Any, rows: NDArray[np.integer], Z: Any) -> Self:
        """Choose the parameters that are None, on training ``rows`` with codes of a mapping that never saw them."""
        return self

    def scores(self, Z: NDArray[np.float32]) -> Any:
        """Scores of codes, (n_rows, n_labels): CSR (unstored labels are not predicted) or dense."""
        raise NotImplementedError

    @property
    def has_neighbor_path(self) -> bool:
        """Whether :meth:`scores_path` gives what a fit with each number of neighbors would."""
        return False

    def scores_path(self, Z: Any, n_neighbors: Sequence[int]) -> Iterator[Any]:
        """Scores of codes for several numbers of neighbors, none above that of ``fit``, from one search."""
        raise NotImplementedError

    def candidates(self, Z: Any, m: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The m best labels of every row and their scores, best first; -1 and 0 where a row has fewer."""
        return top_k_or_zero(self.scores(Z), m)

    def loo_candidates(
        self, Z_left_out: Any, rows: NDArray[np.integer], Z: Any, Y: sparse.csr_array, m: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The same for training ``rows``, each left out of its own neighbors."""
        return top_k_or_zero(self.loo_scores(Z_left_out, rows, Z, Y), m)

    def split_candidates(
        self,
        Z_left_out: Any,
        rows: NDArray[np.integer],
        Z: Any,
        Y: sparse.csr_array,
        m: int,
        is_held: NDArray[np.bool_],
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32]]:
        """:meth:`loo_candidates` without the votes of held-out rows, and with them the labels alone, in any order.

        Classifiers that are judged on held-out rows must not learn from candidates that these rows proposed: a row near
        a held-out one would be a negative of its labels. A decoder without neighbors has no further labels.
        """
        labels, votes = self.loo_candidates(Z_left_out, rows, Z, Y, m)
        return labels, votes, np.full_like(labels, -1)

    @property
    def readout_weights(self) -> NDArray[np.float32]:
        """The weights of the read-out, (n_components, n_labels); only where ``has_readout``."""
        raise NotImplementedError

    def loo_scores(
        self, Z_left_out: NDArray[np.float32], rows: NDArray[np.integer], Z: NDArray[np.float32], Y: sparse.csr_array
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
        """Bytes that the fitted decoder takes."""
        raise NotImplementedError

    def _given(self, name: str, default: Any) -> Any:
        """The parameter or, where it is None, what was chosen before or the default."""
        given = getattr(self, name)
        return getattr(self, f"{name}_", default) if given is None else given


def clip_n_neighbors(n_neighbors: int, n_samples: int) -> int:
    """``n_neighbors``, reduced with a warning where there are fewer training rows."""
    if n_neighbors > n_samples:
        warnings.warn(
            f"n_neighbors={n_neighbors} is more than the {n_samples} training rows; using {n_samples}.",
            SLDLWarning,
            stacklevel=3,
        )
    return min(n_neighbors, n_samples)


def label_prior(Y: sparse.csr_array) -> sparse.csr_array:
    """Share of the rows with each label, (1, n_labels): the prediction for a row without neighbors.

    Only the thousand most frequent labels are kept: many such rows of all labels would not fit into memory.
    """
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    frequent = np.sort(np.argsort(-counts, kind="stable")[:PRIOR_LABELS])
    frequent = frequent[counts[frequent] > 0].astype(np.int32)
    shares = (counts[frequent] / np.float32(Y.shape[0])).astype(np.float32)
    return sparse.csr_array((shares, frequent, np.array([0, frequent.size], dtype=np.int32)), shape=(1, Y.shape[1]))
