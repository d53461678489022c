"""Rows held out from the regression tell when to stop and which penalty to take."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pysldl.backend.dispatch import to_device
from pysldl.backend.linear_algebra import DesignMatrix, column_dots
from pysldl.mapping.solvers import ridge_steps

HELD_OUT = 2000
COLUMNS = 8
SMALLEST_FALL = 2e-3
PATH_TOLERANCE = 1e-3


def rows_to_hold_out(n_samples: int, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Up to 2,000 rows, at most a twentieth and at least one, ascending."""
    return np.sort(rng.permutation(n_samples)[: max(1, min(HELD_OUT, n_samples // 20))])


class HeldOutError:
    """Mean squared error of the held-out ``rows`` of a regression, and whether it still falls.

    ``design`` and ``Z`` are the features and targets of all rows.
    """

    def __init__(self, design: DesignMatrix, Z: NDArray[Any], rows: NDArray[np.intp]) -> None:
        self._rows = design.only_rows(rows)
        self._expected = to_device(Z[rows], np.float32)
        self._before = np.inf

    def __call__(self, W: Any) -> float:
        """Mean squared error of the weights ``W`` on the held-out rows."""
        left = self._rows.times(W) - self._expected
        return float(column_dots(left, left).sum() / (left.shape[0] * left.shape[1]))

    def stop(self, step: int, W: Any) -> bool:
        """Whether the last step lowered the error by less than a five hundredth."""
        error = self(W)
        enough = error > self._before * (1 - SMALLEST_FALL)
        self._before = error
        return enough


def choose_alpha(
    design: DesignMatrix,
    Z: NDArray[Any],
    alphas: Sequence[float],
    rows: NDArray[np.intp],
    max_iter: int,
    *,
    stops_early: bool,
) -> float:
    """The penalty with the smallest error on held-out ``rows``, found with the first eight components.

    Each penalty's weights are the start of the next smaller one's. With ``stops_early`` they stop as the mapping itself
    will, when the error no longer falls; otherwise when the residual is small.
    """
    targets = np.array(Z[:, :COLUMNS], dtype=np.float32, order="C")
    expected = targets.copy()
    targets[rows] = 0
    trial = design.without_rows(rows)
    B = trial.transposed_times(targets)
    goal = PATH_TOLERANCE * np.sqrt(column_dots(B, B))
    errors: dict[float, float] = {}
    W = None
    for alpha in sorted(alphas, reverse=True):
        error = HeldOutError(design, expected, rows)
        W, _, _ = ridge_steps(trial, B, alpha, goal, max_iter, start=W, stop=error.stop if stops_early else None)
        errors[alpha] = error(W)
    return min(errors, key=lambda alpha: (errors[alpha], -alpha))
