"""Labels whose rows, taken together, are most like a row."""

from copy import copy
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.light_estimator import LightEstimator
from pysldl.backend.dispatch import as_int32_indices
from pysldl.backend.inverted_index import top_terms
from pysldl.backend.row_norms import l2_normalize
from pysldl.neighbors.inverted_index import InvertedIndex

__all__ = ["LabelCentroids"]


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

    _saved_state = ("index_",)

    def __init__(self, n_terms: int = 16, label_terms: int = 32) -> None:
        self.n_terms = n_terms
        self.label_terms = label_terms

    def fit(self, X: sparse.csr_array, Y: sparse.csr_array) -> Self:
        """Add up the rows of every label: ``X`` of shape (n_samples, n_features), ``Y`` of (n_samples, n_labels)."""
        self.index_ = self._index_of(X, Y)
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

    def _index_of(self, X: sparse.csr_array, Y: sparse.sparray) -> InvertedIndex:
        sums = sparse.csr_array(Y.T.astype(np.float32) @ top_terms(X, self.n_terms))
        return InvertedIndex(self.n_terms, index_terms=self.label_terms).fit(l2_normalize(sums))
