"""The random walk on the label graph and its rankings, without a matrix of all pairs of labels.

The total of the discounted walk is a nested sum: ``T₀ = P`` and ``Tₙ = P + discount · P Tₙ₋₁``, after n steps that of
Eqs. 3 to 5. If every row of ``Tₙ₋₁`` keeps only its strongest entries, a step costs as many products as there are
co-occurring pairs times entries kept, and memory holds two such tables.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import as_int32_indices, warn_no_numba
from pysldl.backend.label_embedding import walk_step
from pysldl.embedding.label_graph import normalize_rows

Labels = NDArray[np.integer]


@dataclass(frozen=True)
class TruncatedWalk:
    """The labels that walks from each label reach.

    ``labels`` (n_labels, n_kept) are the most probable first, the label itself among them, -1 if fewer were reached.
    ``probabilities`` are entries of the standardized transfer matrix (Eq. 6) and sum to 1 over the labels that are
    kept. ``truncated`` tells whether any row lost an entry; if not, this is the whole transfer matrix.
    """

    labels: NDArray[np.int32]
    probabilities: NDArray[np.float32]
    truncated: bool


def truncated_walk(A: sparse.csr_array, n_steps: int = 10, discount: float = 0.5, n_kept: int = 64) -> TruncatedWalk:
    """Walk from every label of the graph ``A``, of shape (n_labels, n_labels), and keep the ``n_kept`` best.

    If no more than ``n_kept`` labels can be reached from any, the result equals
    :func:`~pysldl.embedding.label_graph.transfer_matrix`.
    """
    warn_no_numba()
    P = as_int32_indices(normalize_rows(A))
    P.sort_indices()
    n_labels = A.shape[0]
    n_kept = min(n_kept, n_labels)
    labels = np.full((n_labels, n_kept), -1, dtype=np.int32)
    values = np.zeros((n_labels, n_kept), dtype=np.float32)
    for _ in range(n_steps + 1):
        labels, values = walk_step(P, labels, values, discount)
    sums = values.sum(axis=1, keepdims=True, dtype=np.float64)
    np.divide(values, sums, out=values, where=sums > 0, casting="unsafe")
    return TruncatedWalk(labels, values, truncated=n_kept < n_labels and bool((labels[:, -1] >= 0).any()))


def walk_memory(n_labels: int, n_kept: int, n_pairs: int) -> int:
    """Bytes that a walk takes at the peak.

    They hold the graph three times while it is made, two tables or one and its rankings, and the sums of two threads
    over all labels.
    """
    return 3 * 12 * n_pairs + 28 * n_labels * min(n_kept, n_labels) + 2 * 16 * n_labels


class TruncatedRanking:
    """For each anchor the other labels in the order of the walk, as far as it was kept, then a sampled tail.

    The ``n_tail`` labels of the tail are drawn anew on every call. They are ordered by what long walks converge to from
    any start: the share of all co-occurrences that a label has. If the walk was not truncated and the tail has room for
    all others, none of which can be reached then, the ranking is that of
    :func:`~pysldl.embedding.label_graph.rank_labels`: unreached labels in the order of their index.
    """

    def __init__(self, walk: TruncatedWalk, A: sparse.csr_array, n_tail: int) -> None:
        self.n_labels = n_labels = A.shape[0]
        anchors = np.arange(n_labels, dtype=np.int32)[:, None]
        self._reached = _closed_up(np.where(walk.labels == anchors, -1, walk.labels))
        self._n_tail = n_tail
        fewest = int((self._reached >= 0).sum(axis=1).min(initial=n_labels))
        self._whole = fewest + n_tail >= n_labels - 1
        self._order = np.arange(n_labels, dtype=np.int32)
        if walk.truncated or not self._whole:
            links = np.asarray(A.sum(axis=1)).ravel()
            self._order = np.argsort(-links, kind="stable").astype(np.int32)

    def of(self, anchors: Labels, rng: np.random.RandomState) -> NDArray[np.int32]:
        """Rankings of some anchors, most related first, (n_anchors, n_listed); -1 behind the end of a shorter one."""
        reached = self._reached[anchors]
        tail = self._all_others(anchors, reached) if self._whole else self._sampled(anchors, reached, rng)
        listed = _closed_up(np.hstack([reached, tail]))
        return listed[:, : max(1, int((listed >= 0).sum(axis=1).max(initial=1)))]

    def _sampled(self, anchors: Labels, reached: NDArray[np.int32], rng: np.random.RandomState) -> NDArray[np.int32]:
        places = np.sort(rng.randint(0, self.n_labels, (len(anchors), self._n_tail)), axis=1)
        tail = self._order[places]
        tail[:, 1:][places[:, 1:] == places[:, :-1]] = -1
        listed_already = (tail[:, :, None] == reached[:, None, :]).any(axis=2)
        return np.where(listed_already | (tail == anchors[:, None]), -1, tail)

    def _all_others(self, anchors: Labels, reached: NDArray[np.int32]) -> NDArray[np.int32]:
        others = np.ones((len(anchors), self.n_labels + 1), dtype=bool)  # the last column is where -1 leads
        np.put_along_axis(others, reached.astype(np.intp), False, axis=1)
        others[np.arange(len(anchors)), anchors] = False
        return np.where(others[:, self._order], self._order, np.int32(-1))


def _closed_up(listed: NDArray[np.int32]) -> NDArray[np.int32]:
    """Rows with the -1 moved behind all else."""
    return np.take_along_axis(listed, np.argsort(listed < 0, axis=1, kind="stable"), axis=1)
