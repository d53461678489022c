"""Calibration for methods that cannot tell what they would say of a training row they had not seen."""

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from pysldl.estimator.base import BaseLabelClassifier
from pysldl.estimator.calibration import ScoreCalibration
from pysldl.exceptions import SLDLWarning

__all__ = ["CALIBRATION_ROWS", "held_out_calibration"]

CALIBRATION_ROWS = 5000


def held_out_calibration(
    model: BaseLabelClassifier, X: Any, Y: sparse.csr_array, rng: np.random.RandomState
) -> ScoreCalibration:
    """Calibration from a second model that does not see a tenth of the rows, at most 5,000.

    The first model keeps all rows, so its rankings are not affected; the price is that fitting takes about twice as
    long. Where fewer than ten rows, or only rows without labels, would be left, the model's own training scores are
    used, which makes ``predict`` and ``predict_proba`` overconfident.

    Parameters
    ----------
    model : BaseLabelClassifier
        Fitted on ``X`` and ``Y``; it must have the parameters ``calibrate`` and ``progress``.
    X : ndarray or csr_array of shape (n_samples, n_features)
    Y : csr_array of shape (n_samples, n_labels)
    rng : RandomState
    """
    order = rng.permutation(X.shape[0])
    n_held = min(CALIBRATION_ROWS, X.shape[0] // 10)
    held, rest = order[:n_held], order[n_held:]
    if n_held == 0 or Y[rest].nnz == 0:
        return ScoreCalibration().fit(model._score_rows(X), Y)
    second = clone(model).set_params(calibrate=False, progress=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SLDLWarning)  # what they say was said for the first model
        second.fit(X[rest], Y[rest])
    blocks = list(second.score_blocks(X[held]))
    scores = sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.concatenate(blocks)
    return ScoreCalibration().fit(scores, Y[held])
