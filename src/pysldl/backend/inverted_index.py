"""Nearest rows by inner product of sparse features, through an inverted index."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.device import current_device
from pysldl.backend.dispatch import has_numba, parallel_for
from pysldl.backend.heap import make_compilable, pop_sorted, push
from pysldl.backend.single_query import search_one
from pysldl.metrics.topk import top_k

__all__ = ["search_inverted_index", "top_terms"]

PLAIN_BLOCK = 1024


def search_inverted_index(
    queries: sparse.csr_array,
    postings: sparse.csr_array,
    k: int,
    exclude: NDArray[np.integer] | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k rows with the largest inner product with each query, best first.

    Parameters
    ----------
    queries : csr_array of shape (n_queries, n_features), float32
        Usually cut to their :func:`top_terms`.
    postings : csr_array of shape (n_features, n_rows), float32
        The indexed rows, transposed.
    k : int
    exclude : array of int of shape (n_queries,), optional
        One row per query that may not be found.

    Returns
    -------
    rows : ndarray of shape (n_queries, k), int32
        -1 where fewer rows share a term with the query. Ties go to the lower row.
    products : ndarray of shape (n_queries, k), float32
        0 beside a row of -1.
    """
    left_out = np.full(queries.shape[0], -1, dtype=np.int64) if exclude is None else np.asarray(exclude, np.int64)
    if queries.shape[0] == 1:
        return search_one(queries, postings, k, int(left_out[0]))
    if (device := current_device()) is not None:
        from pysldl.backend.torch.search import best_rows

        return best_rows(device, queries, postings, k, exclude)
    if has_numba():
        parts = parallel_for(
            _compiled_search(), queries.shape[0], queries.indptr, queries.indices, queries.data,
            postings.indptr, postings.indices, postings.data, postings.shape[1], k, left_out,
        )  # fmt: skip
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    return _plain_search(queries, postings, k, left_out)


def top_terms(X: sparse.csr_array, n_terms: int) -> sparse.csr_array:
    """``X`` with only the ``n_terms`` largest values of every row."""
    columns, values = top_k(X, n_terms)
    kept = columns >= 0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return sparse.csr_array((values[kept], columns[kept], indptr), shape=X.shape)


def _plain_search(
    queries: sparse.csr_array, postings: sparse.csr_array, k: int, left_out: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    rows = np.full((queries.shape[0], k), -1, dtype=np.int32)
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
    from numba import njit

    make_compilable()

    @njit(nogil=True, cache=True)
    def search(start, stop, qp, qi, qd, pp, pi, pd, n_rows, k, left_out):  # type: ignore[no-untyped-def]
        rows = np.full((stop - start, k), -1, np.int32)
        products = np.zeros((stop - start, k), np.float32)
        total = np.zeros(n_rows, np.float32)
        met = np.empty(n_rows + 1, np.uint32)
        nothing = np.float32(0.0)
        heap_value = np.empty(k, np.float32)
        heap_row = np.empty(k, np.int32)
        for query in range(start, stop):
            n_met = 0
            for at in range(qp[query], qp[query + 1]):
                value = qd[at]
                for place in range(np.uint64(pp[qi[at]]), np.uint64(pp[qi[at] + 1])):
                    # No branch in here: whether a row was met before cannot be foreseen, and a wrong guess costs more
                    # than all the rest.
                    row = np.uint32(pi[place])
                    before = total[row]
                    met[min(n_met, n_rows)] = row
                    n_met += int(before == nothing)
                    total[row] = before + value * pd[place]
            if n_met > n_rows:  # sums that came back to nothing were met again
                n_met = n_rows
                met[:n_rows] = np.arange(n_rows)
            size, worst, skipped = 0, np.float32(1e-30), np.uint32(left_out[query])
            for at in range(n_met):
                row = met[at]
                value = total[row]
                total[row] = nothing
                if value >= worst and row != skipped:
                    size = push(heap_value, heap_row, size, value, np.int32(row))
                    if size == k:
                        worst = heap_value[0]
            pop_sorted(heap_value, heap_row, size, products[query - start], rows[query - start])
        return rows, products

    return search
