"""A fitted ranker meets labels that it was not trained for."""

from copy import copy

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.decoding.ranker import LinearRanker
from pysldl.kernels.margins import fit_margins

__all__ = ["grown_ranker"]


def grown_ranker(ranker: LinearRanker, X: sparse.csr_array, Y: sparse.csr_array, new: NDArray[np.intp]) -> LinearRanker:
    """A ranker with classifiers for the labels ``new``; those of all other labels stay as they are.

    The negatives of a new label are the rows most similar to the mean of its rows, as many as a row has candidates:
    those to which its neighbours would offer it.

    Parameters
    ----------
    ranker : LinearRanker
        Fitted. It is not changed.
    X : csr_array of shape (n_samples, n_features), float32
        All training rows.
    Y : csr_array of shape (n_samples, n_labels)
        Their labels, as many as before or more.
    new : ndarray of int
        Labels without a classifier.
    """
    grown = copy(ranker)
    n_missing = Y.shape[1] - len(ranker.bias_)
    weights = ranker.W_.copy()
    weights.resize((Y.shape[1], X.shape[1]))
    bias = np.pad(ranker.bias_, (0, n_missing), constant_values=-1.0)
    if new.size:
        pairs = _pairs(X, sparse.csc_array(Y)[:, new], ranker.n_candidates)
        W, bias[new] = fit_margins(
            X, pairs, C=ranker.C, max_epochs=ranker.max_epochs, tol=ranker.tol, min_weight=ranker.min_weight
        )
        place = (np.ones(new.size, dtype=np.float32), (new, np.arange(new.size)))
        weights = sparse.csr_array(weights + sparse.csr_array(place, shape=(Y.shape[1], new.size)) @ W)
        weights.sort_indices()
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    by_count = np.argsort(-counts, kind="stable")[: ranker.n_frequent]
    grown.W_, grown.bias_, grown.frequent_ = weights, bias, by_count[counts[by_count] > 0]
    return grown


def _pairs(X: sparse.csr_array, carried: sparse.csc_array, n_negatives: int) -> sparse.csc_array:
    """+1 for the rows of every label, -1 for the most similar rows without it."""
    similarity = sparse.csc_array(X @ (carried.T @ X).T)
    rows, signs, indptr = [], [], [0]
    for label in range(carried.shape[1]):
        own = carried.indices[carried.indptr[label] : carried.indptr[label + 1]]
        met = slice(similarity.indptr[label], similarity.indptr[label + 1])
        others = np.flatnonzero(~np.isin(similarity.indices[met], own))
        nearest = others[np.argsort(-similarity.data[met][others], kind="stable")[:n_negatives]]
        column = np.concatenate([own, similarity.indices[met][nearest]])
        sign = np.where(np.arange(len(column)) < len(own), 1.0, -1.0)
        order = np.argsort(column)
        rows.append(column[order])
        signs.append(sign[order].astype(np.float32))
        indptr.append(indptr[-1] + len(column))
    return sparse.csc_array((np.concatenate(signs), np.concatenate(rows), indptr), shape=carried.shape)
