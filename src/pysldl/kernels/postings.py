"""Nearest rows by inner product of sparse features, through an inverted index."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.kernels import compiled
from pysldl.kernels.one_row import search_one
from pysldl.topk import top_k

__all__ = ["heaviest_terms", "search_postings"]

PLAIN_BLOCK = 1024


def search_postings(
    queries: sparse.csr_array,
    postings: sparse.csr_array,
    k: int,
    leave_out: NDArray[np.integer] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k rows with the largest inner product with each query, best first.

    Parameters
    ----------
    queries : csr_array of shape (n_queries, n_features), float32
        Usually cut to their :func:`heaviest_terms`.
    postings : csr_array of shape (n_features, n_rows), float32
        The indexed rows, transposed.
    k : int
    leave_out : array of int of shape (n_queries,), optional
        One row per query that may not be found.

    Returns
    -------
    rows : ndarray of shape (n_queries, k), int64
        -1 where fewer rows share a term with the query. Ties go to the lower row.
    products : ndarray of shape (n_queries, k), float32
        0 beside a row of -1.
    """
    left_out = np.full(queries.shape[0], -1, dtype=np.int64) if leave_out is None else np.asarray(leave_out, np.int64)
    if queries.shape[0] == 1:
        return search_one(queries, postings, k, int(left_out[0]))
    if compiled():
        found = _compiled_search()(
            queries.indptr, queries.indices, queries.data, postings.indptr, postings.indices, postings.data,
            postings.shape[1], k, left_out,
        )  # fmt: skip
        return found
    return _plain_search(queries, postings, k, left_out)


def heaviest_terms(X: sparse.csr_array, n_terms: int) -> sparse.csr_array:
    """``X`` with only the ``n_terms`` largest values of every row."""
    columns, values = top_k(X, n_terms)
    kept = columns >= 0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return sparse.csr_array((values[kept], columns[kept], indptr), shape=X.shape)


def _plain_search(
    queries: sparse.csr_array, postings: sparse.csr_array, k: int, left_out: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    rows = np.full((queries.shape[0], k), -1, dtype=np.int64)
    products = np.zeros((queries.shape[0], k), dtype=np.float32)
    for start in range(0, queries.shape[0], PLAIN_BLOCK):
        block = slice(start, start + PLAIN_BLOCK)
        similarity = sparse.csr_array(queries[block] @ postings)
        similarity.sort_indices()
        at = np.repeat(np.arange(similarity.shape[0]), np.diff(similarity.indptr))
        similarity.data[(similarity.indices == left_out[block][at]) | (similarity.data <= 0)] = -np.inf
        rows[block], best = top_k(similarity, k)
        products[block] = np.where(np.isneginf(best), 0.0, best)
    return rows, products


@cache
def _compiled_search() -> Any:
    from numba import njit, prange

    @njit(parallel=True, cache=True)
    def search(qp, qi, qd, pp, pi, pd, n_rows, k, left_out):  # type: ignore[no-untyped-def]
        n_queries = len(qp) - 1
        rows = np.full((n_queries, k), -1, np.int64)
        products = np.zeros((n_queries, k), np.float32)
        n_parts = 64  # more parts than threads, so that long postings do not leave a thread idle
        for part in prange(n_parts):
            total = np.zeros(n_rows, np.float32)
            touched = np.empty(n_rows, np.int32)
            met_by = np.full(n_rows, -1, np.int64)
            heap_value = np.empty(k, np.float32)
            heap_row = np.empty(k, np.int64)
            for query in range(n_queries * part // n_parts, n_queries * (part + 1) // n_parts):
                n_touched = 0
                for at in range(qp[query], qp[query + 1]):
                    feature, value = qi[at], qd[at]
                    for place in range(pp[feature], pp[feature + 1]):
                        row = pi[place]
                        if met_by[row] != query:
                            met_by[row] = query
                            touched[n_touched] = row
                            n_touched += 1
                        total[row] += value * pd[place]
                size = 0
                for t in range(n_touched):
                    row = touched[t]
                    value = total[row]
                    total[row] = 0
                    if value <= 0 or row == left_out[query]:
                        continue
                    # A heap whose root is the worst kept: smallest product, of equals the highest row.
                    if size < k:
                        child = size
                        size += 1
                        heap_value[child], heap_row[child] = value, row
                        while child > 0:
                            parent = (child - 1) >> 1
                            if heap_value[parent] > heap_value[child] or (
                                heap_value[parent] == heap_value[child] and heap_row[parent] < heap_row[child]
                            ):
                                heap_value[parent], heap_value[child] = heap_value[child], heap_value[parent]
                                heap_row[parent], heap_row[child] = heap_row[child], heap_row[parent]
                                child = parent
                            else:
                                break
                    elif value > heap_value[0] or (value == heap_value[0] and row < heap_row[0]):
                        heap_value[0], heap_row[0] = value, row
                        parent = 0
                        while True:
                            child = 2 * parent + 1
                            if child >= k:
                                break
                            if child + 1 < k and (
                                heap_value[child + 1] < heap_value[child]
                                or (
                                    heap_value[child + 1] == heap_value[child] and heap_row[child + 1] > heap_row[child]
                                )
                            ):
                                child += 1
                            if heap_value[child] < heap_value[parent] or (
                                heap_value[child] == heap_value[parent] and heap_row[child] > heap_row[parent]
                            ):
                                heap_value[parent], heap_value[child] = heap_value[child], heap_value[parent]
                                heap_row[parent], heap_row[child] = heap_row[child], heap_row[parent]
                                parent = child
                            else:
                                break
                by_row = np.argsort(heap_row[:size])
                order = by_row[np.argsort(-heap_value[:size][by_row], kind="mergesort")]
                for place in range(size):
                    rows[query, place] = heap_row[order[place]]
                    products[query, place] = heap_value[order[place]]
        return rows, products

    return search
