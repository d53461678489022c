"""Weights of votes, and choices that do not hang on a rounding."""

import numpy as np
import pytest

from pysldl.decoding.voting import best_option, vote_weights


def test_of_options_that_differ_by_rounding_the_first_is_taken():
    qualities = {"first": 0.3, "rounded": 0.1 + 0.2, "worse": 0.2}
    assert best_option(list(qualities), qualities.__getitem__) == "first"
    assert best_option(["rounded", "first"], qualities.__getitem__) == "rounded"
    assert best_option(["worse", "first"], qualities.__getitem__) == "first"


def test_shares_are_a_softmax_of_those_that_are_there():
    neighbors = np.array([[4, 2, -1], [-1, -1, -1]], dtype=np.int32)
    similarities = np.array([[0.9, 0.8, 0.0], [0.0, 0.0, 0.0]], dtype=np.float32)
    weights = vote_weights(neighbors, similarities, 0.1)
    assert weights.dtype == np.float32
    assert weights[0] == pytest.approx([1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1)), 0], rel=1e-5)
    assert (weights[1] == 0).all()
