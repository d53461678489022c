"""Folds in which every label keeps its share of rows."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.datasets import make_asymmetric_multilabel, stratified_folds
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


def test_one_fold_is_none():
    with pytest.raises(DataError, match="at least 2"):
        stratified_folds(np.eye(3), 1)
