"""The ranker's penalty is chosen on held-out rows, at a cost that does not grow with the data."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.backend.label_problems import LabelProblems
from pysldl.ranking.penalty import MIDDLE, SHARPER, SMOOTHER, choose_penalty, some_labels

ASCENDING = (SMOOTHER, MIDDLE, SHARPER)


def problems_of(sizes):
    return LabelProblems(np.concatenate([[0], np.cumsum(sizes)]), np.arange(sum(sizes), dtype=np.int32))


def test_few_rows_are_all_taken_and_many_by_every_nth_label():
    sizes = np.array([4, 3, 2, 1])
    assert some_labels(sizes, 10).tolist() == [0, 1, 2, 3]
    assert some_labels(sizes, 5).tolist() == [1, 3]


@pytest.mark.parametrize("best", ASCENDING)
def test_the_penalty_that_ranks_held_out_rows_best_is_taken(best):
    """Weights are right only for the best C, and the nearer to it the more rows are right."""
    n = 30
    X = sparse.csr_array(np.eye(n, dtype=np.float32))
    Y = sparse.csr_array((np.ones(n), (np.arange(n), np.arange(n) % 2)), shape=(n, 2))
    labels = np.tile(np.arange(2, dtype=np.int32), (n, 1))
    tried = []

    def solve(problems, C):
        tried.append(C / 2)
        n_right = n - 10 * abs(ASCENDING.index(C / 2) - ASCENDING.index(best))
        W = np.where(Y.toarray().T > 0, 1.0, 0.0)
        W[:, n_right:] = 1 - W[:, n_right:]
        return sparse.csr_array(W.astype(np.float32)), np.zeros(2, dtype=np.float32)

    found = choose_penalty(
        X, Y, lambda n_rows: (problems_of([n, n]), 2.0), solve, np.arange(n), labels, lambda linear: [linear]
    )
    assert found == best
    assert tried == ([MIDDLE, SMOOTHER] if best == SMOOTHER else [MIDDLE, SMOOTHER, SHARPER])


@pytest.mark.parametrize(("n_tried", "chosen"), [(4, MIDDLE), (2, SHARPER)])
def test_where_labels_are_left_out_of_the_trial_a_small_gain_does_not_count(n_tried, chosen):
    """Of a thousand rows, four are right with 0.3 alone, and three with the others alone: that may be chance.

    Where half of the labels are left out, 0.1 is not tried.
    """
    n = 1000
    X = sparse.csr_array(np.eye(n, dtype=np.float32))
    rows, columns = np.append(np.arange(n), [1, 2, 3]), np.append(np.zeros(n, dtype=int), [1, 2, 3])
    Y = sparse.csr_array((np.ones(n + 3), (rows, columns)), shape=(n, 4))
    labels = np.tile(np.arange(2, dtype=np.int32), (n, 1))

    def solve(problems, C):
        W = np.zeros((4, n), dtype=np.float32)
        assert C != SMOOTHER or n_tried == 4
        W[0] = 1
        W[0, slice(10, 13) if C == MIDDLE else slice(20, 24)] = -1
        return sparse.csr_array(W), np.zeros(4, dtype=np.float32)

    problems = problems_of([n, 1] + [1, 1] * (n_tried == 4) + [0, 0] * (n_tried == 2))
    found = choose_penalty(X, Y, lambda _: (problems, 1.0), solve, np.arange(n), labels, lambda linear: [linear])
    assert found == chosen


def test_without_labels_nothing_is_tried():
    X, Y = sparse.csr_array(np.eye(4, dtype=np.float32)), sparse.csr_array((4, 2))
    held = np.array([0])
    labels = np.zeros((1, 1), np.int32)
    assert choose_penalty(X, Y, lambda n_rows: (problems_of([2, 2]), 1.0), None, held, labels, None) == MIDDLE
