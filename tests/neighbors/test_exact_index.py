"""Exact search against a full sort."""

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from pysldl.backend.linear_algebra import unit_vectors
from pysldl.decoding import LinearReadout
from pysldl.neighbors.exact import ExactIndex


def slow(Z, Q, k, exclude=None):
    cosine = (unit_vectors(Q) @ unit_vectors(Z).T).astype(np.float64)
    if exclude is not None:
        cosine[np.arange(len(Q)), exclude] = -np.inf
    order = np.argsort(-cosine, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(cosine, order, axis=1)


def test_finds_what_a_full_sort_finds_in_every_block_size(monkeypatch):
    rng = np.random.default_rng(0)
    Z, Q = rng.normal(size=(200, 5)), rng.normal(size=(31, 5))
    expected, cosine = slow(Z, Q, 7)
    for rows in (1, 4, 31, 1000):
        monkeypatch.setattr("pysldl.backend.nearest.BLOCK_BYTES", rows * 4 * 200)
        neighbors, distances = ExactIndex().fit(Z).search(Q, 7)
        assert (neighbors == expected).all()
        np.testing.assert_allclose(distances, 1 - cosine, atol=1e-6)


def test_a_row_left_out_is_not_its_own_neighbor():
    Z = np.random.default_rng(1).normal(size=(50, 4))
    rows = np.arange(50)
    neighbors, _ = ExactIndex().fit(Z).search(Z, 49, exclude=rows)
    assert not (neighbors == rows[:, None]).any()


def test_zero_vectors_are_at_distance_one():
    Z = np.vstack([np.zeros(3), np.eye(3)])
    _, distances = ExactIndex().fit(Z).search(np.zeros((1, 3)), 4)
    assert (distances == 1).all()
    assert ExactIndex().fit(Z).search(np.eye(3)[:1], 4)[1].tolist() == [[0, 1, 1, 1]]
    assert np.isfinite(ExactIndex().fit(Z).search(np.eye(3), 4)[1]).all()


@pytest.mark.parametrize("copies", [10, 400])
def test_of_equal_vectors_the_first_are_found(copies):
    """Which of equal vectors a product in single precision puts first hangs on the processor."""
    rng = np.random.default_rng(2)
    Z = np.tile(rng.normal(size=(3, 33)), (copies, 1))  # vector i is there at i, i + 3, i + 6, ...
    neighbors, products = ExactIndex().fit(Z).nearest(unit_vectors(Z[:3]), 7)
    np.testing.assert_array_equal(neighbors, np.arange(3)[:, None] + 3 * np.arange(7))
    assert (products == products[:, :1]).all()
    neighbors, _ = ExactIndex().fit(Z).nearest(unit_vectors(Z[:3]), 7, exclude=np.arange(3))
    np.testing.assert_array_equal(neighbors, np.arange(3)[:, None] + 3 * np.arange(1, 8))


def test_the_number_of_threads_changes_no_bit():
    rng = np.random.default_rng(3)
    Z, Q = rng.normal(size=(3000, 65)), rng.normal(size=(700, 65))
    Y = sparse.random_array((3000, 40), density=0.1, random_state=rng, format="csr")
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append([*ExactIndex().fit(Z).search(Q, 20), LinearReadout().fit(Z, Y).scores(Q)])
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


def test_labels_on_the_same_rows_get_the_same_score():
    rng = np.random.default_rng(4)
    Z, labels = rng.normal(size=(200, 17)).astype(np.float32), (rng.random((200, 1)) < 0.3).astype(np.float32)
    Y = sparse.csr_array(np.tile(labels, (1, 37)))
    scores = LinearReadout().fit(Z, Y).scores(Z)
    assert (scores == scores[:, :1]).all()
