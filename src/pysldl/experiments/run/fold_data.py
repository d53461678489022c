"""The rows of one fold, and what its methods share."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.datasets import Dataset
from pysldl.experiments.run.protocol import Fold
from pysldl.experiments.run.scoring import Scorer

__all__ = ["FoldData", "Task"]


@dataclass(frozen=True)
class Task:
    """Rows to learn from and rows to rank: training and test, or the two parts of the training rows.

    Parameters
    ----------
    X, Y : features and labels of the rows to learn from
    X_new, Y_new : those of the rows to rank
    """

    X: Any
    Y: sparse.csr_array
    X_new: Any
    Y_new: sparse.csr_array

    @cached_property
    def score(self) -> Scorer:
        """What turns rankings of the new rows into metrics."""
        return Scorer(self.Y, self.Y_new)


class FoldData:
    """One fold of one data set.

    Attributes
    ----------
    final : Task
        Learn from the training rows, rank the test rows.
    trials : list of Task
        Learn from the inner rows, rank the validation rows: all that nested selection sees.
    """

    def __init__(self, dataset: Dataset, fold: Fold) -> None:
        self.final = _task(dataset, fold.train, fold.test)
        self.trials = [_task(dataset, inner, validation) for inner, validation in fold.trials]


def _task(dataset: Dataset, rows: NDArray[np.intp], new: NDArray[np.intp]) -> Task:
    X, Y = dataset.X, dataset.Y
    return Task(X[rows], Y[rows], X[new], Y[new])
