"""Base classes of the baselines and controls: common parameters, and calibration on held-out rows."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.preprocessing import normalize as normalize_rows

from pysldl._utils.constraints import AnnotatedParameters
from pysldl._utils.light_estimator import inherit_parameters
from pysldl._utils.progress import ProgressCallback
from pysldl.estimator.base import BaseLabelClassifier
from pysldl.estimator.calibration import ScoreCalibration
from pysldl.exceptions import SLDLWarning

CALIBRATION_ROWS = 5000


@dataclass(eq=False, repr=False, kw_only=True)
class BaselineClassifier(AnnotatedParameters, BaseLabelClassifier):
    """Base of the baselines and controls.

    A dataclass writes the constructor, which only stores; a subclass names the parameters that it adds, and those whose
    defaults it changes.

    Parameters
    ----------
    calibrate : bool, default=True
        Learn the threshold of ``predict`` and the probabilities of ``predict_proba``; without them there are rankings.
    vectorizer : TfidfVectorizer, optional
        Used if X is a list of texts; a plain one is made if none is given.
    memory_limit : int or str, optional
        Refuse work that needs more, for example ``"8 GB"``. Default: what the machine has free.
    progress : callable or bool, optional
        Called with a :class:`~pysldl._utils.progress.Progress` after every step; True prints lines on standard error.
    random_state : int, RandomState instance or None, default=None
        Seed of everything random.
    """

    calibrate: bool = True
    vectorizer: Any = None
    memory_limit: int | str | None = None
    progress: ProgressCallback | bool | None = None
    random_state: Any = None

    def _held_out_calibration(self, X: Any, Y: sparse.csr_array, rng: np.random.RandomState) -> ScoreCalibration:
        """Calibrate by a second model that does not see a tenth of the rows, at most 5,000.

        The first model keeps all rows, so that its rankings are not affected; fitting takes about twice as long. If
        fewer than ten rows, or only rows without labels, would be left, the model's own training scores are used, which
        makes ``predict`` and ``predict_proba`` overconfident.
        """
        order = rng.permutation(X.shape[0])
        n_held = min(CALIBRATION_ROWS, X.shape[0] // 10)
        held, rest = order[:n_held], order[n_held:]
        if n_held == 0 or Y[rest].nnz == 0:
            return ScoreCalibration().fit(self._score_rows(X), Y)
        second = clone(self).set_params(calibrate=False, progress=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SLDLWarning)  # what they say was said for the first model
            second.fit(X[rest], Y[rest])
        blocks = list(second.score_blocks(X[held]))
        scores = sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.concatenate(blocks)
        return ScoreCalibration().fit(scores, Y[held])


@inherit_parameters
@dataclass(eq=False, repr=False, kw_only=True)
class NormalizingBaseline(BaselineClassifier):
    """Base of the baselines that may scale rows before anything else.

    Parameters
    ----------
    normalize : bool, default=True
        Scale every row of X to length 1.
    """

    normalize: bool = True

    def _scaled(self, X: Any) -> Any:
        return normalize_rows(X) if self.normalize else X
