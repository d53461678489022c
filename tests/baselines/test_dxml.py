"""DXML: label graph, walks and skip-gram on examples worked by hand, targets, loss and votes against plain loops."""

import math

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")

from pysldl.baselines.dxml import (  # noqa: E402
    DXML,
    huber,
    label_links,
    neighbor_weights,
    random_walks,
    row_targets,
    skip_gram,
    skip_gram_loss,
    walk_pairs,
)
from pysldl.exceptions import DataError, SLDLWarning  # noqa: E402

# Labels 0-1-2 form a path, 3 is always alone, 4 never occurs.
Y = sparse.csr_array(
    np.array([[1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]], dtype=np.float32)
)


def test_label_graph_links_labels_that_share_a_row():
    expected = np.zeros((5, 5))
    for a, b in ((0, 1), (1, 2)):
        expected[a, b] = expected[b, a] = 1
    np.testing.assert_array_equal(label_links(Y).toarray(), expected)


def test_walks_follow_links_from_every_linked_label():
    graph = label_links(Y)
    walks = random_walks(graph, 50, 7, np.random.default_rng(0))
    assert walks.shape == (150, 7)
    assert sorted(set(walks[:, 0])) == [0, 1, 2]
    assert (graph.toarray()[walks[:, :-1], walks[:, 1:]] == 1).all()
    left_of_middle = walks[:, 1:][walks[:, :-1] == 1]
    assert 0.4 < (left_of_middle == 0).mean() < 0.6


def test_pairs_of_a_walk_worked_by_hand():
    pairs = walk_pairs(np.array([[0, 1, 2, 1]]), 2, 3).toarray()
    # apart by 1: (0,1) (1,2) (2,1); apart by 2: (0,2) (1,1); each counted in both directions
    np.testing.assert_array_equal(pairs, [[0, 1, 1], [1, 2, 2], [1, 2, 0]])


def test_skip_gram_loss_is_the_expected_sampled_loss():
    rng = np.random.default_rng(0)
    logits, counts = rng.normal(size=(2, 3)), np.array([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]])
    chance = np.array([0.5, 0.3, 0.2])
    total = 0.0
    for i in range(2):
        for j in range(3):
            for _ in range(int(counts[i, j])):  # every pair, with five negatives each
                total -= math.log(1 / (1 + math.exp(-logits[i, j])))
                total -= 5 * sum(q * math.log(1 / (1 + math.exp(s))) for q, s in zip(chance, logits[i], strict=True))
    got = skip_gram_loss(torch.tensor(logits), torch.tensor(counts), torch.tensor(chance))
    assert got.item() == pytest.approx(total)


def _vectors(labels, epochs=100):
    rng, where = np.random.default_rng(0), torch.device("cpu")
    walks = random_walks(label_links(labels), 20, 20, rng)
    return skip_gram(walks, labels.shape[1], 16, 2, epochs, rng=rng, where=where).numpy()


def test_labels_of_one_group_get_similar_vectors():
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=200)
    together = np.zeros((200, 10), dtype=np.float32)
    for i, g in enumerate(group):
        together[i, 5 * g + rng.choice(5, 3, replace=False)] = 1
    vectors = _vectors(sparse.csr_array(together))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = vectors @ vectors.T
    assert cosine[:5, :5].mean() > cosine[:5, 5:].mean() + 0.5


def test_labels_off_the_graph_keep_their_random_start():
    vectors = _vectors(Y)
    start = np.random.default_rng(0)
    random_walks(label_links(Y), 20, 20, start)
    expected = start.normal(scale=0.25, size=(5, 16)).astype(np.float32)
    np.testing.assert_array_equal(vectors[3:], expected[3:])
    assert np.isfinite(vectors).all() and not np.allclose(vectors[:3], expected[:3])


def test_a_graph_without_links():
    assert np.isfinite(_vectors(sparse.csr_array(np.eye(4, dtype=np.float32)))).all()


def test_blocks_of_anchors_reach_every_label(monkeypatch):
    monkeypatch.setattr("pysldl.baselines.dxml.ANCHOR_BYTES", 4 * 5 * 2)  # two labels at a time
    still = np.isclose(_vectors(Y, epochs=2), _vectors(Y, epochs=0)).all(axis=1)
    np.testing.assert_array_equal(still, [False, False, False, True, True])


def test_targets_are_mean_label_vectors():
    vectors = torch.randn(5, 3)
    dense = torch.tensor(Y.toarray())
    got = row_targets(dense, vectors, unit=False)
    torch.testing.assert_close(got[2], (vectors[1] + vectors[2]) / 2)
    torch.testing.assert_close(got[4], torch.zeros(3))
    unit = row_targets(dense, vectors, unit=True)
    torch.testing.assert_close(unit[:4].norm(dim=1), torch.ones(4))
    torch.testing.assert_close(unit[4], torch.zeros(3))


def test_huber_loss_skips_rows_without_labels():
    code, target = torch.tensor([[0.5, -3.0], [9.0, 9.0], [1.0, 0.0]]), torch.zeros(3, 2)
    rows = [0.5 * 0.5**2 + (3 - 0.5), 0.5]
    got = huber(code, target, torch.tensor([True, False, True]))
    assert got.item() == pytest.approx(sum(rows) / 2)
    assert huber(code, target, torch.zeros(3, dtype=torch.bool)).item() == 0.0


def test_nearer_neighbors_only_break_ties():
    distances = np.array([[0.0, 0.1, 0.5, 2.0]])
    weights = neighbor_weights(distances, "uniform")[0]
    assert (np.diff(weights) < 0).all()
    assert weights[0] < weights[2] + weights[3]
    assert weights.sum() < 5  # all bonuses together are less than one vote
    np.testing.assert_allclose(neighbor_weights(distances, "distance")[0], [1e6, 10, 2, 0.5], rtol=1e-6)


def test_votes_against_a_plain_search():
    rng = np.random.default_rng(0)
    codes, queries = rng.normal(size=(30, 4)).astype(np.float32), rng.normal(size=(6, 4)).astype(np.float32)
    labels = sparse.csr_array((rng.random((30, 8)) < 0.3).astype(np.float32))
    got = DXML(n_neighbors=5)._votes(queries, codes, labels).toarray()
    for query, scores in zip(queries, got, strict=True):
        nearest = sorted(range(30), key=lambda row, q=query: float(((codes[row] - q) ** 2).sum()))[:5]
        np.testing.assert_array_equal(np.floor(scores), labels.toarray()[nearest].sum(axis=0))


@pytest.fixture(scope="module")
def separable():
    rng = np.random.default_rng(0)
    labels = np.zeros((240, 6), dtype=np.float32)
    for i in range(240):
        labels[i, rng.choice(6, rng.integers(1, 3), replace=False)] = 1
    X = labels @ rng.normal(size=(6, 20)) + 0.02 * rng.normal(size=(240, 20))
    return X, sparse.csr_array(labels)


def quick(**settings):
    defaults = {"n_components": 16, "n_hidden": 32, "n_neighbors": 5, "walk_epochs": 50, "epochs": 40}
    return DXML(**{**defaults, "batch_size": 16, "dropout": 0.0, "random_state": 0, **settings})


@pytest.mark.parametrize("settings", [{}, {"vote": "distance"}, {"normalize_output": False, "normalize_target": False}])
def test_separable_labels_are_learned(separable, settings):
    X, labels = separable
    model = quick(**settings).fit(X[:200], labels[:200])
    best = model.predict_topk(X[200:], 1)[0].ravel()
    assert labels[200:].toarray()[np.arange(40), best].mean() >= 0.95


def test_validation_rows_also_vote(separable):
    X, labels = separable
    model = quick(epochs=1).fit(X, labels)
    assert model.codes_.shape == (240, 16)
    np.testing.assert_allclose(np.linalg.norm(model.codes_, axis=1), 1.0, rtol=1e-5)


def test_more_neighbors_than_rows(separable):
    X, labels = separable
    with pytest.warns(SLDLWarning, match="n_neighbors=25 is more than the 12"):
        model = quick(n_neighbors=25, epochs=1).fit(X[:12], labels[:12])
    # every row votes for every query, so that the label counts decide
    found = model.predict_scores(X[:1]).toarray()[0]
    np.testing.assert_array_equal(np.floor(found), labels[:12].sum(axis=0))


def test_no_neighbors_is_an_error(separable):
    with pytest.raises(DataError, match="The 'n_neighbors' parameter of DXML must be an int"):
        quick(n_neighbors=0).fit(*separable)
