"""Nearest neighbours by cosine in the latent space."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

__all__ = ["ExactIndex", "unit_rows"]

BLOCK_BYTES = 64 << 20
# What the neighbours of a few queries take while their distances are computed: little enough for a processor's cache.
CACHE_BYTES = 2 << 20


class ExactIndex(BaseEstimator):
    """Exact search, in blocks of queries whose similarities fit into 64 MB.

    Attributes
    ----------
    vectors_ : ndarray of shape (n_vectors, n_components), float32
        The indexed vectors, scaled to length 1; zero vectors stay zero.
    """

    _saved_state = ("vectors_",)
    vectors_: NDArray[np.float32]

    def fit(self, Z: Any, y: object = None) -> Self:
        """Index the rows of ``Z``, of shape (n_vectors, n_components)."""
        self.vectors_ = unit_rows(Z)
        return self

    def search(
        self, Q: Any, k: int, *, leave_out: NDArray[np.integer] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The k vectors with the largest cosine to each query, nearest first.

        Neighbours are selected in float32 and their distances then computed in float64 as half the squared difference
        of unit vectors: near zero, where votes of 1/d are large, one minus the cosine would lose all its digits.

        Parameters
        ----------
        Q : ndarray of shape (n_queries, n_components)
        k : int
            At most the number of indexed vectors, less one with ``leave_out``.
        leave_out : array of int of shape (n_queries,), optional
            One indexed vector per query that may not be its neighbour: the query itself, for rows of the training set.

        Returns
        -------
        neighbors : ndarray of shape (n_queries, k), int64
        distances : ndarray of shape (n_queries, k), float64
            Cosine distances (Eq. 19); 1 where the query or the vector is zero.
        """
        Q = unit_rows(Q, np.float64)
        n_vectors, width = self.vectors_.shape
        neighbors = np.empty((len(Q), k), dtype=np.int64)
        distances = np.empty((len(Q), k), dtype=np.float64)
        block = max(1, BLOCK_BYTES // max(4 * n_vectors, 16 * k * width))
        for start in range(0, len(Q), block):
            rows = slice(start, start + block)
            cosine = Q[rows].astype(np.float32) @ self.vectors_.T
            if leave_out is not None:
                cosine[np.arange(len(cosine)), leave_out[rows]] = -np.inf
            nearest = np.argpartition(cosine, n_vectors - k, axis=1)[:, n_vectors - k :]
            nearest.sort(axis=1)  # so that equal distances are voted on in the order of the rows
            exact = self._distances(Q[rows], nearest)
            order = np.argsort(exact, axis=1, kind="stable")
            neighbors[rows] = np.take_along_axis(nearest, order, axis=1)
            distances[rows] = np.take_along_axis(exact, order, axis=1)
        return neighbors, distances

    def _distances(self, Q: NDArray[np.float64], neighbors: NDArray[np.int64]) -> NDArray[np.float64]:
        """Half the squared differences, (n_queries, k); 1 where the query or the vector is zero."""
        distances = np.empty(neighbors.shape)
        block = max(1, CACHE_BYTES // (12 * neighbors.shape[1] * Q.shape[1]))
        for start in range(0, len(Q), block):
            rows = slice(start, start + block)
            found = self.vectors_[neighbors[rows]]
            difference = found - Q[rows, None, :]
            distances[rows] = 0.5 * np.einsum("qkd,qkd->qk", difference, difference)
            distances[rows][np.logical_not(found.any(axis=-1))] = 1.0
        distances[np.logical_not(Q.any(axis=1))] = 1.0
        return distances


def unit_rows(Z: Any, dtype: Any = np.float32) -> NDArray[Any]:
    """Rows of ``Z`` scaled to length 1; zero rows stay zero."""
    Z = np.asarray(Z, dtype=dtype)
    lengths = np.linalg.norm(Z, axis=1, keepdims=True)
    return np.divide(Z, lengths, out=np.zeros_like(Z), where=lengths > 0)
