"""Load only the parts of a model folder that are needed to predict."""

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pysldl.exceptions import ModelFormatError
from pysldl.persistence.decoding import TreeDecoder
from pysldl.persistence.loading import read_model
from pysldl.persistence.registry import home_of

# The predicting half of a class; the estimator lies above this layer, so that it is named and not imported.
HALVES = {
    "SLDLClassifier": ("pysldl.estimator.predictor", "StagedPredictor"),
    "RidgeMapping": ("pysldl.mapping.linear_predictor", "LinearPredictor"),
}
WHOLE = (
    *("pysldl.decoding", "pysldl.neighbors", "pysldl.ranking", "pysldl.estimator.calibration"),
    *("pysldl.estimator.prediction_sets", "pysldl.preprocessing.vocabulary"),
)
PARAMETERS = {
    "SLDLClassifier": {"normalize", "device", "memory_limit"},
    "RidgeMapping": {"fit_intercept"},
}
ONLY_TO_LEARN = {"training_features_", "training_labels_", "normal_equations_"}


class _WholeNeededError(Exception):
    """The model holds something that has no predicting half."""


def load_predictor(path: str | os.PathLike[str], *, mmap: bool = True, arrays: Path | None = None) -> Any:
    """Load the predicting half of a model, its arrays verified; the whole model if it has no halves.

    What it predicts is what the whole model predicts, to the bit. It does not wait for scikit-learn, which takes longer
    than all else, unless the model holds a vectorizer; so its features must have been checked.

    Parameters
    ----------
    path : str or path
        The model folder, or one version of it (:func:`current_version`).
    mmap : bool
        Leave the arrays where they are and read what is used when it is used; False reads them into memory.
    arrays : Path, optional
        Take the arrays from here, a copy of the version's own that :func:`frozen_arrays` made.

    Returns
    -------
    StagedPredictor, or the model itself
    """
    try:
        return read_model(path, _Half, mmap=mmap, arrays=arrays)
    except _WholeNeededError:
        return read_model(path, TreeDecoder, mmap=mmap, arrays=arrays)


class _Half(TreeDecoder):
    """Builds the half that predicts."""

    def estimator(self, node: Mapping[str, Any]) -> Any:
        name, home = node["class"], home_of(node["class"]) or ""
        if home.startswith("pysldl.embedding"):  # nothing but its arrays is asked any more
            return SimpleNamespace(**self._fitted(node))
        if name in HALVES:
            module, half = HALVES[name]
            predictor = getattr(import_module(module), half)()
            params = {key: value for key, value in node["params"].items() if key in PARAMETERS[name]}
            if len(params) < len(PARAMETERS[name]):  # one that was not saved has its default, which the class knows
                raise _WholeNeededError(name)
            vars(predictor).update(self._items(params) | self._fitted(node))
            return predictor
        if home and not home.startswith(WHOLE):
            raise _WholeNeededError(name)
        return super().estimator(node)

    def _fitted(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """The fitted attributes; all are named with an underscore at the end, which no method is."""
        for attribute in node["state"]:
            if attribute.startswith("_") or not attribute.endswith("_"):
                raise ModelFormatError(f"{self.source}: sets {attribute!r}, which no {node['class']} has.")
        return self._items({key: value for key, value in node["state"].items() if key not in ONLY_TO_LEARN})
