"""Quality of a model on held-out rows: metrics, reliability of its probabilities, recall by label frequency."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.metrics.ranking import evaluate, hits_of

CUTOFFS = (1, 3, 5)
BINS = 10
FREQUENCY_EDGES = (1, 2, 5, 10, 30, 100, 1000)


def reliability_report(
    labels: NDArray[np.int64], Y: sparse.csr_array, probabilities: NDArray[np.float64] | None
) -> dict[str, Any]:
    """Compute metrics, reliability and hits per label from the best labels (n_rows, k) of rows.

    Their ``probabilities``, if there are any, come from a curve that these rows had no part in. The result has
    ``n_rows``, ``metrics``, ``reliability`` and, for every label, ``n_true`` and ``n_found``: its rows, and those that
    have it among their five best.
    """
    hits, there = hits_of(labels, Y), labels >= 0
    ks = tuple(k for k in CUTOFFS if k <= labels.shape[1])
    five = labels[:, : max(CUTOFFS)]
    return {
        "n_rows": len(labels),
        "metrics": evaluate(Y, labels, ks=ks),
        "reliability": [] if probabilities is None else reliability(probabilities[there], hits[there]),
        "n_true": np.bincount(Y.indices, minlength=Y.shape[1]).astype(np.int32),
        "n_found": np.bincount(five[hits[:, : max(CUTOFFS)]], minlength=Y.shape[1]).astype(np.int32),
    }


def reliability(probabilities: NDArray[np.float64], hits: NDArray[np.bool_]) -> list[dict[str, float]]:
    """Predicted probability against the share that came true, in ten bins; empty ones are left out."""
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    return [
        {
            "n": int(inside.sum()),
            "predicted": float(probabilities[inside].mean()),
            "observed": float(hits[inside].mean()),
        }
        for inside in (bins == number for number in range(BINS))
        if inside.any()
    ]


def by_frequency(
    n_true: NDArray[np.integer], n_found: NDArray[np.integer], counts: NDArray[np.integer]
) -> list[dict[str, Any]]:
    """Group the share of true labels that were found by the number of training rows (``counts``) of a label.

    ``n_true`` and ``n_found`` are those of :func:`reliability_report`.
    """
    groups = []
    for low, high in zip(FREQUENCY_EDGES, [*FREQUENCY_EDGES[1:], None], strict=True):
        inside = (counts >= low) & (counts < (np.inf if high is None else high))
        true = int(n_true[inside].sum())
        if not inside.any():
            continue
        groups.append(
            {
                "from": low,
                "to": None if high is None else high - 1,
                "n_labels": int(inside.sum()),
                "n_true": true,
                "recall": float(n_found[inside].sum()) / true if true else None,
            }
        )
    return groups
