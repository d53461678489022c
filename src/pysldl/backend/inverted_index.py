"""The rows with the largest inner product with sparse queries, through an inverted index."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import primitive
from pysldl.backend.topk import top_k, top_k_or_zero

__all__ = ["search_inverted_index", "top_terms"]

ROWS_AT_ONCE = 1024


@primitive(numba=True, torch="arrays", single_row="single_query")
def search_inverted_index(
    queries: sparse.csr_array, postings: sparse.csr_array, k: int, exclude: NDArray[np.integer] | None = None
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
    rows = np.empty((queries.shape[0], k), dtype=np.int32)
    products = np.empty((queries.shape[0], k), dtype=np.float32)
    for start in range(0, queries.shape[0], ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        similarity = sparse.csr_array(queries[block] @ postings)
        similarity.sort_indices()
        out = similarity.data <= 0
        if exclude is not None:
            at = np.repeat(np.arange(similarity.shape[0]), np.diff(similarity.indptr))
            out |= similarity.indices == np.asarray(exclude)[block][at]
        similarity.data[out] = -np.inf
        rows[block], products[block] = top_k_or_zero(similarity, k)
    return rows, products


def top_terms(X: sparse.csr_array, n_terms: int) -> sparse.csr_array:
    """``X`` with only the ``n_terms`` largest values of every row."""
    columns, values = top_k(X, n_terms)
    kept = columns >= 0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return sparse.csr_array((values[kept], columns[kept], indptr), shape=X.shape)
