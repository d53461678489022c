"""Selection and pair products against NumPy."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.backend.nearest import (
    largest,
    largest_columns,
    nearest_rows,
    nearest_vectors,
    pair_distances,
    pair_products,
)


@pytest.fixture(params=["numba", "NumPy"])
def either(request, monkeypatch):
    if request.param == "numba":
        pytest.importorskip("numba", reason="numba is not installed, so there is no compiled loop")
    else:
        monkeypatch.setattr("pysldl.backend.dispatch.has_numba", lambda: False)


# With 700 columns the compiled loop looks at groups of them; columns are left over for 9 and 33.
@pytest.mark.parametrize(("k", "n"), [(1, 50), (2, 50), (9, 50), (49, 50), (2, 700), (9, 700), (33, 700), (699, 700)])
@pytest.mark.parametrize("left_out", [False, True])
def test_largest_are_those_of_a_stable_sort(either, k, n, left_out):
    rng = np.random.default_rng(0)
    values = rng.integers(-4 * n // 50, 5 * n // 50, size=(80, n)).astype(np.float32)  # many ties
    values[3] = 0
    without = rng.integers(0, n, 80) if left_out else None
    if left_out:
        without[40:] = values[40:].argmax(axis=1)  # what would be the first
    masked = values.astype(np.float64)
    if left_out:
        masked[np.arange(80), without] = -np.inf
    expected = np.argsort(-masked, axis=1, kind="stable")[:, :k]
    columns, found = largest(values, k, without)
    assert (columns == expected).all()
    assert (found == np.take_along_axis(values, expected, axis=1)).all()
    assert (largest_columns(values, k, without) == np.sort(expected, axis=1)).all()


def test_zeros_with_a_sign_are_equal(either):
    values = np.zeros((3, 500), np.float32)
    values[:, ::3], values[1, 400], values[2] = -0.0, 1, -1
    values[2, [7, 9]] = -0.0, 0.0
    assert (largest_columns(values, 2)[:, [0, 1]] == [[0, 1], [0, 400], [7, 9]]).all()


@pytest.mark.parametrize("n_vectors", [30, 3000, 20_000])  # of the last, too many products for a cache
@pytest.mark.parametrize("left_out", [False, True])
def test_nearest_vectors_in_blocks(either, monkeypatch, n_vectors, left_out):
    monkeypatch.setattr("pysldl.backend.nearest.CACHED_SIMILARITIES", 1 << 18)  # 21 queries with 3,000 vectors
    monkeypatch.setattr("pysldl.backend.nearest.BLOCK_BYTES", 1 << 24)
    rng = np.random.default_rng(3)
    n_queries = 40 if n_vectors == 20_000 else 230  # three spans of blocks
    Q = rng.integers(-8, 9, (n_queries, 5)).astype(np.float32)
    V = rng.integers(-8, 9, (n_vectors, 5)).astype(np.float32)
    without = rng.integers(0, n_vectors, n_queries) if left_out else None
    products = Q @ V.T
    if left_out:
        products[np.arange(n_queries), without] = -np.inf
    expected = np.argsort(-products, axis=1, kind="stable")[:, :7]
    rows, found = nearest_vectors(Q, V, 7, without)
    assert (rows == expected).all() and (found == np.take_along_axis(products, expected, axis=1)).all()
    assert (nearest_rows(Q, V, 7, without) == np.sort(expected, axis=1)).all()
    assert nearest_rows(Q[:0], V, 7).shape == (0, 7) and nearest_vectors(Q[:0], V, 7)[0].shape == (0, 7)


@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_products_of_pairs(either, form):
    rng = np.random.default_rng(1)
    Q, V = (
        sparse.random_array((n, 40), density=0.3, random_state=rng, format="csr", dtype=np.float32) for n in (70, 30)
    )
    rows = rng.integers(-1, 30, (70, 6))
    expected = np.where(rows < 0, 0, np.take_along_axis((Q @ V.T).toarray(), np.maximum(rows, 0), axis=1))
    found = pair_products(Q, rows, V) if form == "sparse" else pair_products(Q.toarray(), rows, V.toarray())
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_distances_of_pairs(either):
    rng = np.random.default_rng(2)
    Q, V = rng.normal(size=(40, 5)), rng.normal(size=(30, 5)).astype(np.float32)
    Q[3], V[7] = 0, 0
    rows = rng.integers(-1, 30, (40, 6))
    found = pair_distances(Q, rows, V)
    for query, row in np.ndindex(rows.shape):
        neighbor = rows[query, row]
        expected = 0.5 * ((Q[query] - V[neighbor].astype(float)) ** 2).sum()
        if neighbor < 0:
            expected = np.inf
        elif query == 3 or neighbor == 7:
            expected = 1.0
        assert found[query, row] == pytest.approx(expected, rel=1e-12)
