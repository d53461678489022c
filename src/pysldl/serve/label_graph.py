"""Which labels a label implies, which imply it, and where each lies on the map."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.serve.layout import lay_out

__all__ = ["Arrow", "LabelGraph", "LabelMap"]

ARROWS_PER_LABEL = 3
BLOCK_BYTES = 32 << 20


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
    """Places of the labels in the unit square, and the arrows between them.

    Attributes
    ----------
    places : ndarray of shape (n_labels, 2), float32
    source, target : ndarrays of shape (n_arrows,)
    strength : ndarray of shape (n_arrows,), float32
        In (0, 1].
    """

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
        self._log_variances = log_variances

    @property
    def basis(self) -> Literal["gaussians", "counts"]:
        return "counts" if self._log_variances is None else "gaussians"

    def of(self, label: int, limit: int) -> tuple[list[Arrow], list[Arrow]]:
        """The nearest labels that ``label`` implies, and those that imply it, strongest evidence first."""
        together = self._together(label)
        if self.basis == "counts":
            return self._by_counts(label, together, limit)
        there = self._divergences(np.array([label]))[0]
        back = self._divergences_to(label)
        known = self.counts > 0
        known[label] = False
        implied = self._nearest(np.where(known & (there < back), there, np.inf), limit)
        implying = self._nearest(np.where(known & (back < there), back, np.inf), limit)
        return (
            [_arrow(label, j, there[j], back[j], together[j]) for j in implied],
            [_arrow(j, label, back[j], there[j], together[j]) for j in implying],
        )

    @cached_property
    def map(self) -> LabelMap:
        """Where the labels lie, each near those it implies."""
        if self.basis == "gaussians":
            source, target, strength = self._nearest_by_divergence()
        else:
            source, target, strength = self._nearest_by_counts()
        places = lay_out(len(self.counts), source, target, self._means)
        return LabelMap(places, source, target, strength.astype(np.float32))

    # Gaussians

    @cached_property
    def _products(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Factors of 2 KL(i ‖ j) (Eq. 8): ``of_i @ of_j`` plus one number a row and one a column, minus the width."""
        assert self._means is not None and self._log_variances is not None
        mu = np.asarray(self._means, dtype=np.float32)
        log_var = np.asarray(self._log_variances, dtype=np.float32)
        precision = np.exp(-log_var)
        of_i = np.hstack([np.exp(log_var) + mu**2, -2 * mu])
        of_j = np.hstack([precision, mu * precision])
        volume = log_var.sum(axis=1)
        return of_i, of_j, -volume - mu.shape[1], volume + (mu**2 * precision).sum(axis=1)

    def _divergences(self, labels: NDArray[np.integer]) -> NDArray[np.float32]:
        """KL(label ‖ other) of some labels to all, (n, n_labels)."""
        of_i, of_j, by_row, by_column = self._products
        return np.maximum(0.5 * (of_i[labels] @ of_j.T + by_row[labels, None] + by_column), 0.0)

    def _divergences_to(self, label: int) -> NDArray[np.float32]:
        """KL(other ‖ label) of all others, (n_labels,)."""
        of_i, of_j, by_row, by_column = self._products
        return np.maximum(0.5 * (of_i @ of_j[label] + by_row + by_column[label]), 0.0)

    def _nearest_by_divergence(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
        """The nearest labels of each, kept where the divergence back is larger; in blocks of bounded memory."""
        known = np.flatnonzero(self.counts > 0)
        width = min(ARROWS_PER_LABEL, known.size - 1)
        if width < 1:
            return (np.empty(0, np.int64),) * 2 + (np.empty(0, np.float32),)
        of_i, of_j, by_row, by_column = self._products
        block = max(1, BLOCK_BYTES // (4 * known.size))
        sources, targets, strengths = [], [], []
        for start in range(0, known.size, block):
            rows = known[start : start + block]
            there = self._divergences(rows)[:, known]
            there[np.arange(len(rows)), np.arange(start, start + len(rows))] = np.inf
            near = known[np.argpartition(there, width - 1, axis=1)[:, :width]]
            source, target = np.repeat(rows, width), near.ravel()
            forward = _kl_pairs(of_i, of_j, by_row, by_column, source, target)
            backward = _kl_pairs(of_i, of_j, by_row, by_column, target, source)
            kept = forward < backward
            sources.append(source[kept])
            targets.append(target[kept])
            strengths.append(((backward - forward) / (backward + forward))[kept])
        return np.concatenate(sources), np.concatenate(targets), np.concatenate(strengths)

    # Counts

    @cached_property
    def _rows_of_label(self) -> sparse.csr_array:
        return sparse.csr_array(self._Y.T)

    def _together(self, label: int) -> NDArray[np.int64]:
        """Training rows that every label shares with one, (n_labels,)."""
        rows = self._rows_of_label.indices[slice(*self._rows_of_label.indptr[label : label + 2])]
        return np.bincount(self._Y[rows].indices, minlength=len(self.counts))

    def _by_counts(self, label: int, together: NDArray[np.int64], limit: int) -> tuple[list[Arrow], list[Arrow]]:
        rarer = (self.counts < self.counts[label]) & (together > 0)
        commoner = (self.counts > self.counts[label]) & (together > 0)
        of_mine = together / max(int(self.counts[label]), 1)
        of_theirs = together / np.maximum(self.counts, 1)
        implied = self._nearest(np.where(commoner, -of_mine, np.inf), limit)
        implying = self._nearest(np.where(rarer, -of_theirs, np.inf), limit)
        return (
            [Arrow(label, int(j), None, None, float(of_mine[j]), int(together[j])) for j in implied],
            [Arrow(int(j), label, None, None, float(of_theirs[j]), int(together[j])) for j in implying],
        )

    def _nearest_by_counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
        pairs = sparse.csr_array(self._rows_of_label @ self._Y).tocoo()
        source, target, both = pairs.row.astype(np.int64), pairs.col.astype(np.int64), pairs.data
        directed = self.counts[source] < self.counts[target]
        source, target = source[directed], target[directed]
        strength = both[directed] / self.counts[source]
        order = np.lexsort((-strength, source))
        source, target, strength = source[order], target[order], strength[order]
        first = np.searchsorted(source, source)
        kept = np.arange(len(source)) - first < ARROWS_PER_LABEL
        return source[kept], target[kept], strength[kept]

    @staticmethod
    def _nearest(distances: NDArray[Any], limit: int) -> NDArray[np.int64]:
        some = np.argsort(distances, kind="stable")[:limit]
        return some[np.isfinite(distances[some])]


def _kl_pairs(
    of_i: NDArray[Any],
    of_j: NDArray[Any],
    by_row: NDArray[Any],
    by_column: NDArray[Any],
    i: NDArray[np.integer],
    j: NDArray[np.integer],
) -> NDArray[Any]:
    """KL(N_i ‖ N_j) of pairs of labels."""
    return np.maximum(0.5 * (np.einsum("pd,pd->p", of_i[i], of_j[j]) + by_row[i] + by_column[j]), 0.0)


def _arrow(source: int, target: int, there: Any, back: Any, n_both: Any) -> Arrow:
    strength = (back - there) / (back + there)
    return Arrow(int(source), int(target), float(there), float(back), float(strength), int(n_both))
