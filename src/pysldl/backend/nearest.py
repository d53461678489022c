"""The k largest entries of dense rows, and products of given pairs of rows: what exact neighbor search is made of."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.device import current_device
from pysldl.backend.dispatch import has_numba, parallel_for
from pysldl.metrics.topk import top_k_dense

__all__ = ["largest", "pair_distances", "pair_products"]

PLAIN_PAIRS = 1 << 16
PLAIN_BYTES = 2 << 20  # what the neighbors of a few queries take: little enough for a processor's cache


def largest(
    values: NDArray[np.float32], k: int, exclude: NDArray[np.integer] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k largest entries of every row, largest first, of equals the lower column.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns), float32
    k : int
        At most the number of columns, less one with ``exclude``.
    exclude : array of int of shape (n_rows,), optional
        One column a row that may not be found.

    Returns
    -------
    columns : ndarray of shape (n_rows, k), int32
    found : ndarray of shape (n_rows, k), float32
    """
    if len(values) > 1 and has_numba():  # a single row does not wait for numba, here and below
        without = np.full(len(values), -1, np.int64) if exclude is None else np.asarray(exclude, np.int64)
        parts = parallel_for(_compiled_largest(), len(values), values, k, without)
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    if exclude is not None:
        values = values.copy()
        values[np.arange(len(values)), exclude] = -np.inf
    columns, found = top_k_dense(values, k)
    return columns.astype(np.int32), found


def pair_products(Q: Any, rows: NDArray[np.integer], V: Any) -> NDArray[np.float32]:
    """``Q[i] · V[rows[i, j]]`` for every query i and the j-th of its rows, added up in double precision.

    Parameters
    ----------
    Q : ndarray or csr_array of shape (n_queries, width), float32
    rows : ndarray of shape (n_queries, m)
        -1 for none.
    V : ndarray or csr_array of shape (n_vectors, width), float32
        Sparse if ``Q`` is.

    Returns
    -------
    ndarray of shape (n_queries, m), float32
        0 beside a row of -1.
    """
    is_sparse = sparse.issparse(V)
    if (device := current_device()) is not None:
        from pysldl.backend.torch.search import products_of_pairs

        return products_of_pairs(device, Q, rows, V)
    if len(rows) > 1 and has_numba():
        if is_sparse:
            arguments = (Q.indptr, Q.indices, Q.data, Q.shape[1], rows, V.indptr, V.indices, V.data)
            return np.concatenate(parallel_for(_compiled_pairs()[0], len(rows), *arguments))
        return np.concatenate(parallel_for(_compiled_pairs()[1], len(rows), Q, rows, V))
    products = np.zeros(rows.shape, dtype=np.float32)
    query, slot = np.nonzero(rows >= 0)
    for start in range(0, len(query), PLAIN_PAIRS):
        q, s = query[start : start + PLAIN_PAIRS], slot[start : start + PLAIN_PAIRS]
        if is_sparse:
            products[q, s] = Q[q].astype(np.float64).multiply(V[rows[q, s]]).sum(axis=1)
        else:
            products[q, s] = np.einsum("ij,ij->i", Q[q], V[rows[q, s]], dtype=np.float64)
    return products


def pair_distances(Q: NDArray[np.float64], rows: NDArray[np.integer], V: NDArray[np.float32]) -> NDArray[np.float64]:
    """Half the squared difference of ``Q[i]`` and ``V[rows[i, j]]``, in double precision; 1 where either is zero.

    Parameters
    ----------
    Q : ndarray of shape (n_queries, width), float64
    rows : ndarray of shape (n_queries, m)
        -1 for none.
    V : ndarray of shape (n_vectors, width), float32

    Returns
    -------
    ndarray of shape (n_queries, m), float64
        inf beside a row of -1.
    """
    if (device := current_device()) is not None:
        from pysldl.backend.torch.search import distances_of_pairs

        return distances_of_pairs(device, Q, rows, V)
    if len(rows) > 1 and has_numba():
        return np.concatenate(parallel_for(_compiled_pairs()[2], len(rows), Q, rows, V))
    distances = np.empty(rows.shape)
    block = max(1, PLAIN_BYTES // (12 * rows.shape[1] * Q.shape[1]))
    for start in range(0, len(Q), block):
        part = slice(start, start + block)
        found = V[rows[part]]
        difference = found - Q[part, None, :]
        distances[part] = 0.5 * np.einsum("qkd,qkd->qk", difference, difference)
        distances[part][np.logical_not(found.any(axis=-1))] = 1.0
    distances[np.logical_not(Q.any(axis=1))] = 1.0
    distances[rows < 0] = np.inf
    return distances


@cache
def _compiled_largest() -> Any:
    from numba import njit

    @njit(nogil=True, cache=True)
    def find(start, stop, values, k, exclude):  # type: ignore[no-untyped-def]
        n_columns = values.shape[1]
        columns = np.empty((stop - start, k), np.int32)
        found = np.empty((stop - start, k), np.float32)
        value, column = np.empty(k, np.float32), np.empty(k, np.int32)
        for row in range(start, stop):
            size = 0
            floor = np.float32(-np.inf)
            for j in range(n_columns):
                new = values[row, j]
                if size == k and new <= floor:  # columns come in order, so of equals the first stay
                    continue
                if j == exclude[row]:
                    continue
                # A heap whose root is the worst kept: smallest value, of equals the highest column.
                if size < k:
                    at = size
                    size += 1
                    while at > 0:
                        parent = (at - 1) >> 1
                        if value[parent] >= new:  # of equals the new one is the worse
                            value[at], column[at] = value[parent], column[parent]
                            at = parent
                        else:
                            break
                else:
                    at = 0
                    while True:
                        child = 2 * at + 1
                        if child >= k:
                            break
                        if child + 1 < k and (
                            value[child + 1] < value[child]
                            or (value[child + 1] == value[child] and column[child + 1] > column[child])
                        ):
                            child += 1
                        if value[child] < new:
                            value[at], column[at] = value[child], column[child]
                            at = child
                        else:
                            break
                value[at], column[at] = new, np.int32(j)
                if size == k:
                    floor = value[0]
            by_column = np.argsort(column[:size])
            order = by_column[np.argsort(-value[:size][by_column], kind="mergesort")]
            for place in range(size):
                columns[row - start, place] = column[order[place]]
                found[row - start, place] = value[order[place]]
        return columns, found

    return find


@cache
def _compiled_pairs() -> Any:
    from numba import njit

    @njit(nogil=True, cache=True)
    def of_sparse(start, stop, qp, qi, qd, width, rows, vp, vi, vd):  # type: ignore[no-untyped-def]
        m = rows.shape[1]
        products = np.zeros((stop - start, m), np.float32)
        x = np.zeros(width, np.float64)
        for query in range(start, stop):
            for at in range(qp[query], qp[query + 1]):
                x[qi[at]] = qd[at]
            for slot in range(m):
                row = rows[query, slot]
                if row >= 0:
                    total = 0.0
                    for at in range(vp[row], vp[row + 1]):
                        total += x[vi[at]] * vd[at]
                    products[query - start, slot] = total
            for at in range(qp[query], qp[query + 1]):
                x[qi[at]] = 0
        return products

    @njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
    def of_dense(start, stop, Q, rows, V):  # type: ignore[no-untyped-def]
        m, width = rows.shape[1], Q.shape[1]
        products = np.zeros((stop - start, m), np.float32)
        for query in range(start, stop):
            q = Q[query]
            for slot in range(m):
                row = rows[query, slot]
                if row >= 0:
                    v = V[row]
                    total = 0.0
                    for j in range(width):
                        total += np.float64(q[j]) * np.float64(v[j])
                    products[query - start, slot] = total
        return products

    @njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
    def apart(start, stop, Q, rows, V):  # type: ignore[no-untyped-def]
        m, width = rows.shape[1], Q.shape[1]
        distances = np.full((stop - start, m), np.inf)
        for query in range(start, stop):
            q = Q[query]
            size = 0.0
            for j in range(width):
                size += q[j] * q[j]
            for slot in range(m):
                row = rows[query, slot]
                if row < 0:
                    continue
                v = V[row]
                total, other = 0.0, 0.0
                for j in range(width):
                    value = np.float64(v[j])
                    difference = value - q[j]
                    total += difference * difference
                    other += value * value
                distances[query - start, slot] = 0.5 * total if size > 0 and other > 0 else 1.0
        return distances

    return of_sparse, of_dense, apart
