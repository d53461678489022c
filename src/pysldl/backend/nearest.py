"""Exact neighbor search: the largest products of all pairs of rows, and products and distances of given pairs."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import primitive
from pysldl.backend.threads import fixed_order_blas, matmul, parallel_map
from pysldl.backend.topk import top_k_dense, top_k_listed

BLOCK_BYTES = 64 << 20  # similarities of some queries with all vectors
# Similarities that stay in a cache, if those of so many queries do, and how often in a row a thread fills their place.
CACHED_SIMILARITIES, FEWEST_QUERIES, BLOCKS_OF_SPAN = 4 << 20, 16, 4
PAIRS_AT_ONCE = 1 << 16
CACHED_BYTES = 2 << 20  # what the neighbors of a few queries take: little enough for a processor's cache


@primitive(torch="arrays", single_row="numpy")
def nearest_vectors(
    Q: NDArray[np.float32], vectors: NDArray[np.float32], k: int, exclude: NDArray[np.integer] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k ``vectors`` with the largest product with each query, in single precision, best first; the products.

    ``exclude`` is one vector per query that may not be found; k is at most the number of the others.
    """
    rows = np.empty((len(Q), k), dtype=np.int32)
    products = np.empty((len(Q), k), dtype=np.float32)

    def pick(part: slice, similarity: NDArray[np.float32]) -> None:
        rows[part], products[part] = largest(similarity, k, None if exclude is None else exclude[part])

    _compare(Q, vectors, pick)
    return rows, products


@primitive(torch="arrays", single_row="numpy")
def nearest_rows(
    Q: NDArray[np.float32], vectors: NDArray[np.float32], k: int, exclude: NDArray[np.integer] | None = None
) -> NDArray[np.int32]:
    """The same vectors as :func:`nearest_vectors` finds, for each query in ascending order."""
    rows = np.empty((len(Q), k), dtype=np.int32)

    def pick(part: slice, similarity: NDArray[np.float32]) -> None:
        rows[part] = largest_columns(similarity, k, None if exclude is None else exclude[part])

    _compare(Q, vectors, pick)
    return rows


def _compare(
    Q: NDArray[np.float32], vectors: NDArray[np.float32], pick: Callable[[slice, NDArray[np.float32]], None]
) -> None:
    """Call ``pick`` with the products of some queries with all vectors, part by part.

    Products of so many queries as stay in a processor's cache are looked at where they were made.
    """
    at_once = CACHED_SIMILARITIES // max(4 * len(vectors), 1)
    if at_once < FEWEST_QUERIES:
        at_once = max(1, BLOCK_BYTES // (4 * len(vectors)))
        for start in range(0, len(Q), at_once):
            pick(slice(start, start + at_once), matmul(Q[start : start + at_once], vectors.T))
        return
    at_once = min(at_once, len(Q))
    span = BLOCKS_OF_SPAN * at_once

    def compare(first: int) -> None:
        similarity = np.empty((at_once, len(vectors)), dtype=np.float32)
        for start in range(first, min(first + span, len(Q)), at_once):
            queries = Q[start : start + at_once]
            pick(slice(start, start + len(queries)), np.matmul(queries, vectors.T, out=similarity[: len(queries)]))

    with fixed_order_blas():
        parallel_map(compare, range(0, len(Q), max(span, 1)))


@primitive(numba=True, single_row="numpy")
def largest_columns(
    values: NDArray[np.float32], k: int, exclude: NDArray[np.integer] | None = None
) -> NDArray[np.int32]:
    """The columns that :func:`largest` finds, in every row in ascending order."""
    return np.sort(largest(values, k, exclude)[0], axis=1)


@primitive(numba=True, single_row="numpy")
def largest(
    values: NDArray[np.float32], k: int, exclude: NDArray[np.integer] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k largest entries of every row, largest first, of equals the lower column.

    ``values`` is (n_rows, n_columns); the arguments and results are otherwise those of :func:`nearest_vectors`.
    """
    if exclude is not None:
        values = values.copy()
        values[np.arange(len(values)), exclude] = -np.inf
    columns, found = top_k_dense(values, k)
    return columns.astype(np.int32), found


@primitive(numba=True, torch="arrays", single_row="numpy")
def pair_products(Q: Any, rows: NDArray[np.integer], V: Any) -> NDArray[np.float32]:
    """``Q[i] · V[rows[i, j]]`` for every query and its rows, added up in double precision; 0 beside a row of -1."""
    products = np.zeros(rows.shape, dtype=np.float32)
    query, slot = np.nonzero(rows >= 0)
    for start in range(0, len(query), PAIRS_AT_ONCE):
        q, s = query[start : start + PAIRS_AT_ONCE], slot[start : start + PAIRS_AT_ONCE]
        if sparse.issparse(V):
            products[q, s] = Q[q].astype(np.float64).multiply(V[rows[q, s]]).sum(axis=1)
        else:
            products[q, s] = np.einsum("ij,ij->i", Q[q], V[rows[q, s]], dtype=np.float64)
    return products


def best_of_candidates(
    Q: NDArray[np.float32], found: NDArray[np.int32], vectors: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the k largest exact products among the vectors ``found`` for each query (-1 for none), best first.

    Ties go to the lower vector.
    """
    found = np.sort(found, axis=1)
    neighbors, products = top_k_listed(found, pair_products(Q, found, vectors), k)
    return neighbors, np.where(neighbors < 0, np.float32(-1.0), products)


@primitive(numba=True, torch="arrays", single_row="numpy")
def pair_distances(Q: NDArray[np.float64], rows: NDArray[np.integer], V: NDArray[np.float32]) -> NDArray[np.float64]:
    """Half the squared difference of ``Q[i]`` and ``V[rows[i, j]]``, in double precision.

    It is 1 where either is zero, and inf beside a row of -1.
    """
    distances = np.empty(rows.shape)
    block = max(1, CACHED_BYTES // (12 * rows.shape[1] * Q.shape[1]))
    for start in range(0, len(Q), block):
        part = slice(start, start + block)
        found = V[rows[part]]
        difference = found - Q[part, None, :]
        distances[part] = 0.5 * np.einsum("qkd,qkd->qk", difference, difference)
        distances[part][np.logical_not(found.any(axis=-1))] = 1.0
    distances[np.logical_not(Q.any(axis=1))] = 1.0
    distances[rows < 0] = np.inf
    return distances
