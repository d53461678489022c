"""The rows with the largest inner product with sparse queries, through an inverted index."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import as_int32_indices, primitive
from pysldl.backend.half_precision import round_in_place
from pysldl.backend.linear_algebra import l2_normalize
from pysldl.backend.topk import top_k, top_k_or_zero

ROWS_AT_ONCE = 1024


@primitive(triton=True, single_row="single_query", few_rows=True)
def search_by_terms(
    X: sparse.csr_array,
    postings: sparse.csr_array,
    k: int,
    exclude: NDArray[np.integer] | None = None,
    *,
    n_terms: int,
    max_postings: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """:func:`search_inverted_index` for the :func:`top_terms` of every row, cut by :func:`limit_postings`."""
    queries = as_int32_indices(top_terms(X, n_terms))
    counts = postings.indptr[queries.indices + 1] - postings.indptr[queries.indices]
    return search_inverted_index(limit_postings(queries, counts, max_postings), postings, k, exclude)


@primitive(numba=True, triton=True)
def search_inverted_index(
    queries: sparse.csr_array, postings: sparse.csr_array, k: int, exclude: NDArray[np.integer] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k rows with the largest inner product with each query, best first, and the products; ties to the lower row.

    ``postings`` are the indexed rows, transposed, and ascend for each term; products are added up in the order of the
    stored terms. ``exclude`` is one row per query that may not be found. Where fewer rows share a term with the query
    there are -1 and 0.
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


@primitive(torch="arrays")
def postings_of(X: sparse.csr_array, n_terms: int | None) -> sparse.csr_array:
    """The ``n_terms`` heaviest terms of rows, or all, by term, (n_features, n_rows), rounded to half precision."""
    postings = transposed_terms(X, n_terms)
    round_in_place(postings.data)
    return postings


def transposed_terms(X: sparse.csr_array, n_terms: int | None) -> sparse.csr_array:
    """:func:`postings_of` before they are rounded."""
    few = X.has_canonical_format and n_terms is not None and np.diff(X.indptr).max(initial=0) <= n_terms
    rows = X if n_terms is None or few else top_terms(X, n_terms)
    return as_int32_indices(sparse.csr_array(as_int32_indices(rows).T))


@primitive(torch="arrays")
def mean_rows(X: sparse.csr_array, Y: sparse.csr_array, n_terms: int) -> sparse.csr_array:
    """The sum of every label's rows, cut to their heaviest terms, scaled to length 1, (n_labels, n_features)."""
    return l2_normalize(sparse.csr_array(Y.T.astype(np.float32) @ top_terms(X, n_terms)))


def top_terms(X: sparse.csr_array, n_terms: int) -> sparse.csr_array:
    """``X`` with only the ``n_terms`` largest values of every row."""
    columns, values = best_terms(X, n_terms)
    kept = columns >= 0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return sparse.csr_array((values[kept], columns[kept], indptr), shape=X.shape)


@primitive(numba=True, torch="arrays")
def best_terms(X: sparse.csr_array, n_terms: int) -> tuple[NDArray[np.integer], NDArray[np.float32]]:
    """Columns and values of the ``n_terms`` largest values of every row, (n_rows, n_terms); -1 for none."""
    return top_k(X, n_terms)


@primitive(numba=True)
def limit_postings(queries: sparse.csr_array, counts: NDArray[np.integer], max_postings: int) -> sparse.csr_array:
    """Queries whose terms come rarest first, as many as have ``max_postings`` postings together, and at least one.

    What a frequent term adds to a product is small, and reading its rows is nearly all of the work: this makes the work
    of a query independent of the number of rows. ``counts`` are the postings of each stored term.

    Examples
    --------
    >>> queries = sparse.csr_array([[0.5, 0.7, 0.2]])
    >>> limit_postings(queries, np.array([60, 3, 50]), max_postings=100).indices
    array([1, 2], dtype=int32)
    """
    lengths = np.diff(queries.indptr)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((queries.indices, counts, rows))
    first = queries.indptr[:-1][lengths > 0]
    so_far = np.cumsum(counts[order], dtype=np.int64)
    before = np.repeat(np.concatenate([[0], so_far])[queries.indptr[:-1]], lengths)
    kept = so_far - before <= max_postings
    kept[first] = True
    order = order[kept]
    indptr = np.concatenate([[0], np.cumsum(kept)])[queries.indptr].astype(queries.indptr.dtype)
    return sparse.csr_array((queries.data[order], queries.indices[order], indptr), shape=queries.shape)
