"""The map of the labels: places, and arrows of the relations between them."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.inspection import label_map
from pysldl.inspection.label_map import layout, make_map
from pysldl.inspection.relations import RelationFinder


@pytest.fixture
def labels():
    rng = np.random.default_rng(0)
    topics = rng.integers(10, size=200)[:, None] == np.arange(30) // 3
    return sparse.csr_array((rng.random((200, 30)) < rng.random(30) * (0.1 + 0.7 * topics)).astype(np.float32))


@pytest.mark.parametrize("with_vectors", [True, False])
def test_arrows_are_the_strongest_relations(labels, with_vectors):
    finder = RelationFinder(labels)
    found = make_map(finder, np.random.default_rng(1).normal(size=(30, 4)) if with_vectors else None)
    expected = finder.strongest(label_map.ARROWS_PER_LABEL)
    np.testing.assert_array_equal(found.source, expected.source)
    np.testing.assert_array_equal(found.target, expected.target)
    assert found.places.shape == (30, 2) and found.strength.min() > 0 and found.strength.max() <= 1


def test_of_very_many_labels_the_most_frequent_are_on_the_map(labels, monkeypatch):
    monkeypatch.setattr(label_map, "MOST_LABELS", 12)
    found = make_map(RelationFinder(labels), np.random.default_rng(1).normal(size=(30, 4)))
    counts = np.bincount(labels.indices, minlength=30)
    assert found.columns.tolist() == sorted(np.argsort(-counts, kind="stable")[:12].tolist())
    assert found.places.shape == (12, 2) and max(found.source.max(), found.target.max()) < 12
    assert (counts[found.columns[found.source]] <= counts[found.columns[found.target]]).all()


def test_a_label_without_rows_has_a_place_and_no_arrow():
    Y = sparse.csr_array(np.array([[1, 1, 0]] * 3 + [[0, 1, 0]] * 3 + [[0, 0, 0]] * 40, dtype=np.float32))
    found = make_map(RelationFinder(Y))
    assert len(found.places) == 3 and (found.source.tolist(), found.target.tolist()) == ([0], [1])


def test_layout_brings_together_what_belongs_together():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(6), 30)
    source = np.arange(180)
    target = np.array([rng.choice(np.flatnonzero(group == g)) for g in group])
    places = layout(180, source, target)
    assert places.shape == (180, 2) and places.min() >= 0 and places.max() <= 1
    apart = np.linalg.norm(places[source] - places[rng.permutation(target)], axis=1).mean()
    assert np.linalg.norm(places[source] - places[target], axis=1).mean() < 0.5 * apart
    assert np.array_equal(places, layout(180, source, target))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_layout_of_very_few(n):
    nothing = np.empty(0, dtype=np.int64)
    assert np.isfinite(layout(n, nothing, nothing, np.ones((n, 3)))).all()
