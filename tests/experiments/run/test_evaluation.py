"""Sharing work between configurations changes no number."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_world import SMALL, small_dataset

from pysldl.baselines.registry import METHODS
from pysldl.datasets import Dataset
from pysldl.exceptions import MissingDependencyError
from pysldl.experiments.run.evaluation import FoldData, Task, configurations, evaluate_method
from pysldl.experiments.run.methods import Method, find_methods, parameter_of

# Labels of test rows only are part of the protocol, and the number of steps is chosen, not reached.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pysldl.exceptions.SLDLWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
GRID = replace(SMALL, ks=(2, 5, 9))


def fold_data(dataset: Dataset) -> tuple[FoldData, object]:
    fold = GRID.fold(GRID.fold_of_rows(dataset), 1)
    return FoldData(dataset, fold), fold


# What makes a method quick enough for a test, where it has it; its folds and a plain fit have it alike.
QUICKER = {"epochs": 2, "walk_epochs": 2, "n_walks": 2, "max_sweeps": 5, "n_rounds": 2, "device": "cpu"}


def quick(name: str) -> Method:
    """A registered method, with few epochs where it is trained for long; it skips where it needs what is not here."""
    (method,) = find_methods([name])
    try:
        known = method.make().get_params()
    except MissingDependencyError as error:
        pytest.skip(str(error))
    settings = {key: value for key, value in QUICKER.items() if key in known}
    return replace(method, make=lambda: method.make().set_params(**settings))


@pytest.mark.parametrize("name", [*METHODS, "identity:standardize=true", "sldl:normalize=false"])
def test_folds_are_those_of_a_plain_fit(name):
    """Every configuration of every registered method: the labels that the estimator itself gives, fitted alone."""
    dataset = small_dataset()
    data, fold = fold_data(dataset)
    method = quick(name)
    ranked = record_rankings(data.final)
    results = [result for group in evaluate_method(method, data, GRID) for result in group]
    assert [result.configuration for result in results] == configurations(method, GRID)
    assert len(ranked) == len(results)
    for result, labels in zip(results, ranked, strict=True):
        alone = estimator_of(method, result.configuration).fit(dataset.X[fold.train], dataset.Y[fold.train])
        expected, _ = alone.predict_topk(dataset.X[fold.test], 5)
        np.testing.assert_array_equal(labels, expected, err_msg=str(result.configuration))


def estimator_of(method: Method, configuration: Any) -> Any:
    """The estimator of one configuration, unfitted."""
    estimator = method.estimator(GRID.seed)
    if not configuration:
        return estimator
    estimator = estimator.with_default_stages()
    known = estimator.get_params()
    return estimator.set_params(**{parameter_of(axis, known): value for axis, value in configuration})


def record_rankings(task: Task) -> list[Any]:
    """The rankings that a task is asked to score from now on."""
    ranked: list[Any] = []
    score = task.score
    task.__dict__["score"] = lambda labels: ranked.append(labels) or score(labels)
    return ranked


def test_standardized_features_reach_the_folds():
    """The runner once knew only of rows of length 1, and gave other numbers than the estimator for scaled columns."""
    data, _ = fold_data(small_dataset())
    plain, standardized = (
        next(evaluate_method(*find_methods([name]), data, GRID))[0].test
        for name in ("identity", "identity:standardize=true")
    )
    assert plain != standardized


def test_features_wider_than_the_rows_are_many_share_the_kernel_factor():
    dataset = small_dataset()
    wide = Dataset("wide", np.hstack([dataset.X.toarray(), dataset.X.toarray() ** 2]), dataset.Y, dataset.label_names)
    data, fold = fold_data(wide)
    assert wide.n_features > len(fold.train)
    (method,) = find_methods(["random"])
    (first, *_), *_ = evaluate_method(method, data, GRID)
    alone = method.estimator(GRID.seed).set_params(embedding__n_components=4, decoder__n_neighbors=2)
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
    found = Task(None, Y[~carries], None, Y[carries]).score(np.tile(frequent, (carries.sum(), 1)))
    assert found["keep"] != found["drop"]
    found = Task(None, Y, None, Y).score(np.tile(frequent, (Y.shape[0], 1)))
    assert found["keep"] == found["drop"]


def test_validation_is_the_mean_over_the_trials():
    (method,) = find_methods(["random"])

    def validation(trials):
        data, _ = fold_data(small_dataset())
        data.trials = data.trials[trials]
        (group,) = evaluate_method(method, data, replace(GRID, c_hats=(4,)))
        return [result.validation["keep"]["P@5"] for result in group]

    alone = [validation(slice(trial, trial + 1)) for trial in range(2)]
    assert alone[0] != alone[1]
    np.testing.assert_allclose(validation(slice(None)), np.mean(alone, axis=0))
