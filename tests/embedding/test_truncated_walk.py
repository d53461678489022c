"""The sparse way through the label graph: the dense one where nothing is cut off, and as good where much is."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from pysldl.backend.divergence import Gaussians, js_backward, js_of_all, kl_backward, kl_divergence
from pysldl.backend.label_embedding import ranking_hinge
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.embedding import GaussianLabelEmbedding, VectorLabelEmbedding
from pysldl.embedding.adam import ranking_gradient
from pysldl.embedding.label_graph import DENSE_LABELS, choose_graph, cooccurrence, rank_labels, transfer_matrix
from pysldl.embedding.truncated_walk import TruncatedRanking, truncated_walk
from pysldl.embedding.vector import sparse_squared_error, squared_error
from pysldl.exceptions import DataError, MemoryLimitError

RNG = np.random.RandomState(0)


@pytest.fixture(scope="module")
def world():
    return make_asymmetric_multilabel()


@pytest.fixture(scope="module", params=["binary", "count"])
def graph(request, world):
    """Two worlds that share no row, so that some labels cannot be reached from others."""
    half = world.Y[:, :30][:200]
    return cooccurrence(sparse.csr_array(sparse.block_diag([half, half[:, :12]])), request.param)


def uncut(A):
    """TruncatedWalk and rankings with room for every label."""
    reach = truncated_walk(A, n_kept=A.shape[0])
    return reach, TruncatedRanking(reach, A, n_tail=A.shape[0])


def test_uncut_walk_is_the_transfer_matrix(graph):
    reach, _ = uncut(graph)
    found = np.zeros(graph.shape, dtype=np.float32)
    rows, slots = np.nonzero(reach.labels >= 0)
    found[rows, reach.labels[rows, slots]] = reach.probabilities[rows, slots]
    np.testing.assert_allclose(found, transfer_matrix(graph), atol=1e-6)
    assert not reach.truncated


def test_uncut_rankings_are_the_dense_ones(graph):
    _, ranking = uncut(graph)
    P = transfer_matrix(graph)
    listed, dense = ranking.of(np.arange(len(P)), RNG), rank_labels(P)
    assert listed.shape == dense.shape
    along, expected = np.take_along_axis(P, listed, axis=1), np.take_along_axis(P, dense, axis=1)
    np.testing.assert_allclose(along, expected, atol=1e-6)  # the same but for ties, which rounding breaks
    unreached = expected == 0
    assert unreached.any() and (listed[unreached] == dense[unreached]).all()


@pytest.mark.parametrize("divergence", ["kl", "js"])
def test_loss_and_gradient_are_the_dense_ones(graph, divergence):
    forward, backward = {
        "kl": (kl_divergence, kl_backward),
        "js": (lambda *parameters: js_of_all(Gaussians.of(*parameters)), js_backward),
    }[divergence]
    n_labels = graph.shape[0]
    mu, log_var = np.random.default_rng(0).normal(size=(2, n_labels, 4))
    dense_loss, G = ranking_hinge(forward(mu, log_var), rank_labels(transfer_matrix(graph)), 0.1)
    dense_loss /= n_labels
    anchors = np.arange(n_labels)
    listed = rank_labels(transfer_matrix(graph))
    loss, rows, *gradients = ranking_gradient(
        Gaussians.of(mu, log_var), anchors, listed, 0.1, symmetric=divergence == "js"
    )
    assert loss == pytest.approx(dense_loss, rel=1e-6) and (rows == anchors).all()
    for found, expected in zip(gradients, backward(G, Gaussians.of(mu, log_var)), strict=True):
        np.testing.assert_allclose(found, expected / n_labels, atol=1e-9)


def test_gradient_of_a_batch_is_that_of_its_anchors(graph):
    """Numerically: the rows that a batch returns have the slope of its loss, and no other row has any."""
    reach = truncated_walk(graph, n_kept=6)
    anchors = np.array([3, 8, 20])
    listed = TruncatedRanking(reach, graph, n_tail=5).of(anchors, np.random.RandomState(0))
    mu, log_var = np.random.default_rng(0).normal(size=(2, graph.shape[0], 3))

    def loss_at(which, row, k, by):
        moved = [mu.copy(), log_var.copy()]
        moved[which][row, k] += by
        return ranking_gradient(Gaussians.of(*moved), anchors, listed, 0.1)[0]

    _, rows, *gradients = ranking_gradient(Gaussians.of(mu, log_var), anchors, listed, 0.1)
    for which, gradient in enumerate(gradients):
        full = np.zeros_like(mu)
        full[rows] = gradient
        for row in range(len(mu)):
            slope = (loss_at(which, row, 1, 1e-3) - loss_at(which, row, 1, -1e-3)) / 2e-3
            assert slope == pytest.approx(full[row, 1], abs=1e-3)


@pytest.mark.parametrize("divergence", ["kl", "js"])
def test_uncut_embedding_follows_the_dense_one(world, divergence):
    settings = {"divergence": divergence, "n_steps": 15, "tol": None, "random_state": 0}
    dense = GaussianLabelEmbedding(16, graph="dense", **settings).fit(world.Y)
    uncut = GaussianLabelEmbedding(16, graph="sparse", n_walk_labels=500, n_negatives=500, **settings).fit(world.Y)
    assert (dense.graph_, uncut.graph_) == ("dense", "sparse")
    np.testing.assert_allclose(uncut.losses_, dense.losses_, rtol=2e-3)
    assert np.abs(uncut.components_ - dense.components_).mean() < 1e-3


@pytest.mark.parametrize("batch_size", [1000, 16])
def test_planted_directions_are_recovered_from_truncated_rankings(world, batch_size):
    embedding = GaussianLabelEmbedding(
        cooccurrence="count", graph="sparse", n_walk_labels=16, n_negatives=8, batch_size=batch_size, random_state=0
    ).fit(world.Y)
    found = world.recovered(embedding.divergences())
    assert found["direction"] >= 0.9 and found["near"] >= 0.8


def test_rankings_list_no_label_twice_and_never_the_anchor(graph):
    reach = truncated_walk(graph, n_kept=8)
    ranking = TruncatedRanking(reach, graph, n_tail=6)
    anchors = np.arange(graph.shape[0])
    listed = ranking.of(anchors, np.random.RandomState(0))
    again = ranking.of(anchors, np.random.RandomState(1))
    assert reach.truncated and (listed != again).any()
    links = np.asarray(graph.sum(axis=1)).ravel()
    for anchor, row, kept in zip(anchors, listed, reach.labels, strict=True):
        labels = row[row >= 0]
        assert len(set(labels.tolist())) == len(labels) and anchor not in labels
        n_reached = int(((kept >= 0) & (kept != anchor)).sum())
        assert (labels[:n_reached] == kept[(kept >= 0) & (kept != anchor)]).all()
        assert (np.diff(links[labels[n_reached:]]) <= 0).all()  # the tail: frequent labels first
        assert (row[len(labels) :] == -1).all()


def test_vectors_are_the_dense_ones_where_nothing_is_cut_off(world):
    E, F = np.random.default_rng(0).normal(size=(2, 40, 6))
    target = np.where(np.random.default_rng(1).random((40, 40)) < 0.2, 0.7, 0.0)
    np.fill_diagonal(target, 0.0)
    dense = squared_error(E, F, target)
    uncut = sparse_squared_error(E, F, sparse.csr_array(target), sparse.csr_array(target.T))
    for found, expected in zip(uncut, dense, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)

    settings = {"n_steps": 30, "tol": None, "random_state": 0}
    dense = VectorLabelEmbedding(8, graph="dense", **settings).fit(world.Y)
    uncut = VectorLabelEmbedding(8, graph="sparse", n_walk_labels=500, **settings).fit(world.Y)
    np.testing.assert_allclose(uncut.components_, dense.components_, atol=1e-4)


def test_auto_is_sparse_for_many_labels_and_where_the_dense_would_not_fit():
    assert choose_graph("auto", DENSE_LABELS, 1000) == "dense"
    assert choose_graph("auto", DENSE_LABELS + 1, 1000) == "sparse"
    assert choose_graph("auto", 500, 10**9, "10 MB") == "sparse"
    assert choose_graph("dense", 10**6, 10**15) == "dense"
    with pytest.raises(DataError, match="'graph' parameter"):
        GaussianLabelEmbedding(8, graph="thin").fit(np.eye(3))
    embedding = GaussianLabelEmbedding(8)
    assert embedding.memory(1500) > 10**8 > embedding.memory(1500, n_pairs=20_000, limit="50 MB")


def test_embedding_is_sparse_where_only_that_fits(world):
    assert GaussianLabelEmbedding(4, n_steps=3).fit(world.Y, memory_limit="100 kB").graph_ == "sparse"
    assert VectorLabelEmbedding(4, n_steps=3).fit(world.Y, memory_limit="100 kB").graph_ == "sparse"
    assert GaussianLabelEmbedding(4, n_steps=3).fit(world.Y).graph_ == "dense"


def test_the_official_objective_needs_all_labels(world):
    with pytest.raises(DataError, match="objective='official'"):
        GaussianLabelEmbedding(4, objective="official", graph="sparse").fit(world.Y)


def test_memory_is_bounded_by_what_it_states():
    """Thirty thousand labels: their square would take 3.6 GB a matrix."""
    pytest.importorskip("numba", reason="the plain loops need more memory for a while")
    rng = np.random.default_rng(0)
    n_rows, n_labels = 20_000, 30_000
    labels = rng.integers(0, n_labels, (n_rows, 3))
    labels[:, 0] = rng.integers(0, 20, n_rows)  # a heavy head, whose rows of the graph are long
    Y = sparse.coo_array((np.ones(labels.size, np.float32), (np.repeat(np.arange(n_rows), 3), labels.ravel())))
    Y = sparse.csr_array(Y, shape=(n_rows, n_labels))
    Y.data[:] = 1.0
    embedding = GaussianLabelEmbedding(8, n_walk_labels=16, n_negatives=8, batch_size=256, n_steps=3, random_state=0)
    clone(embedding).set_params(graph="sparse").fit(Y[:100])  # compiles the loops
    tracemalloc.start()
    embedding.fit(Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert embedding.graph_ == "sparse"
    assert peak < embedding.memory(n_labels, n_pairs=9 * n_rows) < 100 * 10**6


def test_a_matrix_of_all_divergences_is_refused_where_it_cannot_fit():
    embedding = GaussianLabelEmbedding(1, graph="sparse", n_walk_labels=2, n_negatives=2, n_steps=1, random_state=0)
    Y = sparse.csr_array((np.ones(4, np.float32), [0, 1, 2, 3], [0, 2, 4]), shape=(2, 5_000_000))
    embedding.fit(Y)
    with pytest.raises(MemoryLimitError, match=r"between 5000000 labels .* anchors"):
        embedding.divergences()
    assert embedding.divergences(np.array([0, 3])).shape == (2, 2)


def test_labels_that_share_no_row_and_a_label_on_every_row():
    alone = GaussianLabelEmbedding(4, graph="sparse", n_walk_labels=4, n_negatives=4, n_steps=5, random_state=0)
    assert np.isfinite(alone.fit(sparse.csr_array(np.eye(30, dtype=np.float32))).components_).all()
    everywhere = np.eye(30, dtype=np.float32)
    everywhere[:, 0] = 1.0
    assert np.isfinite(alone.fit(sparse.csr_array(everywhere)).components_).all()
