"""Add classifiers for new labels to a fitted ranker."""

from copy import copy

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import as_int32_indices
from pysldl.backend.inverted_index import search_inverted_index, top_terms
from pysldl.backend.label_problems import LabelProblems
from pysldl.backend.squared_hinge import fit_squared_hinge
from pysldl.ranking.candidates import frequent_labels, frequent_without_features
from pysldl.ranking.linear import LinearRanker

TERMS_OF_A_LABEL = 20
SPREAD_ROWS = 500


def extend_ranker(
    ranker: LinearRanker,
    X: sparse.csr_array,
    Y: sparse.csr_array,
    new: NDArray[np.intp],
    postings: sparse.csr_array | None = None,
) -> LinearRanker:
    """A ranker with classifiers for the labels ``new``; those of all other labels stay as they are.

    The negatives of a new label are the rows most similar to the mean of its rows, as many as a row has candidates:
    those for which its neighbors would propose it. ``X`` and ``Y`` are all training rows; ``postings`` is ``X``
    transposed, or its heaviest terms, where that is there already. The fitted ``ranker`` is not changed.
    """
    trained = np.diff(ranker.W_.indptr) > 0
    new = new[~np.isin(new, np.flatnonzero(trained))]  # a label whose rows come back has its classifier
    grown = copy(ranker)
    grown.bias_ = np.pad(ranker.bias_, (0, Y.shape[1] - len(ranker.bias_)), constant_values=-1.0)
    W = sparse.csr_array((0, X.shape[1]), dtype=np.float32)
    if new.size:
        # Where all labels of a row are scored, a new one must be told from any row, too.
        any_rows = np.linspace(0, X.shape[0] - 1, SPREAD_ROWS if ranker.all_labels_ else 0).astype(np.int32)
        postings = X.T.tocsr() if postings is None else postings
        problems = _problems(X, sparse.csc_array(Y)[:, new], ranker.n_decoder_candidates, postings, any_rows)
        costs = ranker.cost_of_labels(Y)
        W, grown.bias_[new], *_ = fit_squared_hinge(
            X,
            problems,
            C=ranker.C_,
            positive_weight=None if costs is None else costs[new],
            max_epochs=ranker.max_epochs,
            tol=ranker.tol,
            min_weight=ranker.min_weight,
        )
    if ranker.centroids_ is not None:
        grown.centroids_ = ranker.centroids_.updated(X, Y)
    grown.W_ = _with_rows(ranker.W_, W, new, Y.shape[1])
    grown.frequent_ = (
        frequent_without_features(X, Y) if ranker.all_labels_ else frequent_labels(Y, len(ranker.frequent_))
    )
    return grown


def _problems(
    X: sparse.csr_array,
    carried: sparse.csc_array,
    n_negatives: int,
    postings: sparse.csr_array,
    any_rows: NDArray[np.int32],
) -> LabelProblems:
    """The rows of every label, and without it the most similar rows and ``any_rows``."""
    centers = top_terms(sparse.csr_array(carried.T @ X, dtype=np.float32), TERMS_OF_A_LABEL)
    near, _ = search_inverted_index(centers, postings, min(2 * n_negatives, X.shape[0]))
    rows, indptr = [np.zeros(0, dtype=np.int32)], [0]
    for label in range(carried.shape[1]):
        own = carried.indices[carried.indptr[label] : carried.indptr[label + 1]]
        others = near[label][near[label] >= 0]
        others = others[~np.isin(others, own)][:n_negatives]
        others = np.concatenate([others, np.setdiff1d(any_rows, np.concatenate([own, others]))])
        rows.append(np.concatenate([own, ~others]).astype(np.int32))
        indptr.append(indptr[-1] + len(rows[-1]))
    return LabelProblems(np.array(indptr), np.concatenate(rows))


def _with_rows(W: sparse.csr_array, fresh: sparse.csr_array, at: NDArray[np.intp], n_rows: int) -> sparse.csr_array:
    """``W``, of ``n_rows`` rows, with those of ``fresh`` in the places ``at``, which ascend and were empty."""
    indptr = np.pad(W.indptr, (0, n_rows - W.shape[0]), mode="edge")
    sizes = np.diff(fresh.indptr)
    places = np.repeat(indptr[at], sizes)
    data, indices = np.insert(W.data, places, fresh.data), np.insert(W.indices, places, fresh.indices)
    grown = np.diff(indptr)
    grown[at] += sizes
    ends = np.concatenate([[0], np.cumsum(grown)])
    if ends[-1] < np.iinfo(W.indices.dtype).max:
        ends = ends.astype(W.indices.dtype)  # SciPy would else widen the indices to the type of their ends
    return as_int32_indices(sparse.csr_array((data, indices, ends), shape=(n_rows, W.shape[1])))
