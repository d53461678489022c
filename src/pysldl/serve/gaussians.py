"""Divergences between the Gaussians of labels (Eq. 8), many at once."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Gaussians"]

BLOCK_BYTES = 32 << 20


class Gaussians:
    """Means and log-variances, both of shape (n_labels, n_components)."""

    def __init__(self, means: NDArray[Any], log_variances: NDArray[Any]) -> None:
        self.means = means
        self._log_variances = log_variances

    @cached_property
    def _factors(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Of 2 KL(i ‖ j): ``of_i @ of_j`` plus one number a row and one a column, minus the width."""
        mu = np.asarray(self.means, dtype=np.float32)
        log_var = np.asarray(self._log_variances, dtype=np.float32)
        precision = np.exp(-log_var)
        of_i = np.hstack([np.exp(log_var) + mu**2, -2 * mu])
        of_j = np.hstack([precision, mu * precision])
        volume = log_var.sum(axis=1)
        return of_i, of_j, -volume - mu.shape[1], volume + (mu**2 * precision).sum(axis=1)

    def to_all(self, labels: NDArray[np.integer]) -> NDArray[np.float32]:
        """KL(label ‖ other) of some labels to all, (n, n_labels)."""
        of_i, of_j, by_row, by_column = self._factors
        return np.maximum(0.5 * (of_i[labels] @ of_j.T + by_row[labels, None] + by_column), 0.0)

    def from_all(self, label: int) -> NDArray[np.float32]:
        """KL(other ‖ label) of all others, (n_labels,)."""
        of_i, of_j, by_row, by_column = self._factors
        return np.maximum(0.5 * (of_i @ of_j[label] + by_row + by_column[label]), 0.0)

    def of_pairs(self, i: NDArray[np.integer], j: NDArray[np.integer]) -> NDArray[np.float32]:
        """KL(i ‖ j) of pairs of labels, (n_pairs,)."""
        of_i, of_j, by_row, by_column = self._factors
        found = np.empty(len(i), dtype=np.float32)
        block = max(1, BLOCK_BYTES // (8 * of_i.shape[1]))
        for start in range(0, len(i), block):
            some = slice(start, start + block)
            products = np.einsum("pd,pd->p", of_i[i[some]], of_j[j[some]])
            found[some] = np.maximum(0.5 * (products + by_row[i[some]] + by_column[j[some]]), 0.0)
        return found
