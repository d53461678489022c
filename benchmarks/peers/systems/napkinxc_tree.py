"""napkinXC's probabilistic label tree with its defaults."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from napkinxc.models import PLT
from numpy.typing import NDArray
from task import System, Task

__all__ = ["SYSTEM"]


class NapkinXC(System):
    """Writes its model while it trains, and reads it to predict."""

    def prepare(self, task: Task) -> None:
        columns, ends = task.Y.indices.tolist(), task.Y.indptr.tolist()
        self._labels = [columns[start:end] for start, end in pairwise(ends)]

    def train(self, task: Task, folder: Path) -> None:
        self._model = PLT(str(folder), threads=self.threads)
        self._model.fit(task.X, self._labels)

    def load(self, folder: Path) -> None:
        self._model.load()

    def predict(self, X: Any, k: int) -> NDArray[np.int64]:
        labels = np.full((X.shape[0], k), -1, dtype=np.int64)
        for row, found in enumerate(self._model.predict(X, top_k=k)):
            labels[row, : len(found)] = found
        return labels


SYSTEM = NapkinXC
