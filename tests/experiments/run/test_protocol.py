"""Folds, the parts of their training rows, and the grid."""

import numpy as np
import pytest
from small_world import SMALL, small_dataset

from pysldl.exceptions import DataError
from pysldl.experiments.run.protocol import Protocol, fingerprint


@pytest.mark.parametrize("stratified", [False, True])
def test_every_row_is_tested_once_and_never_trained_on_then(stratified):
    protocol = Protocol(n_folds=4, stratified=stratified)
    fold_of_row = protocol.fold_of_rows(small_dataset())
    folds = [protocol.fold(fold_of_row, number) for number in range(4)]
    np.testing.assert_array_equal(np.sort(np.concatenate([fold.test for fold in folds])), np.arange(90))
    for fold in folds:
        np.testing.assert_array_equal(np.sort(np.concatenate([fold.train, fold.test])), np.arange(90))
        for inner, validation in fold.trials:
            np.testing.assert_array_equal(np.sort(np.concatenate([inner, validation])), fold.train)
            assert len(validation) == round(0.1 * len(fold.train))
        drawn = np.concatenate([validation for _, validation in fold.trials])
        assert len(np.unique(drawn)) == len(drawn) >= 0.9 * len(fold.train)  # so few rows that all serve to choose
        assert 20 <= len(fold.test) <= 25


@pytest.mark.parametrize("stratified", [False, True])
def test_the_seed_decides(stratified):
    data = small_dataset()
    drawn = [Protocol(seed=seed, stratified=stratified).fold_of_rows(data) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()


def test_stratified_folds_keep_the_share_of_every_label():
    data = small_dataset(n_samples=400)
    totals = data.Y.sum(axis=0)

    def largest_error(stratified):
        fold_of_row = Protocol(n_folds=4, stratified=stratified).fold_of_rows(data)
        counts = [data.Y[fold_of_row == number].sum(axis=0) for number in range(4)]
        return np.abs(np.array(counts) - totals / 4)[:, totals >= 4].max()

    assert largest_error(True) < 0.5 * largest_error(False)


@pytest.mark.parametrize(("wanted", "n_trials"), [(1, 1), (7, 1), (8, 2), (20, 3), (1000, 9)])
def test_parts_follow_until_there_are_enough_validation_rows(wanted, n_trials):
    """66 training rows, 7 to a part."""
    protocol = Protocol(n_folds=4, validation_rows=wanted)
    fold_of_row = protocol.fold_of_rows(small_dataset(n_samples=88))
    assert [len(validation) for _, validation in protocol.fold(fold_of_row, 0).trials] == [7] * n_trials


def test_fewer_rows_than_folds_is_one_clear_error():
    with pytest.raises(DataError, match=r"'small' has 90 rows, fewer than the 100 folds: use --folds 45"):
        Protocol(n_folds=100).fold_of_rows(small_dataset())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_folds": 1}, "at least 2 folds"),
        ({"c_hats": ()}, "c_hats must be distinct positive numbers, but is empty"),
        ({"ks": (3, 3)}, "ks must be distinct positive numbers, but is 3, 3"),
        ({"ks": (0,)}, "ks must be distinct"),
        ({"seed": -1}, "seed must lie"),
        ({"validation": 1.0}, "validation must lie"),
        ({"validation_rows": 0}, "number of validation rows must be at least 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(DataError, match=message):
        Protocol(**changes)


def test_the_grid_is_tried_in_ascending_order():
    assert Protocol(ks=(30, 10, 20)).ks == (10, 20, 30)
    assert SMALL.as_json()["ks"] == [3, 7]


def test_a_fingerprint_tells_one_changed_number():
    data, same, other = small_dataset(), small_dataset(), small_dataset()
    other.X.data[0] += 1
    assert fingerprint(data) == fingerprint(same) != fingerprint(other)
