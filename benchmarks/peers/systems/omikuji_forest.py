"""omikuji with its defaults. It takes no matrix: it reads a text file, and predicts one row a call."""

from pathlib import Path
from typing import Any

import numpy as np
import omikuji
from numpy.typing import NDArray
from task import System, Task

__all__ = ["SYSTEM"]


class Omikuji(System):
    """The two halves of its ``Model.train_on_data``, so that reading the file does not count as training."""

    def prepare(self, task: Task) -> None:
        self._pool = omikuji._ThreadPoolHandle(self.threads)
        path = omikuji.ffi.new("char[]", str(task.text_file).encode())
        data = omikuji.lib.load_omikuji_data_set(path, self._pool.ptr)
        if data == omikuji.ffi.NULL:
            raise RuntimeError(f"omikuji cannot read {task.text_file}")
        self._data = omikuji.ffi.gc(data, omikuji.lib.free_omikuji_data_set)

    def train(self, task: Task, folder: Path) -> None:
        settings = omikuji.Model.default_hyper_param()
        self._model = omikuji.Model(omikuji.lib.train_omikuji_model(self._data, settings, self._pool.ptr))

    def save(self, folder: Path) -> None:
        folder.mkdir()
        self._model.save(str(folder))

    def load(self, folder: Path) -> None:
        if not hasattr(self, "_model"):
            self._model = omikuji.Model.load(str(folder))
        self._model.init_prediction_thread_pool(self.threads)

    def predict(self, X: Any, k: int) -> NDArray[np.int64]:
        labels = np.full((X.shape[0], k), -1, dtype=np.int64)
        for row in range(X.shape[0]):
            stored = slice(X.indptr[row], X.indptr[row + 1])
            pairs = zip(X.indices[stored].tolist(), X.data[stored].tolist(), strict=True)
            found = [label for label, _ in self._model.predict(pairs, top_k=k)]
            labels[row, : len(found)] = found
        return labels


SYSTEM = Omikuji
