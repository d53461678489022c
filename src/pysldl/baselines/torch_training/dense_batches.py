"""Rows of features and labels as dense batches on a device."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

BLOCK_BYTES = 64 << 20
BLOCK_ROWS = 512

# Dense features, and dense labels, that may stay on the device, in bytes; more are made dense anew for every batch. On
# a CPU that takes a tenth of a millisecond for the labels, which are seldom: no reason for memory to follow them.
FEATURES_ON_CPU = 256 << 20
LABELS_ON_CPU = 16 << 20
BOTH_ON_GPU = 4 << 30


class DenseBatches:
    """Rows of features and labels that reach the device as dense batches; ``scale`` is applied to each of features."""

    def __init__(
        self, X: Any, Y: sparse.csr_array | None, scale: Callable[[Tensor], Tensor], where: torch.device
    ) -> None:
        self.X = X
        self.Y: Any = Y
        self.scale = scale
        self.where = where
        self._dense_X: Tensor | None = None
        self._dense_Y: Tensor | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def kept(self) -> Self:
        """These rows, dense on the device from now on if they are not too large: for those used in every epoch."""
        of_features, of_labels = (4 * len(self) * matrix.shape[1] for matrix in (self.X, self.Y))
        if self.where.type == "cuda":
            keep_features = keep_labels = of_features + of_labels <= BOTH_ON_GPU
        else:
            keep_features, keep_labels = of_features <= FEATURES_ON_CPU, of_labels <= LABELS_ON_CPU
        if len(self):
            self._dense_X = self._whole(self.X, self._features) if keep_features else None
            self._dense_Y = self._whole(self.Y, self._labels) if keep_labels else None
        return self

    def head(self, n_rows: int) -> "DenseBatches":
        """The first rows."""
        return DenseBatches(self.X[:n_rows], self.Y[:n_rows], self.scale, self.where)

    def shuffled(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of one epoch in random order, none of a single row."""
        order = torch.from_numpy(rng.permutation(len(self)))
        if self._dense_X is not None or self._dense_Y is not None:
            order = order.to(self.where)
        for start, stop in pairwise(batch_bounds(len(self), size)):
            rows = order[start:stop]
            yield self._features(rows), self._labels(rows)

    def in_order(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Features and labels block by block."""
        for rows in self._blocks(self.X.shape[1] + self.Y.shape[1]):
            yield self._features(rows), self._labels(rows)

    def features(self) -> Iterator[Tensor]:
        """Features block by block."""
        for rows in self._blocks(self.X.shape[1]):
            yield self._features(rows)

    def labels(self, rows: Tensor) -> Tensor:
        """Labels of the rows with these numbers, of shape (len(rows), n_labels)."""
        return self._labels(rows)

    def _blocks(self, width: int) -> list[slice]:
        size = max(1, min(BLOCK_ROWS, BLOCK_BYTES // (4 * max(width, 1))))
        return [slice(start, start + size) for start in range(0, len(self), size)]

    def _whole(self, matrix: Any, read: Callable[[slice], Tensor]) -> Tensor:
        whole = torch.empty(len(self), matrix.shape[1], device=self.where)
        for rows in self._blocks(matrix.shape[1]):
            whole[rows] = read(rows)
        return whole

    def _features(self, rows: slice | Tensor) -> Tensor:
        return self.scale(self._tensor(self.X, rows)) if self._dense_X is None else _taken(self._dense_X, rows)

    def _labels(self, rows: slice | Tensor) -> Tensor:
        return self._tensor(self.Y, rows) if self._dense_Y is None else _taken(self._dense_Y, rows)

    def _tensor(self, matrix: Any, rows: slice | Tensor) -> Tensor:
        chosen = matrix[rows if isinstance(rows, slice) else rows.cpu().numpy()]
        dense = chosen.toarray() if sparse.issparse(chosen) else chosen
        # A copy: torch's memory is always aligned alike, on which the last digits of a product may depend.
        return torch.tensor(np.asarray(dense, np.float32, order="C"), device=self.where)


def batch_bounds(n_rows: int, size: int) -> list[int]:
    """Where batches of ``size`` begin and end; a single row left over joins the batch before it."""
    bounds = [*range(0, n_rows, size), n_rows]
    if len(bounds) > 2 and bounds[-1] - bounds[-2] == 1:
        del bounds[-2]
    return bounds


def _taken(dense: Tensor, rows: slice | Tensor) -> Tensor:
    return dense[rows] if isinstance(rows, slice) else dense.index_select(0, rows)
