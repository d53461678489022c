"""Relations of many labels: no matrix of all pairs, and the same answer a block at a time."""

import numpy as np
import pytest
from scipy import sparse

import pysldl.relations
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.embedding import GaussianLabelEmbedding
from pysldl.relations import counted_relations, label_relations


@pytest.fixture(scope="module")
def world():
    data = make_asymmetric_multilabel(random_state=0)
    embedding = GaussianLabelEmbedding(16, cooccurrence="count", n_steps=150, random_state=0).fit(data.Y)
    return embedding, data.Y, data.label_names


def found(world, **settings):
    embedding, Y, names = world
    return label_relations(embedding.components_, embedding.log_variances_, Y, names, **settings)


def test_nearest_by_the_definition(world):
    embedding, Y, names = world
    D = embedding.divergences()
    np.fill_diagonal(D, np.inf)
    nearest = D.argmin(axis=1)
    for relation in found(world, top=None):
        source, target = (names.tolist().index(name) for name in (relation.source, relation.target))
        assert nearest[source] == target
        assert relation.kl == pytest.approx(D[source, target], rel=1e-3)
        assert relation.kl < relation.kl_reverse == pytest.approx(D[target, source], rel=1e-3)
        together = Y[:, [source]].multiply(Y[:, [target]]).sum()
        assert relation.n_both == together


@pytest.mark.parametrize("per_label", [1, 3])
def test_blocks_change_nothing(world, per_label, monkeypatch):
    whole = found(world, per_label=per_label)
    monkeypatch.setattr(pysldl.relations, "BLOCK_BYTES", 5000)
    assert found(world, per_label=per_label) == whole


def test_of_very_many_labels_those_that_share_a_row_are_compared(world, monkeypatch):
    everything = found(world, top=None)
    monkeypatch.setattr(pysldl.relations, "ALL_PAIRS", 10)
    linked = found(world, top=None)
    assert linked and all(relation.n_both > 0 for relation in linked)
    sharing = {(r.source, r.target) for r in everything if r.n_both > 0}
    assert sharing <= {(r.source, r.target) for r in linked}
    assert len({r.source for r in linked}) == len(linked)


def test_a_hundred_thousand_labels():
    rng = np.random.default_rng(0)
    n_labels, n_rows = 100_000, 120_000
    labels = np.column_stack([np.arange(n_rows) % n_labels, rng.integers(0, 50, n_rows)])
    Y = sparse.coo_array((np.ones(labels.size, np.float32), (np.repeat(np.arange(n_rows), 2), labels.ravel())))
    Y = sparse.csr_array(Y, shape=(n_rows, n_labels))
    Y.data[:] = 1.0
    mu, log_var = rng.normal(size=(2, n_labels, 2)).astype(np.float32)
    names = np.arange(n_labels).astype(str)
    relations = label_relations(mu, log_var, Y, names, top=5, min_count=1)
    assert len(relations) == 5 and all(relation.n_both > 0 for relation in relations)


def test_counts_decide_where_there_are_no_gaussians():
    # Every cloud is under the sky, and two of three boats; a boat alone says nothing of clouds.
    rows = [[1, 1, 0]] * 4 + [[0, 1, 1]] * 2 + [[0, 0, 1]] + [[0, 1, 0]]
    Y = sparse.csr_array(np.array(rows, dtype=np.float32))
    found = counted_relations(Y, ["cloud", "sky", "boat"])
    assert [(r.source, r.target, r.n_both, r.n_source, r.kl) for r in found] == [
        ("cloud", "sky", 4, 4, None),
        ("boat", "sky", 2, 3, None),
    ]
    assert "KL" not in str(found) and "KL" not in found._repr_html_() and "by counts" in found._repr_html_()
    assert str(found[0]) == "cloud implies sky (4 of 4 rows)"
    assert len(counted_relations(Y, ["cloud", "sky", "boat"], min_count=4)) == 1
