"""The forms of the primitives for a single row, with the very bits of those for many.

They are NumPy, so that a service answers before numba is loaded. The compiled loops of
:mod:`pysldl.backend.numba.single_query` take over when they have been made ready, see :func:`compile_loops`, or when
many rows have loaded numba anyway. They are then those for a few rows, too: their work does not depend on how many rows
or labels a model has.
"""

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from pysldl.backend.dispatch import has_numba, use_few_rows, uses_numba
from pysldl.backend.topk import top_k_or_zero
from pysldl.backend.trees import Trees, walk_trees

MOST_WORKSPACES = 4  # of a thread: postings, centroids, labels and features of a model

# .arrays: by number of columns, zeros and room for those that are met; .loops: those that this thread makes ready
_of_thread = threading.local()
_loops: ModuleType | None = None
_being_compiled = threading.Lock()


def compile_loops(predict: Callable[[], object]) -> bool:
    """Compile the loops, or load them from numba's cache; nobody else uses them before they are ready.

    ``predict`` predicts one row: numba compiles for the arrays that it is given. Returns whether there are loops.
    """
    global _loops
    if not has_numba():
        return False
    with _being_compiled:
        from pysldl.backend.numba import single_query as loops

        _of_thread.loops = loops
        try:
            predict()
        finally:
            del _of_thread.loops
        _loops = loops
    use_few_rows()
    return True


def _ready_loops() -> ModuleType | None:
    """The compiled loops; None before they are ready, or while nothing else in this process has needed numba."""
    global _loops
    loops = getattr(_of_thread, "loops", _loops)
    if loops is None and uses_numba() and not _being_compiled.locked():
        from pysldl.backend.numba import single_query as loops

        _loops = loops
        use_few_rows()
    return loops


class RankedStages(NamedTuple):
    """Neighbors by features, the classifiers and the trees of a model, as :func:`rank_rows` takes them.

    Numbers first, then matrices, then arrays; without centroids or trees, ``n_centroids`` is 0 and there are no roots.
    """

    n_terms: int
    max_postings: int
    n_neighbors: int
    temperature: float
    n_candidates: int
    centroid_terms: int
    centroid_postings: int
    n_centroids: int
    vote_power: float
    n_rescored: int
    baseline: float
    postings: sparse.csr_array
    Y: sparse.csr_array
    centroids: sparse.csr_array
    W: sparse.csr_array
    pairs: sparse.csr_array
    frequent: NDArray[np.int32]
    bias: NDArray[np.float32]
    counts: NDArray[np.integer]
    trees: Trees


def rank_rows(X: sparse.csr_array, stages: RankedStages) -> tuple[NDArray[np.int32], NDArray[np.float32]] | None:
    """Candidates of a row, or of a few, and their final scores, in one compiled call; None before the loops are ready.

    It takes the steps of the stages in their order: a step alone costs more in calls than in arithmetic where there is
    but one row. Exponentials are those of C in place of NumPy's; both are exact to more digits than are kept.
    """
    loops = _ready_loops()
    if loops is None:
        return None
    width = stages.n_candidates + stages.n_centroids + len(stages.frequent)
    labels = np.full((X.shape[0], width), -1, dtype=np.int32)
    scores = np.empty((X.shape[0], width), dtype=np.float32)
    numbers, matrices, (frequent, bias, counts, trees) = stages[:11], stages[11:16], stages[16:]
    loops.rank_rows(
        *_rows_of(X),
        *numbers,
        *(part for matrix in matrices for part in _parts_of(matrix)),
        *(frequent, bias, counts),
        *trees[:-1],
        *_workspace(stages.Y.shape[0]),
        *_workspace(stages.Y.shape[1]),
        _workspace(stages.W.shape[1])[0],
        labels,
        scores,
    )
    return labels, scores


def search_by_terms(
    X: sparse.csr_array,
    postings: sparse.csr_array,
    k: int,
    exclude: NDArray[np.integer] | None = None,
    *,
    n_terms: int,
    max_postings: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    loops = _ready_loops()
    if loops is None:
        heaviest = np.lexsort((X.indices, -X.data))[:n_terms]
        terms = X.indices[heaviest]
        counts = postings.indptr[terms + 1] - postings.indptr[terms]
        order = np.lexsort((terms, counts))
        n_kept = max(1, int(np.searchsorted(np.cumsum(counts[order]), max_postings, side="right")))
        kept = heaviest[order[:n_kept]]
        return _best_sums(X.indices[kept], X.data[kept], postings, k, -1 if exclude is None else int(exclude[0]))
    numbers, sums = np.full((X.shape[0], k), -1, dtype=np.int32), np.zeros((X.shape[0], k), dtype=np.float32)
    left_out = np.full(X.shape[0], -1, dtype=np.int64) if exclude is None else _of_type(exclude, np.int64)
    workspace = _workspace(postings.shape[1])
    loops.search_by_terms(
        *_rows_of(X), n_terms, max_postings, *_parts_of(postings), *workspace, left_out, numbers, sums
    )
    return numbers, sums


def vote_top(
    neighbors: NDArray[np.int32], weights: NDArray[np.float32], Y: sparse.csr_array, m: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    loops = _ready_loops()
    if loops is None:
        there = neighbors[0] >= 0
        return _best_sums(neighbors[0, there], weights[0, there], Y, m)  # Y holds ones
    n_rows = len(neighbors)
    labels, votes = np.full((n_rows, m), -1, dtype=np.int32), np.zeros((n_rows, m), dtype=np.float32)
    rows, values = _of_type(neighbors, np.int32), _of_type(weights, np.float32)
    loops.vote_top(rows, values, *_parts_of(Y), *_workspace(Y.shape[1]), labels, votes)
    return labels, votes


def score_candidates(
    X: sparse.csr_array, labels: NDArray[np.int32], W: sparse.csr_array, bias: NDArray[np.float32]
) -> NDArray[np.float32]:
    loops = _ready_loops()
    scores = np.full(labels.shape, -np.inf, dtype=np.float32)
    if loops is None:
        x = np.zeros(X.shape[1], dtype=np.float32)
        x[X.indices] = X.data
        there = labels[0] >= 0
        scores[0, there] = W[labels[0, there]] @ x + bias[labels[0, there]]  # SciPy adds up from the left, too
        return scores
    x, _ = _workspace(W.shape[1])
    loops.score_candidates(*_rows_of(X), _of_type(labels, np.int32), *_parts_of(W), bias, x, scores)
    return scores


def sum_of_trees(X: NDArray[np.float32], trees: Trees) -> NDArray[np.float64]:
    loops = _ready_loops()
    if loops is None:
        return walk_trees(X, trees)
    flat = _of_type(X.reshape(-1, X.shape[-1]), np.float32)
    total = np.zeros(len(flat))
    loops.add_trees(0, len(flat), flat, *trees[:-1], total)
    return total.reshape(X.shape[:-1])


def sparse_times(X: sparse.csr_array, P: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
    dtype = np.result_type(X.dtype, P.dtype) if dtype is None else np.dtype(dtype)
    terms = X.data.astype(dtype, copy=False)[:, None] * P[X.indices].astype(dtype, copy=False)
    return np.cumsum(np.concatenate([np.zeros_like(P[:1], dtype=dtype), terms]), axis=0)[-1:]


def _best_sums(
    rows: NDArray[np.integer], values: NDArray[np.float32], matrix: sparse.csr_array, k: int, left_out: int = -1
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k largest sums of columns over rows of a matrix, added up one after the other: -1 and 0 for none."""
    total = np.zeros(matrix.shape[1], dtype=np.float32)
    for row, value in zip(rows.tolist(), values, strict=True):
        places = slice(matrix.indptr[row], matrix.indptr[row + 1])
        total[matrix.indices[places]] += value * matrix.data[places]
    if left_out >= 0:
        total[left_out] = 0.0
    met = np.flatnonzero(total > 0)
    return top_k_or_zero(sparse.csr_array((total[met], met, (0, len(met))), shape=(1, len(total))), k)


def _workspace(n_columns: int) -> tuple[NDArray[np.float32], NDArray[np.uint32]]:
    """Zeros to add up in, which stay with the thread: to make them anew would cost more than the sums."""
    arrays = _of_thread.__dict__.setdefault("arrays", {})
    if n_columns not in arrays:
        if len(arrays) >= MOST_WORKSPACES:
            arrays.clear()
        arrays[n_columns] = np.zeros(n_columns, dtype=np.float32), np.empty(n_columns + 1, dtype=np.uint32)
    found: tuple[NDArray[np.float32], NDArray[np.uint32]] = arrays[n_columns]
    return found


def _rows_of(X: sparse.csr_array) -> tuple[NDArray[Any], ...]:
    return _of_type(X.indptr, np.int64), _of_type(X.indices, np.int32), _of_type(X.data, np.float32)


def _parts_of(matrix: sparse.csr_array) -> tuple[NDArray[Any], ...]:
    return matrix.indptr, matrix.indices, matrix.data


def _of_type(array: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """The array as the loops were compiled for it: that of a caller may be of another type, or read-only."""
    return np.require(array, dtype, ("C", "W"))
