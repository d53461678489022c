"""Nearest neighbors by cosine in the latent space."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.light_estimator import LightEstimator
from pysldl.backend.device import current_device
from pysldl.backend.nearest import largest, pair_distances, pair_products
from pysldl.backend.threads import matmul

__all__ = ["ExactIndex", "NeighborIndex", "dense_rows", "index_of", "unit_vectors"]

BLOCK_BYTES = 64 << 20
# A product in single precision is off by less than this, and by how much depends on the processor. So a few more than
# asked for are found by such products, up to the limit, and those within doubt are ordered by exact ones.
DOUBT = 1e-5
SPARE, MOST_SPARE = 8, 1024


class NeighborIndex(LightEstimator):
    """What every index offers: :meth:`fit`, and neighbors by cosine with or without exact distances.

    Attributes
    ----------
    vectors_ : ndarray of shape (n_vectors, n_components), float32
        The indexed vectors, scaled to length 1; zero vectors stay zero.
    """

    _saved_state: tuple[str, ...] = ("vectors_",)
    vectors_: NDArray[np.float32]

    def fit(self, Z: Any, y: object = None) -> Self:
        """Index the rows of ``Z``, of shape (n_vectors, n_components)."""
        self.vectors_ = unit_vectors(Z)
        return self

    def tune(self, k: int) -> Self:
        """Prepare to be asked for the k nearest; an index that looks everywhere is always prepared."""
        return self

    def nearest(
        self, Q: NDArray[np.float32], k: int, *, exclude: NDArray[np.integer] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The k vectors with the largest product with each query, best first, and the products.

        Products are added up in double precision and then rounded to single precision; of equals the lower vector comes
        first. Parameters are those of :meth:`search`, with queries of length 1. An index that does not look everywhere
        may find fewer: -1, and a product of -1.
        """
        raise NotImplementedError

    def search(
        self, Q: Any, k: int, *, exclude: NDArray[np.integer] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The k vectors with the largest cosine to each query, nearest first.

        Neighbors are selected in float32 and their distances then computed in float64 as half the squared difference
        of unit vectors: near zero, where votes of 1/d are large, one minus the cosine would lose all its digits.

        Parameters
        ----------
        Q : ndarray of shape (n_queries, n_components)
        k : int
            At most the number of indexed vectors, less one with ``exclude``.
        exclude : array of int of shape (n_queries,), optional
            One indexed vector per query that may not be its neighbor: the query itself, for rows of the training set.

        Returns
        -------
        neighbors : ndarray of shape (n_queries, k), int64
            -1 where an index that does not look everywhere finds fewer.
        distances : ndarray of shape (n_queries, k), float64
            Cosine distances (Eq. 19); 1 where the query or the vector is zero, inf beside a neighbor of -1.
        """
        Q = unit_vectors(Q, np.float64)
        nearest, _ = self.nearest(Q.astype(np.float32), k, exclude=exclude)
        nearest = np.sort(nearest, axis=1)  # so that equal distances are voted on in the order of the rows
        exact = pair_distances(Q, nearest, self.vectors_)
        order = np.argsort(exact, axis=1, kind="stable")
        neighbors = np.take_along_axis(nearest, order, axis=1).astype(np.int64)
        return neighbors, np.take_along_axis(exact, order, axis=1)


class ExactIndex(NeighborIndex):
    """Looks at every vector, in blocks of queries whose similarities fit into 64 MB; nothing that is lost is sorted."""

    def nearest(
        self, Q: NDArray[np.float32], k: int, *, exclude: NDArray[np.integer] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        most = len(self.vectors_) - (exclude is not None)
        spare = SPARE
        found = self._by_rough_products(Q, min(k + spare, most), exclude)
        neighbors, products = best_of_candidates(Q, found[0], self.vectors_, k)
        open_rows = np.arange(len(Q))
        while k + spare < min(most, k + MOST_SPARE):
            # Where the last one found might as well be among the first k, more have to be looked at. A query of zeros
            # is as near to all.
            unclear = found[1][:, -1] >= found[1][:, k - 1] - 2 * DOUBT
            open_rows = open_rows[unclear & Q[open_rows].any(axis=1)]
            if open_rows.size == 0:
                break
            spare *= 8
            left_out = None if exclude is None else np.asarray(exclude)[open_rows]
            found = self._by_rough_products(Q[open_rows], min(k + spare, most), left_out)
            neighbors[open_rows], products[open_rows] = best_of_candidates(Q[open_rows], found[0], self.vectors_, k)
        return neighbors, products

    def _by_rough_products(
        self, Q: NDArray[np.float32], k: int, exclude: NDArray[np.integer] | None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The k largest products in single precision."""
        if (device := current_device()) is not None:
            from pysldl.backend.torch.search import nearest_vectors

            return nearest_vectors(device, Q, self.vectors_, k, exclude)
        neighbors = np.empty((len(Q), k), dtype=np.int32)
        products = np.empty((len(Q), k), dtype=np.float32)
        block = max(1, BLOCK_BYTES // max(4 * len(self.vectors_), 1))
        for start in range(0, len(Q), block):
            rows = slice(start, start + block)
            similarity = matmul(Q[rows], self.vectors_.T)
            neighbors[rows], products[rows] = largest(similarity, k, None if exclude is None else exclude[rows])
        return neighbors, products


def best_of_candidates(
    Q: NDArray[np.float32], found: NDArray[np.int32], vectors: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k largest exact products among the vectors found for each query, best first, of equals the lower vector.

    Parameters
    ----------
    Q : ndarray of shape (n_queries, n_components), float32
    found : ndarray of shape (n_queries, at least k), int32
        -1 for none.
    """
    found = np.sort(found, axis=1)
    products = np.where(found < 0, -np.inf, pair_products(Q, found, vectors))
    order = np.argsort(-products, axis=1, kind="stable")[:, :k]
    neighbors = np.take_along_axis(found, order, axis=1)
    best = np.take_along_axis(products, order, axis=1)
    return neighbors, np.where(neighbors < 0, -1.0, best).astype(np.float32)


def index_of(vectors: NDArray[np.float32]) -> ExactIndex:
    """An index over vectors as they are: of length 1 already, or of a length that carries a weight."""
    index = ExactIndex()
    index.vectors_ = vectors
    return index


def dense_rows(features: Any) -> NDArray[Any]:
    """One row or many, sparse or not, as an array of shape (n_rows, n_features)."""
    return np.asarray(features.toarray() if sparse.issparse(features) else np.atleast_2d(features))


def unit_vectors(Z: Any, dtype: Any = np.float32) -> NDArray[Any]:
    """Rows of ``Z`` scaled to length 1; zero rows stay zero. The lengths are added up in double precision."""
    Z = np.asarray(Z, dtype=dtype)
    lengths = np.sqrt(np.einsum("ij,ij->i", Z, Z, dtype=np.float64))[:, None]
    return np.divide(Z, lengths, out=np.zeros_like(Z), where=lengths > 0, casting="same_kind")
