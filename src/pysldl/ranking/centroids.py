"""Candidates by label centroids: labels whose mean row is most similar to a row."""

from copy import copy
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.light_estimator import LightEstimator
from pysldl.backend.dispatch import as_int32_indices
from pysldl.backend.inverted_index import mean_rows, top_terms
from pysldl.backend.label_shards import LabelRows, label_rows, label_shards
from pysldl.backend.linear_algebra import l2_normalize
from pysldl.backend.workspace import current_workspace, row_parts
from pysldl.neighbors.inverted_index import InvertedIndex

ROWS_AT_ONCE = 1 << 13
ROWS_IN_MEMORY = 1 << 20  # of a label and its terms, while neighboring labels are added up


@dataclass(eq=False, repr=False)
class LabelCentroids(LightEstimator):
    """A linear read-out for which nothing is solved: labels by the cosine of a row and the mean of their rows.

    Ridge regression of the labels on the features has weights along these means as its penalty grows. A label that
    none of a row's neighbors carries may still be found here, by words that its rows share.

    Parameters
    ----------
    n_terms : int
        Heaviest terms of a row that are looked up and that enter the means.
    label_terms : int
        Heaviest terms of a mean that are kept.

    Attributes
    ----------
    index_ : InvertedIndex
        For each feature the labels that have it among their heaviest.
    """

    n_terms: int = 16
    label_terms: int = 32

    _saved_state = ("index_",)

    def fit(self, X: sparse.csr_array, Y: sparse.csr_array, *, left_out: NDArray[np.integer] | None = None) -> Self:
        """Add up the rows of every label, but for those of ``left_out``."""
        kept = np.ones(Y.shape[0], dtype=np.bool_)
        if left_out is not None:
            kept[left_out] = False
        workspace = current_workspace()
        if workspace.n_shards == 1:
            self.index_ = self._index_of(X, Y if left_out is None else _rows_only(Y, kept))
            return self
        rows = label_rows([np.full((Y.shape[0], 1), -1, dtype=np.int32)], Y, np.zeros(0, dtype=np.int32))
        # Each is a block of the index, in which every feature costs something: half as many will do.
        shards = label_shards(rows.sizes, -(-workspace.n_shards // 2), ROWS_IN_MEMORY)
        self.index_ = self._empty_index().fit_parts(shards, _means_of, X, rows, kept, self.n_terms)
        return self

    def updated(self, X: sparse.csr_array, Y: sparse.csr_array) -> "LabelCentroids":
        """Means for labels that had none, no more for those without rows, the others as they are; of all rows."""
        n_features, n_known = self.index_.postings_.shape
        known = np.bincount(self.index_.postings_.indices, minlength=Y.shape[1]) > 0
        carried = np.bincount(Y.indices, minlength=Y.shape[1]) > 0
        kept = sparse.csr_array(self.index_.postings_ @ sparse.diags_array(carried[:n_known].astype(np.float32)))
        kept.eliminate_zeros()
        kept.resize((n_features, Y.shape[1]))
        new = np.flatnonzero(carried & ~known)
        fresh = self._index_of(X, sparse.csc_array(Y)[:, new]).postings_.tocoo()
        fresh = sparse.coo_array((fresh.data, (fresh.row, new[fresh.col])), shape=kept.shape)
        grown = copy(self)
        grown.index_ = copy(self.index_)
        grown.index_.postings_ = as_int32_indices(sparse.csr_array(kept + fresh.tocsr(), dtype=np.float32))
        return grown

    def candidates(self, X: sparse.csr_array, m: int) -> NDArray[np.int32]:
        """The m labels most like each row, best first, (n_rows, m); -1 where fewer share a term with it."""
        return self.index_.nearest(X, m)[0]

    def candidates_of_all(self, X: sparse.csr_array, m: int) -> NDArray[np.int32]:
        """:meth:`candidates` of all training rows, in the workspace of the fit."""
        workspace = current_workspace()
        if workspace.n_shards == 1:
            return self.candidates(X, m)
        found = workspace.empty((X.shape[0], m), np.int32)
        workspace.map("candidates", _put_candidates, row_parts(X.shape[0], ROWS_AT_ONCE), self, X, found)
        return found

    def _index_of(self, X: sparse.csr_array, Y: sparse.sparray) -> InvertedIndex:
        return self._empty_index().fit(mean_rows(X, sparse.csr_array(Y), self.n_terms))

    def _empty_index(self) -> InvertedIndex:
        return InvertedIndex(self.n_terms, index_terms=self.label_terms)


def _rows_only(Y: sparse.csr_array, kept: NDArray[np.bool_]) -> sparse.csr_array:
    """``Y`` with nothing in the other rows."""
    stays = np.repeat(kept, np.diff(Y.indptr))
    indptr = np.concatenate([[0], np.cumsum(stays)])[Y.indptr].astype(Y.indptr.dtype)
    return sparse.csr_array((Y.data[stays], Y.indices[stays], indptr), shape=Y.shape)


def _means_of(
    labels: slice, X: sparse.csr_array, rows: LabelRows, kept: NDArray[np.bool_], n_terms: int
) -> sparse.csr_array:
    """The sums of the ``kept`` rows of neighboring labels, scaled to length 1; added up in the order of the rows."""
    indptr, own, _ = rows.of_labels(np.arange(labels.start, labels.stop))
    n_labels, stays = labels.stop - labels.start, kept[own]
    of_label = np.repeat(np.arange(n_labels), np.diff(indptr)[labels])[stays]
    needed, places = np.unique(own[stays], return_inverse=True)
    terms = [top_terms(X[needed[part]], n_terms) for part in row_parts(max(len(needed), 1), ROWS_AT_ONCE)]
    values = np.ones(len(places), dtype=np.float32)
    by_label = sparse.csr_array((values, (of_label, places)), shape=(n_labels, len(needed)))
    return l2_normalize(sparse.csr_array(by_label @ sparse.vstack(terms, format="csr")))


def _put_candidates(part: slice, centroids: LabelCentroids, X: sparse.csr_array, found: NDArray[np.int32]) -> None:
    found[part] = centroids.candidates(X[part], found.shape[1])
