"""The synthetic world holds what it promises."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from pysldl.datasets import SyntheticDataset, make_asymmetric_multilabel
from pysldl.exceptions import DataError


@pytest.fixture(scope="module")
def world() -> SyntheticDataset:
    return make_asymmetric_multilabel()


def test_children_imply_parents_but_not_the_other_way(world: SyntheticDataset) -> None:
    together = (world.Y.T @ world.Y).toarray()
    child, parent = np.array(world.implications).T
    given_child = together[child, parent] / together[child, child]
    given_parent = together[child, parent] / together[parent, parent]
    assert given_child.mean() > 0.95
    assert given_parent.max() < 0.4
    assert ("cloud", "sky") in world.named_implications
    others = together[child] * (np.arange(world.n_labels) != child[:, None])
    assert (others.argmax(axis=1) == parent).mean() > 0.95


def test_frequencies_fall_and_every_label_occurs(world: SyntheticDataset) -> None:
    frequency = np.sort(np.bincount(world.split("train").Y.indices, minlength=world.n_labels))[::-1]
    assert frequency[-1] >= 3
    assert frequency[0] > 5 * np.median(frequency)
    assert np.diff(world.Y.indptr).min() >= 1
    parents = {parent for _, parent in world.implications}
    alone = set(range(world.n_labels)) - parents - {child for child, _ in world.implications}
    assert len(parents) >= 10 and len(alone) >= 5
    assert all(sum(p == parent for _, p in world.implications) >= 3 for parent in parents)


def test_features_tell_more_than_the_label_prior(world: SyntheticDataset) -> None:
    weighed = world.tfidf()
    train, test = weighed.split("train"), weighed.split("test")
    Y_test = test.Y.toarray()

    def precision_at_3(scores: np.ndarray) -> float:
        return float(np.take_along_axis(Y_test, np.argsort(-scores, axis=1)[:, :3], axis=1).mean())

    prior = precision_at_3(np.tile(np.asarray(train.Y.sum(axis=0)), (test.n_samples, 1)))
    ridge = precision_at_3(Ridge().fit(train.X, train.Y.toarray()).predict(test.X))
    assert ridge > 1.5 * prior
    assert ridge < 0.9, "too easy to show a difference between methods"


def test_names_splits_and_idf(world: SyntheticDataset) -> None:
    assert world.feature_names is not None and len(set(world.feature_names)) == world.n_features
    assert "bright cloud" in world.feature_names and "the" in world.feature_names
    rows = np.concatenate([world.splits["train"], world.splits["test"]])
    np.testing.assert_array_equal(np.sort(rows), np.arange(world.n_samples))
    train = world.split("train")
    assert isinstance(train, SyntheticDataset) and train.implications == world.implications
    frequency = np.bincount(train.X.indices, minlength=world.n_features)
    np.testing.assert_allclose(world.idf, np.log((1 + train.n_samples) / (1 + frequency)) + 1, rtol=1e-6)


def test_the_seed_decides() -> None:
    first, again, other = (make_asymmetric_multilabel(50, 60, 20, random_state=seed) for seed in (1, 1, 2))
    assert (first.X != again.X).nnz == 0 and (first.Y != again.Y).nnz == 0
    assert (first.Y != other.Y).nnz > 0


def test_any_size_has_names_of_its_own() -> None:
    large = make_asymmetric_multilabel(20, 3000, 250)
    assert len(set(large.label_names.tolist())) == 250
    assert large.feature_names is not None and len(set(large.feature_names.tolist())) == 3000
    assert ("cloud 2", "sky 2") in large.named_implications
    assert make_asymmetric_multilabel(1, 2, 1, noise=0).Y.toarray().tolist() == [[1]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "n_samples=0"),
        ({"n_labels": 0}, "n_labels=0"),
        ({"n_features": 90}, "n_features=90 must exceed n_labels=90"),
        ({"scenes_per_sample": 0.5}, "scenes_per_sample=0.5 must be at least 1"),
    ],
)
def test_sizes_that_cannot_be(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make_asymmetric_multilabel(**arguments)  # type: ignore[arg-type]


def test_recovered_counts_what_perfect_and_reversed_divergences_know():
    world = make_asymmetric_multilabel(300, 80, 30)
    divergences = np.full((30, 30), 5.0)
    for child, parent in world.implications:
        divergences[child, parent] = 1.0
    assert world.recovered(divergences) == {"direction": 1.0, "near": 1.0, "rank": 0.0}
    assert world.recovered(divergences.T)["direction"] == 0.0
