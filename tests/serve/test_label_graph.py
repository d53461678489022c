"""Relations and the map, against the plain all-pairs divergence."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.embedding.divergence import kl_divergence
from pysldl.serve import gaussians, label_graph
from pysldl.serve.label_graph import LabelGraph
from pysldl.serve.layout import lay_out


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    mu, log_var = rng.normal(size=(30, 4)), rng.normal(size=(30, 4)) * 0.3
    Y = sparse.csr_array((rng.random((200, 30)) < 0.15).astype(np.float32))
    return mu, log_var, Y


def test_relations_of_a_label_are_its_nearest_in_each_direction(parts):
    mu, log_var, Y = parts
    D = kl_divergence(mu, log_var)
    both = (Y.T @ Y).toarray()
    implies, implied_by = LabelGraph(mu, log_var, Y).of(3, 100)
    ahead = [j for j in np.argsort(D[3]) if j != 3 and D[3, j] < D[j, 3]]
    behind = [j for j in np.argsort(D[:, 3]) if j != 3 and D[j, 3] < D[3, j]]
    assert [arrow.target for arrow in implies] == ahead and [arrow.source for arrow in implied_by] == behind
    for arrow in (*implies, *implied_by):
        assert arrow.kl == pytest.approx(D[arrow.source, arrow.target], rel=1e-4)
        assert arrow.kl_reverse == pytest.approx(D[arrow.target, arrow.source], rel=1e-4)
        assert arrow.n_both == both[arrow.source, arrow.target]


def test_the_map_is_the_same_in_small_blocks(parts, monkeypatch):
    mu, log_var, Y = parts
    whole = LabelGraph(mu, log_var, Y).map
    monkeypatch.setattr(label_graph, "BLOCK_BYTES", 500)
    monkeypatch.setattr(gaussians, "BLOCK_BYTES", 500)
    pieces = LabelGraph(mu, log_var, Y).map
    arrows = [sorted(zip(m.source.tolist(), m.target.tolist(), strict=True)) for m in (whole, pieces)]
    assert arrows[0] == arrows[1]
    D = kl_divergence(mu, log_var)
    assert (D[whole.source, whole.target] < D[whole.target, whole.source]).all()
    assert whole.strength.min() > 0 and whole.strength.max() <= 1


def test_many_labels_are_compared_with_those_that_share_a_row(parts, monkeypatch):
    mu, log_var, _ = parts
    rng = np.random.default_rng(1)
    Y = sparse.csr_array((rng.random((60, 30)) < 0.05).astype(np.float32))
    monkeypatch.setattr(label_graph, "ALL_PAIRS", 0)
    found = LabelGraph(mu, log_var, Y).map
    D, together = kl_divergence(mu, log_var), (Y.T @ Y).toarray() > 0
    expected = set()
    for label in range(30):
        linked = [j for j in np.argsort(D[label]) if j != label and together[label, j]][: label_graph.ARROWS_PER_LABEL]
        expected |= {(label, j) for j in linked if D[label, j] < D[j, label]}
    assert set(zip(found.source.tolist(), found.target.tolist(), strict=True)) == expected
    assert len(expected) > 10


@pytest.mark.parametrize("with_gaussians", [True, False])
def test_of_very_many_labels_the_most_frequent_are_on_the_map(parts, monkeypatch, with_gaussians):
    mu, log_var, Y = parts
    monkeypatch.setattr(label_graph, "MOST_ON_MAP", 12)
    found = LabelGraph(*((mu, log_var) if with_gaussians else (None, None)), Y).map
    counts = np.bincount(Y.indices, minlength=30)
    assert found.columns.tolist() == sorted(np.argsort(-counts, kind="stable")[:12].tolist())
    assert found.places.shape == (12, 2) and max(found.source.max(), found.target.max()) < 12
    if not with_gaussians:
        assert (counts[found.columns[found.source]] < counts[found.columns[found.target]]).all()


def test_without_gaussians_the_counts_decide():
    # Every cloud is under the sky, not every sky has a cloud.
    Y = sparse.csr_array(np.array([[1, 1, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1]], dtype=np.float32))
    graph = LabelGraph(None, None, Y)
    assert graph.basis == "counts"
    implies, _ = graph.of(0, 5)
    assert [(arrow.target, arrow.strength, arrow.kl) for arrow in implies] == [(1, 1.0, None)]
    _, implied_by = graph.of(1, 5)
    assert [(arrow.source, arrow.n_both) for arrow in implied_by] == [(0, 2), (2, 1)]
    assert set(zip(graph.map.source.tolist(), graph.map.target.tolist(), strict=True)) == {(0, 1), (2, 1)}


def test_layout_brings_together_what_belongs_together():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(6), 30)
    source = np.arange(180)
    target = np.array([rng.choice(np.flatnonzero(group == g)) for g in group])
    places = lay_out(180, source, target)
    assert places.shape == (180, 2) and places.min() >= 0 and places.max() <= 1
    apart = np.linalg.norm(places[source] - places[rng.permutation(target)], axis=1).mean()
    assert np.linalg.norm(places[source] - places[target], axis=1).mean() < 0.5 * apart
    assert np.array_equal(places, lay_out(180, source, target))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_layout_of_very_few(n):
    nothing = np.empty(0, dtype=np.int64)
    assert np.isfinite(lay_out(n, nothing, nothing, np.ones((n, 3)))).all()
