"""A preset of this library, with or without other settings."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from task import System, Task

from pysldl.estimator.size_dispatch import ProblemSize, for_size
from specification import read_preset
from stages import stages_watched

__all__ = ["SYSTEM"]

WARM_UP_ROWS, FEW_LABELS = 500, 20


class Ours(System):
    """Warmed up on a few training rows, so that kernels are compiled before the clock of training starts."""

    def warm_up(self, task: Task) -> None:
        X, Y = task.X[:WARM_UP_ROWS], task.Y[:WARM_UP_ROWS]
        frequent = np.argsort(-np.asarray(Y.sum(axis=0)).ravel(), kind="stable")[:FEW_LABELS]
        for some in (Y, Y[:, frequent]):  # with few rows a label, all labels take another way than with many
            self._new(task).fit(X, some).predict_topk(task.X_test[:WARM_UP_ROWS], k=5)

    def prepare(self, task: Task) -> None:
        self._classifier = self._new(task)

    def _new(self, task: Task) -> Any:
        return for_size(read_preset(self.specification), ProblemSize.of(task.X, task.Y))

    def train(self, task: Task, folder: Path) -> None:
        with stages_watched(self.clock, self._classifier):
            self._classifier.fit(task.X, task.Y)

    def save(self, folder: Path) -> None:
        self._classifier.save(folder)

    def predict(self, X: Any, k: int) -> NDArray[np.int64]:
        with stages_watched(self.clock, self._classifier):
            return self._classifier.predict_topk(X, k=k)[0]


SYSTEM = Ours
