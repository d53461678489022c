"""The loops of the sparse label graph give what their plain twins give, with one thread and with two."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.backend.exact import listed_products, round_to_bits
from pysldl.backend.label_embedding import adam_update_rows, walk_step
from pysldl.embedding import GaussianLabelEmbedding
from pysldl.embedding.label_graph import cooccurrence, normalize_rows

numba = pytest.importorskip("numba", reason="numba is not installed, so there is no compiled loop to compare")


@pytest.fixture
def Y():  # noqa: N802
    rng = np.random.default_rng(0)
    return sparse.csr_array((rng.random((200, 60)) < 0.04).astype(np.float32))


@pytest.mark.parametrize("n_kept", [3, 8, 60])
def test_walk(Y, plain, n_kept, monkeypatch):
    monkeypatch.setattr(
        "pysldl.backend.label_embedding.PRODUCTS_AT_ONCE", 500
    )  # several blocks, and rows longer than one
    P = normalize_rows(cooccurrence(Y, "count"))
    labels, values = np.full((60, n_kept), -1, np.int32), np.zeros((60, n_kept), np.float32)
    for _ in range(4):
        slow = plain(walk_step, P, labels, values, 0.5)
        labels, values = walk_step(P, labels, values, 0.5)
        np.testing.assert_allclose(values, slow[1], rtol=1e-6, atol=1e-8)
        assert (labels == slow[0]).mean() > 0.99  # a tie may turn where a sum rounds differently


def test_products_of_rounded_pairs_have_the_same_bits_either_way(plain, monkeypatch):
    monkeypatch.setattr("pysldl.backend.exact.VALUES_AT_ONCE", 100)
    rng = np.random.default_rng(1)
    left, right = (round_to_bits(x, 22, axis=1).astype(np.float32) for x in rng.normal(size=(2, 30, 129)))
    listed = rng.integers(-1, 30, (30, 9)).astype(np.int32)
    fast = listed_products(left, right, listed)
    assert (fast == plain(listed_products, left, right, listed)).all()
    expected = left.astype(np.float64) @ right.astype(np.float64).T
    assert (fast == np.where(listed < 0, 0.0, np.take_along_axis(expected, listed.astype(np.intp), axis=1))).all()


def test_adam_moves_the_rows_it_is_given(plain):
    rng = np.random.default_rng(2)
    start = rng.normal(size=(3, 10, 4))
    start[2] **= 2
    rows, rates = np.array([1, 4, 7]), np.array([0.1, 0.2, 0.3])
    gradient = rng.normal(size=(3, 4))
    fast, slow = start.copy(), start.copy()
    adam_update_rows(*fast, rows, gradient, rates, 0.9)
    plain(adam_update_rows, *slow, rows, gradient, rates, 0.9)
    assert (fast == slow).all()
    others = np.setdiff1d(np.arange(10), rows)
    assert (fast[:, others] == start[:, others]).all() and (fast[0, rows] != start[0, rows]).all()


def test_embedding_is_the_same_either_way_and_with_any_number_of_threads(Y, plain):
    embedding = GaussianLabelEmbedding(
        6, graph="sparse", n_walk_labels=8, n_negatives=4, batch_size=16, n_steps=40, tol=None, random_state=0
    )
    slow = plain(embedding.fit, Y).components_
    before = numba.get_num_threads()
    found = []
    for threads in (1, min(2, before)):
        numba.set_num_threads(threads)
        found.append(embedding.fit(Y).components_)
    numba.set_num_threads(before)
    assert (found[0] == found[1]).all()
    np.testing.assert_allclose(found[0], slow, atol=1e-3)
