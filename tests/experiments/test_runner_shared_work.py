"""Sharing work between configurations changes no number."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from small_world import SMALL, small_dataset

from pysldl.datasets import Dataset
from pysldl.exceptions import SLDLWarning
from pysldl.experiments.evaluation import configurations, evaluate_method
from pysldl.experiments.fold_data import FoldData
from pysldl.experiments.methods import find_methods
from pysldl.experiments.scoring import Scorer

GRID = replace(SMALL, ks=(2, 5, 9))


def fold_data(dataset: Dataset) -> tuple[FoldData, object]:
    fold = GRID.fold(GRID.fold_of_rows(dataset), 1)
    return FoldData(dataset, fold), fold


@pytest.mark.parametrize("name", ["sldl", "official", "blend", "random", "identity", "svd", "without-ge", "prior"])
def test_numbers_are_those_of_fitting_each_configuration_alone(name):
    dataset = small_dataset()
    data, fold = fold_data(dataset)
    (method,) = find_methods([name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SLDLWarning)  # some labels occur only in the test rows
        outcomes = [outcome for group in evaluate_method(method, data, GRID) for outcome in group]
    assert [outcome.configuration for outcome in outcomes] == configurations(method, GRID)
    score = Scorer(dataset.Y[fold.train], dataset.Y[fold.test])
    nested = {"c_hat": "embedding__n_components", "k": "decoder__n_neighbors"}
    if name == "blend":
        nested["k"] = "decoder__neighbors__n_neighbors"
    for outcome in outcomes:
        alone = method.estimator(GRID.seed)
        alone.set_params(**{nested[key]: value for key, value in outcome.configuration})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SLDLWarning)
            alone.fit(dataset.X[fold.train], dataset.Y[fold.train])
        labels, _ = alone.predict_topk(dataset.X[fold.test], 5)
        assert outcome.test == score(labels), outcome.configuration


def test_features_wider_than_the_rows_are_many_share_the_kernel_factor():
    dataset = small_dataset()
    wide = Dataset("wide", np.hstack([dataset.X.toarray(), dataset.X.toarray() ** 2]), dataset.Y, dataset.label_names)
    data, fold = fold_data(wide)
    assert wide.n_features > len(fold.train)
    (method,) = find_methods(["random"])
    (first, *_), *_ = evaluate_method(method, data, GRID)
    alone = method.estimator(GRID.seed).set_params(embedding__n_components=4, decoder__n_neighbors=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SLDLWarning)
        alone.fit(wide.X[fold.train], wide.Y[fold.train])
    labels, _ = alone.predict_topk(wide.X[fold.test], 5)
    assert first.test == data.final.score(labels)


def test_selection_sees_nothing_of_the_test_rows():
    dataset = small_dataset()
    data, fold = fold_data(dataset)
    X, Y = dataset.X.toarray(), dataset.Y.toarray()
    X[fold.test] = 1.0
    Y[fold.test] = np.eye(len(fold.test), Y.shape[1])
    spoiled, _ = fold_data(Dataset("small", X, Y, dataset.label_names))
    (method,) = find_methods(["sldl"])
    before, after = (
        [o for group in evaluate_method(method, d, replace(GRID, c_hats=(4,))) for o in group] for d in (data, spoiled)
    )
    assert [o.validation for o in before] == [o.validation for o in after]
    assert [o.test for o in before] != [o.test for o in after]


def test_a_width_that_is_done_is_not_run_again():
    data, _ = fold_data(small_dataset())
    (method,) = find_methods(["random"])
    done = {c for c in configurations(method, GRID) if dict(c)["c_hat"] == 4}
    groups = list(evaluate_method(method, data, GRID, done))
    assert [[dict(o.configuration)["c_hat"] for o in group] for group in groups] == [[8, 8, 8]]


def test_unseen_labels_are_scored_both_ways():
    Y = small_dataset().Y
    counts = Y.sum(axis=0)
    rare = int(np.flatnonzero(counts == counts[counts > 0].min())[0])
    carries = Y[:, [rare]].toarray().ravel() > 0
    frequent = np.argsort(-counts)[:5]
    found = Scorer(Y[~carries], Y[carries])(np.tile(frequent, (carries.sum(), 1)))
    assert found["keep"] != found["drop"]
    found = Scorer(Y, Y)(np.tile(frequent, (Y.shape[0], 1)))
    assert found["keep"] == found["drop"]


def test_validation_is_the_mean_over_the_trials():
    (method,) = find_methods(["random"])

    def validation(trials):
        data, _ = fold_data(small_dataset())
        data.trials = data.trials[trials]
        (group,) = evaluate_method(method, data, replace(GRID, c_hats=(4,)))
        return [outcome.validation["keep"]["P@5"] for outcome in group]

    alone = [validation(slice(trial, trial + 1)) for trial in range(3)]
    assert alone[0] != alone[1] != alone[2]
    np.testing.assert_allclose(validation(slice(None)), np.mean(alone, axis=0))
