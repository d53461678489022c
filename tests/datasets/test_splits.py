"""Folds in which every label keeps its share of rows."""

import time

import numpy as np
import pytest
from scipy import sparse

from pysldl.datasets import make_asymmetric_multilabel, stratified_folds, stratified_split
from pysldl.exceptions import DataError


def test_every_label_and_every_row_keeps_its_share():
    Y = make_asymmetric_multilabel(600, 80, 20).Y
    folds = stratified_folds(Y, 5)
    sizes = np.bincount(folds, minlength=5)
    shares = np.array([np.bincount(Y[folds == fold].indices, minlength=20) for fold in range(5)])
    assert sizes.max() - sizes.min() <= 6
    assert np.abs(shares - shares.mean(axis=0)).max() <= np.maximum(2, 0.05 * shares.mean(axis=0)).max()


def test_the_seed_decides_and_the_form_of_the_labels_does_not():
    Y = make_asymmetric_multilabel(200, 60, 12).Y
    folds = stratified_folds(Y, 4, random_state=1)
    np.testing.assert_array_equal(folds, stratified_folds(Y.toarray(), 4, random_state=1))
    assert (folds != stratified_folds(Y, 4, random_state=2)).any()


def test_rows_without_labels_even_the_sizes_out():
    Y = sparse.csr_array(np.vstack([np.eye(3), np.zeros((6, 3))]))
    assert np.bincount(stratified_folds(Y, 3)).tolist() == [3, 3, 3]


def test_a_split_keeps_the_share_of_every_label_and_leaves_single_rows_to_train():
    Y = make_asymmetric_multilabel(600, 80, 20).Y
    train, test = stratified_split(Y, 0.2, random_state=3)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(600))
    assert abs(len(test) - 120) <= 6
    shares = Y[test].sum(axis=0) / Y.sum(axis=0)
    assert np.abs(shares - 0.2).max() <= 0.05
    lone = sparse.csr_array(np.hstack([Y.toarray(), np.eye(600)[:, :40]]))
    assert lone[stratified_split(lone, 0.2)[1]][:, 20:].nnz == 0
    names = [["a"], ["b"]] * 10
    assert [len(part) for part in stratified_split(names, 0.5)] == [10, 10]


def test_rows_grow_and_time_with_them():
    rng = np.random.default_rng(0)
    chances = 1 / np.arange(1, 1001)
    columns = rng.choice(1000, size=(10_000, 5), p=chances / chances.sum())
    indicator = sparse.lil_array((10_000, 1000))
    for row, chosen in enumerate(columns):
        indicator[row, np.unique(chosen)] = 1
    started = time.process_time()
    folds = stratified_folds(sparse.csr_array(indicator), 10)
    assert time.process_time() - started < 6  # a hundred thousand rows of ten thousand labels: within a minute
    assert np.bincount(folds).min() > 980


def test_a_share_must_be_one():
    with pytest.raises(DataError, match="between 0 and 1, but is 20"):
        stratified_split(np.eye(3), 20)
    with pytest.raises(DataError, match="no row is left to test on, there are only 3"):
        stratified_split(np.eye(3), 0.01)


def test_one_fold_is_none():
    with pytest.raises(DataError, match="at least 2"):
        stratified_folds(np.eye(3), 1)
