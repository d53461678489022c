"""Reading from a model folder what answers questions, and leaving out what only learns."""

import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from pysldl.estimator.predictor import StagedPredictor
from pysldl.exceptions import ModelFormatError
from pysldl.mapping.linear_predictor import LinearPredictor
from pysldl.persistence.decoding import TreeDecoder
from pysldl.persistence.loading import load_model, read_model
from pysldl.persistence.registry import find_class

__all__ = ["load_predictor"]

HALVES: dict[str, type] = {"SLDLClassifier": StagedPredictor, "RidgeMapping": LinearPredictor}
# Of an embedding nothing but its arrays is asked any more.
EMBEDDINGS = (
    "GaussianLabelEmbedding",
    "IdentityLabelEmbedding",
    "RandomLabelEmbedding",
    "SVDLabelEmbedding",
    "VectorLabelEmbedding",
)
WHOLE = ("pysldl.decoding", "pysldl.neighbors", "pysldl.ranking", "pysldl.estimator.calibration")
PARAMETERS = {"normalize", "device", "fit_intercept"}
ONLY_TO_LEARN = {"training_features_", "training_labels_", "normal_equations_"}


class _WholeNeededError(Exception):
    """The model holds something that has no answering half."""


def load_predictor(path: str | os.PathLike[str]) -> Any:
    """The answering half of a model, its arrays mapped and verified; the whole model where it has no halves.

    What it answers is what the whole model answers, to the bit. It does not wait for scikit-learn, which takes longer
    than all else, unless the model holds a vectorizer.

    Returns
    -------
    StagedPredictor, or the model itself
    """
    try:
        return read_model(path, _Half)
    except _WholeNeededError:
        return load_model(path)


class _Half(TreeDecoder):
    """Builds the half that answers."""

    homes = WHOLE

    def estimator(self, node: Mapping[str, Any]) -> Any:
        name = node["class"]
        if name in EMBEDDINGS:
            return SimpleNamespace(**self._fitted(node))
        if name in HALVES:
            half = HALVES[name]()
            params = {key: value for key, value in node["params"].items() if key in PARAMETERS}
            vars(half).update(self._items(params) | self._fitted(node))
            return half
        if find_class(name, self.homes) is None:
            raise _WholeNeededError(name)
        return super().estimator(node)

    def _fitted(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """The fitted attributes; all are named with an underscore at the end, which no method is."""
        for attribute in node["state"]:
            if attribute.startswith("_") or not attribute.endswith("_"):
                raise ModelFormatError(f"{self.source}: sets {attribute!r}, which no {node['class']} has.")
        return self._items({key: value for key, value in node["state"].items() if key not in ONLY_TO_LEARN})
