"""Nearest neighbors by cosine, by exhaustive search."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pysldl._utils.light_estimator import LightEstimator
from pysldl.backend.linear_algebra import unit_vectors
from pysldl.backend.nearest import best_of_candidates, nearest_rows, nearest_vectors, pair_distances

# A product in single precision is off by less than this, and by how much depends on the processor. So a few more than
# asked for are found by such products, up to the limit, and those within doubt are ordered by exact ones.
DOUBT = 1e-5
SPARE, MOST_SPARE = 8, 1024
# Bits behind the point of rounded vectors and of queries: products of unit vectors are multiples of 2 ** -23 below 2.
COARSE_BITS, QUERY_BITS = 7, 16


class NeighborIndex(LightEstimator):
    """Base of the indexes: :meth:`fit`, and neighbors by cosine with or without exact distances.

    ``vectors_`` are the indexed vectors (n_vectors, n_components) in float32, scaled to length 1; zero vectors stay
    zero.
    """

    _saved_state: tuple[str, ...] = ("vectors_",)
    vectors_: NDArray[np.float32]

    def fit(self, Z: Any, y: object = None) -> Self:
        """Index the rows of ``Z``, of shape (n_vectors, n_components)."""
        self.vectors_ = unit_vectors(Z)
        return self

    def tune(self, k: int) -> Self:
        """Tune the index for searches of the k nearest; an exact index needs no tuning."""
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
            -1 if an index that does not look everywhere finds fewer.
        distances : ndarray of shape (n_queries, k), float64
            Cosine distances (Eq. 19); 1 if the query or the vector is zero, inf beside a neighbor of -1.
        """
        Q = unit_vectors(Q, np.float64)
        nearest, _ = self.nearest(Q.astype(np.float32), k, exclude=exclude)
        nearest = np.sort(nearest, axis=1)  # so that equal distances are voted on in the order of the rows
        exact = pair_distances(Q, nearest, self.vectors_)
        order = np.argsort(exact, axis=1, kind="stable")
        neighbors = np.take_along_axis(nearest, order, axis=1).astype(np.int64)
        return neighbors, np.take_along_axis(exact, order, axis=1)


class ExactIndex(NeighborIndex):
    """Neighbors by cosine, by exhaustive search in blocks of queries.

    Attributes
    ----------
    vectors_ : ndarray of shape (n_vectors, n_components), float32
        The indexed vectors, scaled to length 1; zero vectors stay zero.

    Examples
    --------
    >>> index = ExactIndex().fit([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    >>> neighbors, distances = index.search([[0.0, 1.0]], k=2)
    >>> neighbors, distances.round(3)
    (array([[1, 2]]), array([[0.   , 0.293]]))
    """

    def nearest(
        self, Q: NDArray[np.float32], k: int, *, exclude: NDArray[np.integer] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The k vectors with the largest product with each query, best first, and the products."""
        most = len(self.vectors_) - (exclude is not None)
        spare = SPARE
        found = nearest_vectors(Q, self.vectors_, min(k + spare, most), exclude)
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
            found = nearest_vectors(Q[open_rows], self.vectors_, min(k + spare, most), left_out)
            neighbors[open_rows], products[open_rows] = best_of_candidates(Q[open_rows], found[0], self.vectors_, k)
        return neighbors, products


def coarse(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Unit vectors rounded in place to multiples of ``2 ** -COARSE_BITS`` below 1: eight bits with the sign."""
    steps = 1 << COARSE_BITS
    vectors *= np.float32(steps)
    np.rint(vectors, out=vectors)
    np.clip(vectors, 1 - steps, steps - 1, out=vectors)
    vectors /= np.float32(steps)
    vectors += np.float32(0)  # no zero with a sign, which eight bits do not have
    return vectors


def nearest_coarse(
    Q: NDArray[np.float32], vectors: NDArray[np.float32], k: int, exclude: NDArray[np.integer] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k of :func:`coarse` vectors with the largest product with each query of about length 1, best first.

    Queries are rounded to so many bits that products of both are exact in single precision, in any order of the sums:
    nothing is in doubt, and no product has to be computed twice.

    Examples
    --------
    >>> vectors = coarse(np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], np.float32))
    >>> nearest_coarse(np.array([[0.0, 1.0]], np.float32), vectors, 2)
    (array([[1, 2]], dtype=int32), array([[0.9921875, 0.796875 ]], dtype=float32))
    """
    return nearest_vectors(_rounded(Q), vectors, k, exclude)


def nearest_coarse_rows(
    Q: NDArray[np.float32], vectors: NDArray[np.float32], k: int, exclude: NDArray[np.integer] | None = None
) -> NDArray[np.int32]:
    """The vectors that :func:`nearest_coarse` finds, for each query in ascending order, which is faster."""
    return nearest_rows(_rounded(Q), vectors, k, exclude)


def _rounded(Q: NDArray[np.float32]) -> NDArray[np.float32]:
    steps = np.float32(1 << QUERY_BITS)
    rounded = Q * steps
    np.rint(rounded, out=rounded)
    rounded /= steps
    return rounded


def index_of(vectors: NDArray[np.float32]) -> ExactIndex:
    """An index over vectors as they are: of length 1 already, or of a length that carries a weight."""
    index = ExactIndex()
    index.vectors_ = vectors
    return index
