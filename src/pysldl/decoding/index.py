"""Nearest neighbours by cosine in the latent space."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

__all__ = ["ExactIndex", "unit_rows"]

BLOCK_BYTES = 64 << 20


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
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The k vectors with the largest cosine to each query, best first.

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
        similarities : ndarray of shape (n_queries, k), float32
        """
        Q = unit_rows(Q)
        n_vectors = len(self.vectors_)
        neighbors = np.empty((len(Q), k), dtype=np.int64)
        similarities = np.empty((len(Q), k), dtype=np.float32)
        block = max(1, BLOCK_BYTES // (4 * n_vectors))
        for start in range(0, len(Q), block):
            rows = slice(start, start + block)
            cosine = Q[rows] @ self.vectors_.T
            if leave_out is not None:
                cosine[np.arange(len(cosine)), leave_out[rows]] = -np.inf
            nearest = np.argpartition(cosine, n_vectors - k, axis=1)[:, n_vectors - k :]
            nearest.sort(axis=1)  # so that equal similarities are voted on in the order of the rows
            found = np.take_along_axis(cosine, nearest, axis=1)
            order = np.argsort(-found, axis=1, kind="stable")
            neighbors[rows] = np.take_along_axis(nearest, order, axis=1)
            similarities[rows] = np.take_along_axis(found, order, axis=1)
        return neighbors, similarities


def unit_rows(Z: Any) -> NDArray[np.float32]:
    """Rows of ``Z`` scaled to length 1, in float32; zero rows stay zero."""
    Z = np.asarray(Z, dtype=np.float32)
    lengths = np.linalg.norm(Z, axis=1, keepdims=True)
    return np.divide(Z, lengths, out=np.zeros_like(Z), where=lengths > 0)
