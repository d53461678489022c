"""Sparse times dense, and the vector part of conjugate gradients, against their plain twins."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.backend.linear_algebra import (
    advance,
    cholesky_factor,
    column_dots,
    principal_axes,
    sparse_times,
    times_axes,
    turn,
)

pytest.importorskip("numba", reason="numba is not installed, so there is no compiled loop to compare")


@pytest.fixture
def no_numba(monkeypatch):
    def switch_off():
        monkeypatch.setattr("pysldl.backend.dispatch.has_numba", lambda: False)

    return switch_off


@pytest.mark.parametrize("precision", [(np.float32, np.float32), (np.float32, np.float64), (np.float64, np.float32)])
@pytest.mark.parametrize("shape", [(300, 80), (3, 500), (200, 1)])
def test_product(shape, precision, no_numba):
    rng = np.random.default_rng(0)
    X = sparse.random_array(shape, density=0.2, random_state=rng, format="csr").astype(precision[0])
    P = rng.normal(size=(shape[1], 7)).astype(precision[1])
    fast = sparse_times(X, P)
    no_numba()
    slow = sparse_times(X, P)
    assert fast.dtype == slow.dtype == np.result_type(*precision)
    np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(fast, X.toarray() @ P, rtol=1e-5, atol=1e-5)


def test_a_factor_takes_the_place_of_its_matrix():
    rows = np.random.default_rng(0).normal(size=(30, 8))
    A = rows.T @ rows
    expected = np.linalg.cholesky(A + 0.5 * np.eye(8))
    factor = cholesky_factor(A, 0.5)
    assert np.shares_memory(factor, A)
    np.testing.assert_allclose(np.tril(factor), expected, rtol=1e-10)


def test_shares_are_equal_in_stored_values_and_cover_every_row():
    sizes = np.r_[0, 5000, np.zeros(50, int), np.ones(5000, int), 0]
    from pysldl.backend.numba.linear_algebra import equal_shares

    bounds = equal_shares(np.r_[0, np.cumsum(sizes)], 8)
    assert bounds[0] == 0 and bounds[-1] == len(sizes) and (np.diff(bounds) >= 0).all()
    held = np.add.reduceat(np.r_[sizes, 0], bounds[:-1]) * (np.diff(bounds) > 0)
    assert held.sum() == sizes.sum() and held.max() <= 5000 + 10_000 / 8


def test_steps_of_conjugate_gradients(no_numba):
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=(500, 6)).astype(np.float32) for _ in range(4)]
    length, scale = rng.random(6).astype(np.float32), rng.random(500).astype(np.float32)

    def run():
        W, residual, direction, image = (array.copy() for array in arrays)
        sums = advance(W, residual, direction, image, length, scale)
        turn(direction, residual, scale, length)
        return [W, residual, direction, *sums, column_dots(W, image)]

    fast = run()
    no_numba()
    for a, b in zip(fast, run(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_number_of_threads_changes_nothing(monkeypatch):
    import numba

    monkeypatch.setattr("pysldl.backend.numba.linear_algebra.PRODUCTS_OF_PART", 1000)  # several parts
    rng = np.random.default_rng(2)
    X = sparse.random_array((400, 90), density=0.2, random_state=rng, format="csr", dtype=np.float32)
    P = rng.normal(size=(90, 9)).astype(np.float32)
    before = numba.get_num_threads()
    found = []
    for threads in (1, min(2, before)):
        numba.set_num_threads(threads)
        product = sparse_times(X, P)
        found.append((product, column_dots(product, product)))
    numba.set_num_threads(before)
    assert all((a == b).all() for a, b in zip(*found, strict=True))


def test_axes_hold_nearly_all_that_the_best_axes_do():
    rng = np.random.default_rng(0)
    vectors = (rng.normal(size=(5000, 40)) * 0.8 ** np.arange(40)).astype(np.float32)
    axes = principal_axes(vectors, 8)
    np.testing.assert_allclose(axes.T @ axes, np.eye(8), atol=1e-6)
    best = (np.linalg.svd(vectors, compute_uv=False)[:8] ** 2).sum()
    assert (times_axes(vectors, axes) ** 2).sum() > 0.98 * best
    assert principal_axes(vectors, 40) is None
