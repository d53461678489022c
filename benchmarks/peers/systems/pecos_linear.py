"""PECOS XR-Linear with the defaults of its two commands, train and predict."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel
from task import System, Task

__all__ = ["SYSTEM"]


class XRLinear(System):
    """Reads its model to predict, as its command does: that is faster than predicting with what it trained."""

    def prepare(self, task: Task) -> None:
        self._columns = task.Y.tocsc()

    def train(self, task: Task, folder: Path) -> None:
        features = LabelEmbeddingFactory.create(task.Y, task.X, method="pifa", threads=self.threads)
        tree = Indexer.gen(features, threads=self.threads)
        self._model = XLinearModel.train(task.X, self._columns, C=tree, threads=self.threads)

    def save(self, folder: Path) -> None:
        self._model.save(str(folder))
        del self._model

    def load(self, folder: Path) -> None:
        self._model = XLinearModel.load(str(folder), is_predict_only=True)

    def predict(self, X: Any, k: int) -> NDArray[np.int64]:
        scores = self._model.predict(X, only_topk=k, threads=self.threads)
        labels = np.full((X.shape[0], k), -1, dtype=np.int64)
        for row in range(X.shape[0]):
            stored = slice(scores.indptr[row], scores.indptr[row + 1])
            best = scores.indices[stored][np.argsort(-scores.data[stored], kind="stable")]
            labels[row, : len(best)] = best
        return labels


SYSTEM = XRLinear
