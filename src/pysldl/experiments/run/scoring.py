"""The eight metrics of the paper, with and without test labels that no training row carries."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.suggestions import did_you_mean
from pysldl.exceptions import DataError
from pysldl.experiments.stats.results import Unseen
from pysldl.metrics import evaluate, inverse_propensity

__all__ = ["PAPER_METRICS", "Scorer", "find_metrics", "mean_metric", "mean_scores"]

PAPER_METRICS = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@1", "PSP@5", "PSnDCG@5")
DEPTH = 5
DECIMALS = 8  # far beyond what rows can tell apart, and short enough for the order of a sum to leave no trace


class Scorer:
    """Scores rankings of one set of rows by models fitted on another.

    Parameters
    ----------
    Y_fit : csr_array of shape (n_fit, n_labels)
        Labels of the rows the model learns from: they give the propensities and say which labels are unseen.
    Y_true : csr_array of shape (n_rows, n_labels)
        Labels of the rows that are ranked.
    """

    def __init__(self, Y_fit: sparse.csr_array, Y_true: sparse.csr_array) -> None:
        self._truth = Y_true
        self._weights = inverse_propensity(Y_fit)
        unseen = np.bincount(Y_fit.indices, minlength=Y_fit.shape[1]) == 0
        self._ignored = unseen if unseen[Y_true.indices].any() else None

    def __call__(self, labels: NDArray[np.int64]) -> dict[Unseen, dict[str, float]]:
        """Metrics of the best labels (n_rows, 5), with unseen test labels kept and dropped."""
        kept = self._metrics(labels, None)
        return {"keep": kept, "drop": dict(kept) if self._ignored is None else self._metrics(labels, self._ignored)}

    def _metrics(self, labels: NDArray[np.int64], ignored: Any) -> dict[str, float]:
        found = evaluate(
            self._truth, labels, self._weights, metrics=("P", "nDCG", "PSP", "PSnDCG"), ignore_labels=ignored
        )
        return {name: round(found[name], DECIMALS) for name in PAPER_METRICS}


def find_metrics(names: Sequence[str] | None) -> tuple[str, ...]:
    """The named ones of the eight, in the paper's order; all where none are named."""
    if names is None:
        return PAPER_METRICS
    lower = {name.lower() for name in PAPER_METRICS}
    for name in names:
        if name.lower() not in lower:
            hint = did_you_mean(name, PAPER_METRICS) or f"choose from {', '.join(PAPER_METRICS)}."
            raise DataError(f"unknown metric {name!r}: {hint}")
    wanted = {name.lower() for name in names}
    return tuple(name for name in PAPER_METRICS if name.lower() in wanted)


def mean_scores(scores: Sequence[dict[Unseen, dict[str, float]]]) -> dict[Unseen, dict[str, float]]:
    """Each metric averaged over several sets of rows of equal size."""
    return {
        unseen: {name: sum(score[unseen][name] for score in scores) / len(scores) for name in PAPER_METRICS}
        for unseen in scores[0]
    }


def mean_metric(metrics: dict[str, float]) -> float:
    """The mean of the eight: what configurations are chosen by."""
    return sum(metrics[name] for name in PAPER_METRICS) / len(PAPER_METRICS)
