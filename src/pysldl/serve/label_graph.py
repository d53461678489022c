"""Which labels a label implies, which imply it, and where each lies on the map."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.serve.gaussians import BLOCK_BYTES, Gaussians
from pysldl.serve.layout import lay_out

__all__ = ["Arrow", "LabelGraph", "LabelMap"]

ARROWS_PER_LABEL = 3
# Up to here every label is compared with every other; of more labels only those that share a row.
ALL_PAIRS = 5_000
# More than a page can draw, or an eye can tell apart, are not on the map; the search finds them all the same.
MOST_ON_MAP = 50_000

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class Arrow:
    """``source`` implies ``target``; both are columns. The divergences are None where the model has no Gaussians."""

    source: int
    target: int
    kl: float | None
    kl_reverse: float | None
    strength: float
    n_both: int


@dataclass(frozen=True)
class LabelMap:
    """Places of labels in the unit square, and the arrows between them.

    Attributes
    ----------
    columns : ndarray of shape (n_shown,)
        The labels: all, or the most frequent where there are very many.
    places : ndarray of shape (n_shown, 2), float32
    source, target : ndarrays of shape (n_arrows,)
        Positions in ``columns``.
    strength : ndarray of shape (n_arrows,), float32
        In (0, 1].
    """

    columns: NDArray[np.int64]
    places: NDArray[np.float32]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    strength: NDArray[np.float32]


class LabelGraph:
    """Directed relations of every label.

    With Gaussians, a label implies another where KL(label ‖ other) is smaller than the divergence back, and the
    strength is the gap between both relative to their sum. Without, direction and strength come from the counts:
    a label implies another where it is rarer, with the share of its rows that carry the other as strength.

    Parameters
    ----------
    means, log_variances : ndarrays of shape (n_labels, n_components), or None
    Y : csr_array of shape (n_samples, n_labels)
        Training labels.
    """

    def __init__(self, means: NDArray[Any] | None, log_variances: NDArray[Any] | None, Y: sparse.csr_array) -> None:
        self.counts = np.bincount(Y.indices, minlength=Y.shape[1])
        self._Y = Y
        self._means = means
        self._gaussians = None if means is None or log_variances is None else Gaussians(means, log_variances)

    @property
    def basis(self) -> Literal["gaussians", "counts"]:
        return "counts" if self._gaussians is None else "gaussians"

    def of(self, label: int, limit: int) -> tuple[list[Arrow], list[Arrow]]:
        """The nearest labels that ``label`` implies, and those that imply it, strongest evidence first."""
        together = self._together(label)
        if self._gaussians is None:
            return self._by_counts(label, together, limit)
        there = self._gaussians.to_all(np.array([label]))[0]
        back = self._gaussians.from_all(label)
        known = self.counts > 0
        known[label] = False
        implied = _nearest(np.where(known & (there < back), there, np.inf), limit)
        implying = _nearest(np.where(known & (back < there), back, np.inf), limit)
        return (
            [_arrow(label, j, there[j], back[j], together[j]) for j in implied],
            [_arrow(j, label, back[j], there[j], together[j]) for j in implying],
        )

    @cached_property
    def map(self) -> LabelMap:
        """Where the labels lie, each near those it implies.

        Its cost follows the pairs of labels that share a row, once there are more than a few thousand labels.
        """
        columns = np.arange(len(self.counts))
        if len(columns) > MOST_ON_MAP:
            columns = np.sort(np.argsort(-self.counts, kind="stable")[:MOST_ON_MAP])
        shown = self.counts[columns] > 0
        shown_columns = columns[shown]
        source, target, strength = (
            self._arrows_by_counts(shown_columns)
            if self._gaussians is None
            else self._arrows_by_divergence(self._gaussians, shown_columns)
        )
        position = np.flatnonzero(shown)
        source, target = position[source], position[target]
        places = lay_out(len(columns), source, target, None if self._means is None else self._means[columns])
        return LabelMap(columns, places, source, target, strength.astype(np.float32))

    # Gaussians

    def _arrows_by_divergence(
        self, gaussians: Gaussians, columns: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
        """The nearest labels of each, kept where the divergence back is larger; positions in ``columns``."""
        width = min(ARROWS_PER_LABEL, columns.size - 1)
        if width < 1:
            return (np.empty(0, np.int64),) * 2 + (np.empty(0, np.float32),)
        nearest = _nearest_of_all if columns.size <= ALL_PAIRS else self._nearest_of_linked
        source, target = nearest(gaussians, columns, width)
        forward = gaussians.of_pairs(columns[source], columns[target])
        backward = gaussians.of_pairs(columns[target], columns[source])
        kept = forward < backward
        source, target, forward, backward = source[kept], target[kept], forward[kept], backward[kept]
        return source, target, (backward - forward) / (backward + forward)

    def _nearest_of_linked(self, gaussians: Gaussians, columns: NDArray[np.int64], width: int) -> Pairs:
        """Each label and the nearest of those that share a row with it."""
        source, target, _ = self._linked(columns)
        order = _order_of_first(source, gaussians.of_pairs(columns[source], columns[target]), width)
        return source[order], target[order]

    # Counts

    @cached_property
    def _rows_of_label(self) -> sparse.csr_array:
        return sparse.csr_array(self._Y.T)

    def _together(self, label: int) -> NDArray[np.int64]:
        """Training rows that every label shares with one, (n_labels,)."""
        rows = self._rows_of_label.indices[slice(*self._rows_of_label.indptr[label : label + 2])]
        return np.bincount(self._Y[rows].indices, minlength=len(self.counts))

    def _linked(self, columns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
        """Pairs of different labels that share rows, as positions in ``columns``, and how many rows."""
        Y = self._Y if len(columns) == self._Y.shape[1] else self._Y[:, columns]
        pairs = sparse.csr_array(Y.T @ Y).tocoo()
        others = pairs.row != pairs.col
        return pairs.row[others].astype(np.int64), pairs.col[others].astype(np.int64), pairs.data[others]

    def _by_counts(self, label: int, together: NDArray[np.int64], limit: int) -> tuple[list[Arrow], list[Arrow]]:
        rarer = (self.counts < self.counts[label]) & (together > 0)
        commoner = (self.counts > self.counts[label]) & (together > 0)
        of_mine = together / max(int(self.counts[label]), 1)
        of_theirs = together / np.maximum(self.counts, 1)
        implied = _nearest(np.where(commoner, -of_mine, np.inf), limit)
        implying = _nearest(np.where(rarer, -of_theirs, np.inf), limit)
        return (
            [Arrow(label, int(j), None, None, float(of_mine[j]), int(together[j])) for j in implied],
            [Arrow(int(j), label, None, None, float(of_theirs[j]), int(together[j])) for j in implying],
        )

    def _arrows_by_counts(
        self, columns: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
        """Of each label those of its rows' other labels that are more frequent, the most shared ones."""
        source, target, both = self._linked(columns)
        counts = self.counts[columns]
        directed = counts[source] < counts[target]
        source, target = source[directed], target[directed]
        strength = both[directed] / counts[source]
        order = _order_of_first(source, -strength, ARROWS_PER_LABEL)
        return source[order], target[order], strength[order]


def _nearest_of_all(gaussians: Gaussians, columns: NDArray[np.int64], width: int) -> Pairs:
    """Each label and the nearest of all others, in blocks of bounded memory."""
    near = np.empty((columns.size, width), dtype=np.int64)
    block = max(1, BLOCK_BYTES // (4 * columns.size))
    for start in range(0, columns.size, block):
        rows = np.arange(start, min(start + block, columns.size))
        there = gaussians.to_all(columns[rows])[:, columns]
        there[np.arange(len(rows)), rows] = np.inf
        near[rows] = np.argpartition(there, width - 1, axis=1)[:, :width]
    return np.repeat(np.arange(columns.size), width), near.ravel()


def _order_of_first(source: NDArray[np.int64], distance: NDArray[Any], width: int) -> NDArray[np.int64]:
    """Which pairs are among the ``width`` nearest of their source, by source and then by distance."""
    order = np.lexsort((distance, source))
    ordered = source[order]
    rank = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    return order[rank < width]


def _nearest(distances: NDArray[Any], limit: int) -> NDArray[np.int64]:
    some = np.argsort(distances, kind="stable")[:limit]
    return some[np.isfinite(distances[some])]


def _arrow(source: int, target: int, there: Any, back: Any, n_both: Any) -> Arrow:
    strength = (back - there) / (back + there)
    return Arrow(int(source), int(target), float(there), float(back), float(strength), int(n_both))
