"""The forms of the primitives for a single row, with the very bits of those for many.

They are NumPy, so that a service answers before numba is loaded; whoever has the time may load the compiled loops
of :mod:`pysldl.backend.numba.single_query` meanwhile, see :func:`compile_loops`.
"""

import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from pysldl.backend.dispatch import has_numba
from pysldl.backend.topk import top_k_or_zero
from pysldl.backend.trees import NO_TREES, Trees, walk_trees

__all__ = ["compile_loops", "score_candidates", "search_inverted_index", "sparse_times", "sum_of_trees", "vote_top"]

MOST_WORKSPACES = 4  # of a thread: postings, centroids and labels of a model

_workspace = threading.local()  # .arrays: by number of columns, zeros and room for those that are met
_loops: ModuleType | None = None


def compile_loops(matrices: Sequence[sparse.csr_array]) -> None:
    """Compile the loops, or load them from numba's cache; nobody uses them before they are ready for ``matrices``."""
    global _loops
    if not has_numba():
        return
    from pysldl.backend.numba import single_query as loops

    for matrix in matrices:
        parts = (matrix.indptr, matrix.indices, matrix.data)
        nothing = np.zeros(0, dtype=np.float32)
        loops.dot_rows(nothing, np.zeros(0, dtype=np.int64), nothing, *parts)
        _best_sums(loops, np.zeros(0, dtype=np.int64), nothing, matrix, -1, 1)
    _sum_of_trees(loops, np.zeros((1, 1, 1), dtype=np.float32), NO_TREES)
    _loops = loops


def search_inverted_index(
    queries: sparse.csr_array, postings: sparse.csr_array, k: int, exclude: NDArray[np.integer] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    left_out = -1 if exclude is None else int(exclude[0])
    return _best_sums(_loops, queries.indices, queries.data, postings, left_out, k)


def vote_top(
    neighbors: NDArray[np.int32], weights: NDArray[np.float32], Y: sparse.csr_array, m: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    there = neighbors[0] >= 0
    return _best_sums(_loops, neighbors[0, there], weights[0, there], Y, -1, m)  # Y holds ones


def score_candidates(
    X: sparse.csr_array, labels: NDArray[np.int32], W: sparse.csr_array, bias: NDArray[np.float32]
) -> NDArray[np.float32]:
    x = np.zeros(X.shape[1], dtype=np.float32)
    x[X.indices] = X.data
    there = labels[0] >= 0
    scores = np.full(labels.shape, -np.inf, dtype=np.float32)
    scores[0, there] = _dot_rows(labels[0, there], x, W) + bias[labels[0, there]]
    return scores


def sum_of_trees(X: NDArray[np.float32], trees: Trees) -> NDArray[np.float64]:
    return walk_trees(X, trees) if _loops is None else _sum_of_trees(_loops, X, trees)


def sparse_times(X: sparse.csr_array, P: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
    dtype = np.result_type(X.dtype, P.dtype) if dtype is None else np.dtype(dtype)
    terms = X.data.astype(dtype, copy=False)[:, None] * P[X.indices].astype(dtype, copy=False)
    return np.cumsum(np.concatenate([np.zeros_like(P[:1], dtype=dtype), terms]), axis=0)[-1:]


def _sum_of_trees(loops: ModuleType, X: NDArray[np.float32], trees: Trees) -> NDArray[np.float64]:
    flat = np.ascontiguousarray(X.reshape(-1, X.shape[-1]))
    total = np.zeros(len(flat))
    # Trees of a mapped model are read-only, for which the loop would be compiled again; they are small.
    loops.add_trees(0, len(flat), flat, *(np.require(part, requirements="W") for part in trees[:-1]), total)
    return total.reshape(X.shape[:-1])


def _best_sums(
    loops: ModuleType | None,
    rows: NDArray[np.integer],
    values: NDArray[np.float32],
    matrix: sparse.csr_array,
    left_out: int,
    k: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k largest sums of columns over the given rows of a matrix, each times its value: -1 and 0 for none.

    The rows are added up one after the other. The zeros to add up in stay with the thread: to make them anew would cost
    more than the sums, with many columns.
    """
    if loops is None:
        total = np.zeros(matrix.shape[1], dtype=np.float32)
        for row, value in zip(rows.tolist(), values, strict=True):
            places = slice(matrix.indptr[row], matrix.indptr[row + 1])
            total[matrix.indices[places]] += value * matrix.data[places]
        if left_out >= 0:
            total[left_out] = 0.0
        met = np.flatnonzero(total > 0)
        return top_k_or_zero(sparse.csr_array((total[met], met, (0, len(met))), shape=(1, len(total))), k)
    arrays = _workspace.__dict__.setdefault("arrays", {})
    n_columns = matrix.shape[1]
    if n_columns not in arrays:
        if len(arrays) >= MOST_WORKSPACES:
            arrays.clear()
        arrays[n_columns] = np.zeros(n_columns, dtype=np.float32), np.empty(n_columns + 1, dtype=np.int64)
    total, met = arrays[n_columns]
    numbers, sums = np.full((1, k), -1, dtype=np.int32), np.zeros((1, k), dtype=np.float32)
    parts = (matrix.indptr, matrix.indices, matrix.data)
    loops.best_sums(rows.astype(np.int64), values, *parts, total, met, left_out, numbers[0], sums[0])
    return numbers, sums


def _dot_rows(rows: NDArray[np.integer], x: NDArray[np.float32], matrix: sparse.csr_array) -> NDArray[np.float32]:
    """Products of the given rows of a matrix with ``x``, each added up from the left, as SciPy does."""
    if _loops is None:
        return np.asarray(matrix[rows] @ x)
    products = np.empty(len(rows), dtype=np.float32)
    _loops.dot_rows(products, rows.astype(np.int64), x, matrix.indptr, matrix.indices, matrix.data)
    return products
