"""Exact search against a full sort."""

import numpy as np

from pysldl.decoding import index as index_module
from pysldl.decoding.index import ExactIndex, unit_vectors


def slow(Z, Q, k, leave_out=None):
    cosine = (unit_vectors(Q) @ unit_vectors(Z).T).astype(np.float64)
    if leave_out is not None:
        cosine[np.arange(len(Q)), leave_out] = -np.inf
    order = np.argsort(-cosine, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(cosine, order, axis=1)


def test_finds_what_a_full_sort_finds_in_every_block_size(monkeypatch):
    rng = np.random.default_rng(0)
    Z, Q = rng.normal(size=(200, 5)), rng.normal(size=(31, 5))
    expected, cosine = slow(Z, Q, 7)
    for rows in (1, 4, 31, 1000):
        monkeypatch.setattr(index_module, "BLOCK_BYTES", rows * 4 * 200)
        neighbors, distances = ExactIndex().fit(Z).search(Q, 7)
        assert (neighbors == expected).all()
        np.testing.assert_allclose(distances, 1 - cosine, atol=1e-6)


def test_a_row_left_out_is_not_its_own_neighbour():
    Z = np.random.default_rng(1).normal(size=(50, 4))
    rows = np.arange(50)
    neighbors, _ = ExactIndex().fit(Z).search(Z, 49, leave_out=rows)
    assert not (neighbors == rows[:, None]).any()


def test_zero_vectors_are_at_distance_one():
    Z = np.vstack([np.zeros(3), np.eye(3)])
    _, distances = ExactIndex().fit(Z).search(np.zeros((1, 3)), 4)
    assert (distances == 1).all()
    assert ExactIndex().fit(Z).search(np.eye(3)[:1], 4)[1].tolist() == [[0, 1, 1, 1]]
    assert np.isfinite(ExactIndex().fit(Z).search(np.eye(3), 4)[1]).all()
