"""Rows of features and labels as dense batches on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from torch import Tensor, device

__all__ = ["Rows", "batch_bounds"]

BLOCK_BYTES = 64 << 20
BLOCK_ROWS = 512

# Dense rows that may stay on the device, in bytes; more of them are made dense anew for every batch.
KEPT_ON_CPU = 256 << 20
KEPT_ON_GPU = 4 << 30


class Rows:
    """Rows of features and labels that reach the device as dense batches.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_rows, n_features)
    Y : csr_array of shape (n_rows, n_labels), or None
    scale : callable
        Applied to every dense batch of features.
    where : torch.device
    """

    def __init__(self, X: Any, Y: sparse.csr_array | None, scale: Callable[[Tensor], Tensor], where: device) -> None:
        self.X = X
        self.Y: Any = Y
        self.scale = scale
        self.where = where
        self._dense: tuple[Tensor, Tensor] | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def kept(self) -> Rows:
        """These rows, dense on the device from now on where they are not too large: for those used in every epoch."""
        import torch

        n_bytes = 4 * len(self) * (self.X.shape[1] + self.Y.shape[1])
        if len(self) and n_bytes <= (KEPT_ON_GPU if self.where.type == "cuda" else KEPT_ON_CPU):
            X, Y = (torch.empty(len(self), matrix.shape[1], device=self.where) for matrix in (self.X, self.Y))
            for rows in self._blocks(self.X.shape[1] + self.Y.shape[1]):
                X[rows], Y[rows] = self._features(rows), self._labels(rows)
            self._dense = X, Y
        return self

    def head(self, n_rows: int) -> Rows:
        """The first rows."""
        return Rows(self.X[:n_rows], self.Y[:n_rows], self.scale, self.where)

    def shuffled(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of one epoch in random order, none of a single row."""
        import torch

        order = rng.permutation(len(self))
        bounds = pairwise(batch_bounds(len(self), size))
        if self._dense is None:
            for start, stop in bounds:
                rows = order[start:stop]
                yield self._features(rows), self._labels(rows)
            return
        X, Y = self._dense
        there = torch.from_numpy(order).to(self.where)
        for start, stop in bounds:
            yield X.index_select(0, there[start:stop]), Y.index_select(0, there[start:stop])

    def in_order(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Features and labels block by block."""
        for rows in self._blocks(self.X.shape[1] + self.Y.shape[1]):
            yield (
                (self._features(rows), self._labels(rows))
                if self._dense is None
                else (
                    self._dense[0][rows],
                    self._dense[1][rows],
                )
            )

    def features(self) -> Iterator[Tensor]:
        """Features block by block."""
        for rows in self._blocks(self.X.shape[1]):
            yield self._features(rows) if self._dense is None else self._dense[0][rows]

    def labels(self, rows: Tensor) -> Tensor:
        """Labels of the rows with these numbers, of shape (len(rows), n_labels)."""
        return self._labels(rows.cpu().numpy()) if self._dense is None else self._dense[1].index_select(0, rows)

    def _blocks(self, width: int) -> list[slice]:
        size = max(1, min(BLOCK_ROWS, BLOCK_BYTES // (4 * max(width, 1))))
        return [slice(start, start + size) for start in range(0, len(self), size)]

    def _features(self, rows: Any) -> Tensor:
        return self.scale(self._tensor(self.X[rows]))

    def _labels(self, rows: Any) -> Tensor:
        return self._tensor(self.Y[rows])

    def _tensor(self, rows: Any) -> Tensor:
        import torch

        dense = rows.toarray() if sparse.issparse(rows) else rows
        return torch.from_numpy(np.require(dense, np.float32, ["C", "W"])).to(self.where)


def batch_bounds(n_rows: int, size: int) -> list[int]:
    """Where batches of ``size`` begin and end; a single row left over joins the batch before it."""
    bounds = [*range(0, n_rows, size), n_rows]
    if len(bounds) > 2 and bounds[-1] - bounds[-2] == 1:
        del bounds[-2]
    return bounds
