"""The inverted index reads a limited number of postings, and parts of it answer as the whole."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.backend.inverted_index import limit_postings, top_terms
from pysldl.neighbors import InvertedIndex


@pytest.fixture(scope="module")
def rows():
    """Rows in which the first features are frequent and the last rare, with values that make ties."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array(np.round(rng.random((600, 50)), 1) * (rng.random((600, 50)) < 0.6 / np.arange(1, 51) ** 0.5))
    X.eliminate_zeros()
    return sparse.csr_array(X, dtype=np.float32)


def test_terms_are_looked_up_rarest_first_until_the_limit(rows):
    counts = np.bincount(rows.indices, minlength=50)
    cut = limit_postings(rows, counts[rows.indices], 250)
    for row in range(rows.shape[0]):
        own = rows.indices[rows.indptr[row] : rows.indptr[row + 1]]
        kept = cut.indices[cut.indptr[row] : cut.indptr[row + 1]]
        rarest_first = own[np.lexsort((own, counts[own]))]
        np.testing.assert_array_equal(kept, rarest_first[: len(kept)])
        assert counts[kept].sum() <= 250 or len(kept) == 1
        if len(kept) < len(own):
            assert counts[rarest_first[: len(kept) + 1]].sum() > 250
    assert (cut[[3]].toarray() == np.where(np.isin(np.arange(50), cut[[3]].indices), rows[[3]].toarray(), 0)).all()
    assert not len(own) or len(kept)


def test_without_a_limit_that_bites_products_are_those_of_all_terms(rows):
    found, products = InvertedIndex(50).fit(rows).nearest(rows, 3)
    dense = rows.toarray() @ rows.toarray().T
    np.testing.assert_allclose(products[:, 0], dense.max(axis=1), rtol=1e-3)  # postings have half precision
    np.testing.assert_allclose(products, np.take_along_axis(dense, found.astype(np.int64), axis=1), rtol=1e-3)


def test_a_query_of_frequent_terms_only_still_finds_rows(rows):
    frequent = sparse.csr_array(([1.0], ([0], [0])), shape=(1, 50), dtype=np.float32)
    assert (InvertedIndex(max_postings=1).fit(rows).nearest(frequent, 5)[0] >= 0).all()


def test_queries_without_terms_find_nothing(rows):
    empty = sparse.csr_array((2, 50), dtype=np.float32)
    assert (InvertedIndex().fit(rows).nearest(empty, 5)[0] == -1).all()
    assert limit_postings(top_terms(empty, 3), np.zeros(0, dtype=np.int64), 5).nnz == 0


@pytest.mark.parametrize("max_postings", [100, 400, 1 << 14])
def test_a_row_alone_looks_up_the_terms_it_looks_up_among_others(rows, max_postings):
    index = InvertedIndex(6, max_postings=max_postings).fit(rows)
    together = index.nearest(rows[:80], 7, exclude=np.arange(80))
    for row in range(80):
        alone = index.nearest(rows[[row]], 7, exclude=np.array([row]))
        np.testing.assert_array_equal(alone[0][0], together[0][row])
        np.testing.assert_array_equal(alone[1][0], together[1][row])
