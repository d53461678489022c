"""Directed relations between labels: which they are, what supports them, and how sure the direction is."""

import re
from pathlib import Path

import numpy as np
import pytest
from html_cells import cells
from scipy import sparse, special, stats

from pysldl.backend.divergence import kl_divergence
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.inspection.relations import (
    SURE,
    LabelRelation,
    RelationFinder,
    Relations,
    direction_confidence,
    label_relations,
    share_lower_bound,
)


def random_labels(n_rows=300, n_labels=30, share=0.15, seed=0):
    """Labels of different frequency that come in groups of three."""
    rng = np.random.default_rng(seed)
    topics = rng.integers(n_labels // 3, size=n_rows)[:, None] == np.arange(n_labels) // 3
    chances = share * rng.random(n_labels) * (0.5 + 4 * topics)
    return sparse.csr_array((rng.random((n_rows, n_labels)) < chances).astype(np.float32))


def random_gaussians(n_labels=30, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_labels, 4)), rng.normal(size=(n_labels, 4)) * 0.3


def relation(n_both, n_source, n_target, n_rows=10_000):
    return LabelRelation("a", "b", n_source, n_target, n_both, n_rows)


# Figures


def test_confidence_is_close_to_the_beta_posterior():
    for n in (0, 1, 2, 3, 5, 10, 30, 100, 1000, 30_000):
        alone = np.unique(np.linspace(0, n, 101).round())  # rows with the source alone; the rest have the target alone
        exact = special.betainc(alone + 1, n - alone + 1, 0.5)
        found = direction_confidence(alone + 1, n - alone + 1, 1)
        np.testing.assert_allclose(found, exact, atol=0.011)
        np.testing.assert_allclose(found[exact >= 0.9], exact[exact >= 0.9], atol=0.006)


def test_confidence_says_both_ways_together_one():
    n = np.array([3, 10, 200])
    there, back = direction_confidence(n, n[::-1], 2), direction_confidence(n[::-1], n, 2)
    np.testing.assert_allclose(there + back, 1)
    assert there[1] == 0.5 and there[0] > 0.95


def test_labels_that_never_share_a_row_have_no_direction():
    assert direction_confidence(5, 500, 0) == 0.5


def test_the_bound_is_that_of_the_wilson_interval():
    for n_both, n in ((0, 4), (1, 1), (10, 20), (38, 40), (226, 8158)):
        exact = stats.binomtest(n_both, n).proportion_ci(0.9, method="wilson").low
        assert share_lower_bound(n_both, n) == pytest.approx(exact, abs=1e-12)


# Words


@pytest.mark.parametrize(
    ("counts", "verb"),
    [
        ((20, 20, 100), "implies"),
        ((17, 20, 100), "implies"),
        ((6500, 8158, 20_000), "often comes with"),  # 79.7 % of the rows, however many they are
        ((10, 20, 100), "often comes with"),
        ((10, 20, 21), "often comes with"),
        ((20, 20, 20), "often comes with"),  # always together: no direction is right
        ((19, 20, 21), "often comes with"),  # most rows, but the other way round it is hardly less
        ((226, 8158, 9000), "is related to"),
        ((1, 1, 100), "is related to"),
        ((2, 2, 100), "often comes with"),
        ((0, 5, 100), "is related to"),
    ],
)
def test_implies_stands_only_where_share_and_confidence_support_it(counts, verb):
    n_both, n_source, n_target = counts
    assert relation(n_both, n_source, n_target, n_rows=100_000).verb == verb


def test_what_most_rows_carry_anyway_is_not_implied():
    assert relation(92, 100, 9_000).verb == "is related to"  # 90 % of all rows carry it
    assert relation(95, 100, 3_000).verb == "implies"


def test_a_relation_in_words_and_for_json():
    found = LabelRelation("cloud", "sky", 20, 100, 19, 400, 0.5, 2.0)
    assert str(found) == "cloud implies sky (19 of 20 rows; direction sure: >99%; KL 0.50, reverse 2.00)"
    told = found.to_dict()
    assert told["verb"] == "implies" and told["share"] == 0.95 and told["confidence"] == found.confidence
    assert told["n_source"] == 20 and told["kl_reverse"] == 2.0
    assert str(relation(3, 4, 5)) == "a often comes with b (3 of 4 rows; direction sure: 69%)"


# Finding


def plainly(Y, min_count=2):
    """All relations by the definition, with the bound that orders them: {(source, target): bound}."""
    counts, together = Y.sum(axis=0), (Y.T @ Y).toarray()
    n_rows, n_labels = Y.shape
    return {
        (i, j): float(share_lower_bound(together[i, j], counts[i]))
        for i in range(n_labels)
        for j in range(n_labels)
        if i != j
        and (counts[i] < counts[j] or (counts[i] == counts[j] and i < j))
        and counts[i] >= min_count
        and share_lower_bound(together[i, j], counts[i]) * n_rows > counts[j]
    }


def test_all_relations_by_the_definition():
    Y = random_labels()
    expected = plainly(Y)
    found = RelationFinder(Y).strongest(None)
    pairs = list(zip(found.source.tolist(), found.target.tolist(), strict=True))
    assert len(pairs) > 20 and set(pairs) == set(expected)
    np.testing.assert_array_equal(found.share_low, [expected[pair] for pair in pairs])
    assert (np.diff(found.share_low) <= 0).all()
    np.testing.assert_array_equal(found.n_both, [(Y[:, [i]].multiply(Y[:, [j]])).sum() for i, j in pairs])


@pytest.mark.parametrize("per_label", [1, 3])
def test_of_each_label_the_strongest(per_label):
    Y = random_labels()
    everything = plainly(Y)
    found = RelationFinder(Y).strongest(per_label)
    for label in {i for i, _ in everything}:
        best = sorted((bound for (i, _), bound in everything.items() if i == label), reverse=True)[:per_label]
        np.testing.assert_array_equal(found.share_low[found.source == label], best)


def test_one_label_both_ways():
    Y = random_labels()
    finder = RelationFinder(Y)
    everything = plainly(Y)
    for label in range(Y.shape[1]):
        outgoing, incoming = finder.of_label(label)
        assert set(outgoing.target.tolist()) == {j for i, j in everything if i == label}
        assert set(incoming.source.tolist()) == {i for i, j in everything if j == label}
        assert (np.diff(outgoing.share_low) <= 0).all() and (np.diff(incoming.share_low) <= 0).all()


def test_rare_labels_are_left_out():
    Y = random_labels(share=0.05)
    counts = Y.sum(axis=0)
    assert (counts < 10).any()
    found = RelationFinder(Y).strongest(None, min_count=10)
    assert len(found.source) and counts[found.source].min() >= 10 and counts[found.target].min() >= 10
    for pairs in RelationFinder(Y).of_label(int(counts.argmax()), min_count=10):
        assert (counts[pairs.source] >= 10).all() and (counts[pairs.target] >= 10).all()
    # A rare label that was asked for is answered, with others that are not rare.
    rare = np.flatnonzero((counts > 0) & (counts < 10)).tolist()
    assert any(len(RelationFinder(Y).of_label(label, min_count=10)[0].source) for label in rare)


def test_only_among_some_labels():
    Y = random_labels()
    columns = np.array([2, 5, 7, 11, 20, 29])
    found = RelationFinder(Y).strongest(None, columns=columns)
    expected = {pair for pair in plainly(Y) if set(pair) <= set(columns.tolist())}
    assert set(zip(found.source.tolist(), found.target.tolist(), strict=True)) == expected and expected


def test_between_equally_frequent_labels_the_divergence_decides():
    Y = sparse.csr_array(np.array([[1, 1]] * 5 + [[1, 0]] * 2 + [[0, 1]] * 2 + [[0, 0]] * 20, dtype=np.float32))
    narrow, wide = np.zeros((1, 3)), np.full((1, 3), 2.0)
    for log_var, source in ((np.vstack([narrow, wide]), "a"), (np.vstack([wide, narrow]), "b")):
        (found,) = label_relations(Y, ["a", "b"], np.zeros((2, 3)), log_var)
        assert found.source == source and found.confidence == 0.5 and found.kl < found.kl_reverse
    (found,) = label_relations(Y, ["a", "b"])
    assert found.source == "a" and found.kl is None


def test_divergences_stand_beside_the_counts():
    Y, (mu, log_var) = random_labels(), random_gaussians()
    D = kl_divergence(mu, log_var)
    names = [str(column) for column in range(30)]
    found = label_relations(Y, names, mu, log_var, top=None, per_label=3)
    assert len(found) > 10
    for one in found:
        i, j = int(one.source), int(one.target)
        assert (one.kl, one.kl_reverse) == pytest.approx((D[i, j], D[j, i]))
    only = label_relations(Y, names, top=4, of=7)
    assert only and all("7" in (one.source, one.target) for one in only) and len(only) <= 8


def test_labels_that_stand_alone_or_nowhere():
    Y = sparse.csr_array(np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0]], dtype=np.float32))
    assert label_relations(Y, "abc") == [] and label_relations(Y, "abc", of=2) == []


@pytest.mark.parametrize("seed", range(10))
def test_directions_called_sure_are_right(seed):
    """Planted implications: at least 90 % are called sure, and at least 99 % of those are right."""
    world = make_asymmetric_multilabel(random_state=seed)
    counts, together = np.bincount(world.Y.indices), (world.Y.T @ world.Y).toarray()
    child, parent = np.array(world.implications).T
    planted = direction_confidence(counts[child], counts[parent], together[child, parent])
    sure = np.maximum(planted, 1 - planted) >= SURE
    assert sure.mean() >= 0.9 and (planted[sure] > 0.5).mean() >= 0.99


def test_of_few_incomplete_rows_less_is_sure_and_what_is_sure_is_right():
    sure, right = [], []
    for seed in range(20):
        world = make_asymmetric_multilabel(100, forgotten=0.3, children_per_scene=3.0, random_state=seed)
        counts, together = np.bincount(world.Y.indices, minlength=90), (world.Y.T @ world.Y).toarray()
        child, parent = np.array(world.implications).T
        planted = direction_confidence(counts[child], counts[parent], together[child, parent])
        sure.append(np.maximum(planted, 1 - planted) >= SURE)
        right.append(planted > 0.5)
    sure, right = np.concatenate(sure), np.concatenate(right)
    assert 0.4 < sure.mean() < 0.9 and right[sure].mean() >= 0.99 > right.mean()


def test_what_is_called_an_implication_was_planted():
    for seed in range(5):
        world = make_asymmetric_multilabel(random_state=seed)
        found = label_relations(world.Y, world.label_names, top=None, per_label=10)
        said = {(one.source, one.target) for one in found if one.verb == "implies"}
        planted = set(world.named_implications)
        assert len(said & planted) >= 0.95 * max(len(said), len(planted))


def test_a_hundred_thousand_labels():
    rng = np.random.default_rng(0)
    n_labels, n_rows = 100_000, 120_000
    labels = np.column_stack([np.arange(n_rows) % n_labels, rng.integers(0, 50, n_rows)])
    Y = sparse.coo_array((np.ones(labels.size, np.float32), (np.repeat(np.arange(n_rows), 2), labels.ravel())))
    Y = sparse.csr_array(Y, shape=(n_rows, n_labels))
    mu, log_var = rng.normal(size=(2, n_labels, 2)).astype(np.float32)
    relations = label_relations(Y, np.arange(n_labels).astype(str), mu, log_var, top=5, min_count=1)
    assert len(relations) == 5 and all(relation.n_both > 0 for relation in relations)


def test_the_readme_shows_what_its_example_prints(tmp_path, monkeypatch, capsys):
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    example = re.search(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)[1]
    shown = re.findall(r"^# (.* rows; .*)$", example, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    exec(example, {"__name__": "example"})
    assert shown and "\n".join(shown) in capsys.readouterr().out


# Tables


@pytest.fixture
def relations():
    return Relations(
        [
            LabelRelation("cloud", "sky", 40, 90, 38, 400, 0.5, 2.0),
            LabelRelation(
                "<i>", "a label with a name that is much longer than any table has room for", 2, 2, 1, 9, 1, 3
            ),
        ]
    )


def test_relations_are_a_list(relations):
    assert relations == list(relations) and len(relations) == 2 and isinstance(relations, list)
    assert isinstance(relations[0], LabelRelation)
    assert isinstance(relations[:1], Relations) and relations[:1] == [relations[0]]
    assert [r.source for r in sorted(relations, key=lambda r: r.source)] == ["<i>", "cloud"]


def test_relations_in_a_terminal(relations):
    header, first, second = str(relations).splitlines()
    assert header.split() == ["label", "relation", "other", "label", "rows", "of", "share", "sure", "KL", "reverse"]
    assert first.split() == ["cloud", "implies", "sky", "38", "40", "95%", ">99%", "0.50", "2.00"]
    assert "..." in second and "is related to" in second and "50%" in second and len(second) < 140
    assert len(first) == len(header)
    assert repr(relations) == str(relations)
    assert str(Relations()) == "no relations"


def test_relations_in_a_notebook(relations):
    rows = cells(relations._repr_html_())
    assert rows[1] == ["cloud", "implies", "sky", "38", "40", "95%", "", ">99%", "0.50", "2.00"]
    assert rows[2][0] == "<i>" and "<i>" not in relations._repr_html_()
    assert "no relations" in Relations()._repr_html_()
    without = Relations([LabelRelation("cloud", "sky", 40, 90, 38, 400)])
    assert "KL" not in str(without) and "KL" not in without._repr_html_()
