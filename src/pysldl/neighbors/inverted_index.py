"""Nearest neighbors by inner product of sparse rows, found through the features that they share."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.light_estimator import LightEstimator
from pysldl.backend.dispatch import as_int32_indices
from pysldl.backend.half_precision import fits_half, round_in_place
from pysldl.backend.inverted_index import postings_of, search_by_terms, transposed_terms
from pysldl.backend.linear_algebra import as_float32_rows
from pysldl.backend.voting import vote_by_terms
from pysldl.backend.workspace import Workspace, current_workspace, shared_parts

MAX_POSTINGS = 1 << 14
FEWEST_ROWS, ROWS_AT_ONCE = 1 << 15, 1 << 16  # of a block, where rows are indexed in blocks
FEWEST_ENTRIES, ENTRIES_AT_ONCE = 1 << 20, 1 << 22  # of the index, that are joined at a time


@dataclass(eq=False, repr=False)
class InvertedIndex(LightEstimator):
    """For each feature the rows that have it: a search touches the rows that share a heavy term with the query.

    Parameters
    ----------
    n_terms : int
        Heaviest terms of a query that are looked up: more cost more and find a little more.
    index_terms : int or None
        Heaviest terms of every row that are indexed; None for all. Fewer make the index smaller and the search faster.
    max_postings : int
        Postings that a query reads at most: its terms are looked up rarest first, as long as their postings are not
        more, and one in any case. The work of a query is then the same for any number of rows.

    Attributes
    ----------
    postings_ : csr_array of shape (n_features, n_rows), float32
        The indexed rows, transposed; values are rounded to half precision, in which they are stored.

    Examples
    --------
    >>> index = InvertedIndex().fit(sparse.csr_array([[0.5, 0.75, 0.0], [0.0, 0.0, 1.0]]))
    >>> index.nearest(sparse.csr_array([[0.0, 1.0, 0.0]]), k=2)
    (array([[ 0, -1]], dtype=int32), array([[0.75, 0.  ]], dtype=float32))
    """

    n_terms: int = 20
    _: KW_ONLY
    index_terms: int | None = None
    max_postings: int = MAX_POSTINGS

    _saved_state = ("postings_",)
    postings_: Any = field(init=False)

    def fit(self, X: Any, y: object = None) -> Self:
        """Index the rows of ``X``, of shape (n_rows, n_features)."""
        if current_workspace().for_pass(X).n_shards > 1:
            return self.fit_parts(shared_parts(X.shape[0], FEWEST_ROWS, ROWS_AT_ONCE), _some_rows, X)
        self.postings_ = self._postings_of(X)
        return self

    def fit_parts(self, parts: Sequence[Any], rows_of: Callable[..., sparse.csr_array], *shared: Any) -> Self:
        """Index rows that are made part by part, ``rows_of(part, *shared)``, in the workspace of the fit.

        See :meth:`pysldl.backend.workspace.Workspace.map` for what the arguments must be.
        """
        workspace = current_workspace()
        if len(parts) == 1:
            self.postings_ = workspace.map("indexing", _all_postings, parts, self, rows_of, *shared)[0]
            return self
        blocks = workspace.map("indexing", _made_postings, parts, self, rows_of, *shared)
        self.postings_ = _joined_postings(workspace, *zip(*blocks, strict=True))
        return self

    def extend(self, X: Any) -> Self:
        """Index further rows behind the present ones, as a fit to all would."""
        self.postings_ = as_int32_indices(sparse.hstack([self.postings_, self._postings_of(X)], format="csr"))
        return self

    def nearest(
        self, X: Any, k: int, *, exclude: NDArray[np.integer] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The k rows with the largest inner product with the terms of each query that are looked up, and the products.

        Returns are those of :func:`~pysldl.backend.inverted_index.search_inverted_index`: -1 and 0 for none.
        """
        limits = {"n_terms": self.n_terms, "max_postings": self.max_postings}
        return search_by_terms(as_float32_rows(X), self.postings_, k, exclude, **limits)

    def split_votes(
        self,
        X: Any,
        Y: sparse.csr_array,
        m: int,
        *,
        exclude: NDArray[np.integer],
        n_neighbors: int,
        temperature: float,
        is_held: NDArray[np.bool_],
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32]]:
        """Labels by the votes of the nearest rows, whose labels are ``Y``: :func:`~pysldl.backend.voting.split_votes`.

        On a GPU the neighbors do not leave it.
        """
        limits = {"n_terms": self.n_terms, "max_postings": self.max_postings}
        votes = {"n_neighbors": n_neighbors, "temperature": temperature, "is_held": is_held}
        return vote_by_terms(as_float32_rows(X), self.postings_, Y, m, exclude, **votes, **limits)  # type: ignore[arg-type]

    def _postings_of(self, X: Any) -> sparse.csr_array:
        return postings_of(as_float32_rows(X), self.index_terms)


def _made_postings(
    part: Any, index: InvertedIndex, rows_of: Callable[..., sparse.csr_array], *shared: Any
) -> tuple[sparse.csr_array, bool]:
    """Some rows, indexed on their own, and whether their values can be rounded: they are when those of all rows can."""
    postings = transposed_terms(as_float32_rows(rows_of(part, *shared)), index.index_terms)
    return postings, postings.nnz == 0 or fits_half(postings.data)


def _all_postings(
    part: Any, index: InvertedIndex, rows_of: Callable[..., sparse.csr_array], *shared: Any
) -> sparse.csr_array:
    """All rows, indexed at once."""
    return index._postings_of(rows_of(part, *shared))


def _some_rows(part: slice, X: Any) -> Any:
    return X[part]


def _joined_postings(
    workspace: Workspace, blocks: Sequence[sparse.csr_array], are_halves: Sequence[bool]
) -> sparse.csr_array:
    """Postings of blocks of rows side by side, without all of them in memory."""
    n_features, n_rows = blocks[0].shape[0], sum(block.shape[1] for block in blocks)
    ends = np.zeros(n_features + 1, dtype=np.int64)
    for block in blocks:
        ends += block.indptr
    n_entries = int(ends[-1])
    index_type = np.int32 if max(n_entries, n_features, n_rows) < np.iinfo(np.int32).max else np.int64
    workspace = workspace.for_pass(blocks)
    indices, data = workspace.empty(n_entries, index_type), workspace.empty(n_entries, blocks[0].dtype)
    # A feature costs something in every block, with entries or without.
    work = ends + len(blocks) * np.arange(n_features + 1)
    starts = [part.start for part in shared_parts(int(work[-1]), FEWEST_ENTRIES, ENTRIES_AT_ONCE)]
    cuts = np.unique(np.searchsorted(work, starts, side="right") - 1)
    parts = [slice(int(a), int(b)) for a, b in pairwise([*cuts.tolist(), n_features])]
    workspace.map("indexing", _put_postings, parts, blocks, ends, indices, data, all(are_halves))
    joined = sparse.csr_array((n_features, n_rows), dtype=data.dtype)
    joined.data, joined.indices, joined.indptr = data, indices, ends.astype(index_type)
    return joined


def _put_postings(
    part: slice,
    blocks: Sequence[sparse.csr_array],
    ends: NDArray[np.int64],
    indices: NDArray[Any],
    data: NDArray[Any],
    are_halves: bool,
) -> None:
    """Join the postings of some features, and round them."""
    joined = sparse.hstack([block[part] for block in blocks], format="csr")
    places = slice(int(ends[part.start]), int(ends[part.stop]))
    indices[places], data[places] = joined.indices, joined.data
    if are_halves:
        round_in_place(data[places])
