"""A preset of this library: ``accurate``, or with settings ``accurate(embedding=RandomLabelEmbedding(256))``."""

import ast
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from task import System, Task

import pysldl.decoding
import pysldl.embedding
import pysldl.mapping
from pysldl import SLDLClassifier, make_sldl
from stages import stages_watched

__all__ = ["SYSTEM", "read_preset"]

WARM_UP_ROWS = 500


class Ours(System):
    """Warmed up on a few training rows, so that kernels are compiled before the clock of training starts."""

    def warm_up(self, task: Task) -> None:
        rows = slice(0, WARM_UP_ROWS)
        read_preset(self.specification).fit(task.X[rows], task.Y[rows]).predict_topk(task.X_test[rows], k=5)

    def prepare(self, task: Task) -> None:
        self._classifier = read_preset(self.specification)

    def train(self, task: Task, folder: Path) -> None:
        with stages_watched(self.clock, self._classifier):
            self._classifier.fit(task.X, task.Y)

    def save(self, folder: Path) -> None:
        self._classifier.save(folder)

    def predict(self, X: Any, k: int) -> NDArray[np.int64]:
        with stages_watched(self.clock, self._classifier):
            return self._classifier.predict_topk(X, k=k)[0]


SYSTEM = Ours


def read_preset(specification: str) -> SLDLClassifier:
    """A classifier from the way one would write it: a preset's name, or a call of it with overrides.

    Values are literals, or calls of the stages of the library with such values.
    """
    try:
        expression = ast.parse(specification, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{specification!r} is not a preset, nor a call of one: {error.msg}") from error
    if isinstance(expression, ast.Name):
        return make_sldl(expression.id)
    if not (isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name)):
        raise ValueError(f"{specification!r} is not a preset, nor a call of one, such as fast(calibrate=False)")
    return make_sldl(expression.func.id, **_keywords(expression))


def _value(node: ast.expr) -> Any:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        return ast.literal_eval(node)
    for module in (pysldl.embedding, pysldl.mapping, pysldl.decoding):
        if node.func.id in module.__all__:
            return getattr(module, node.func.id)(*map(_value, node.args), **_keywords(node))
    raise ValueError(f"the library has no stage {node.func.id!r}")


def _keywords(call: ast.Call) -> dict[str, Any]:
    return {str(keyword.arg): _value(keyword.value) for keyword in call.keywords}
