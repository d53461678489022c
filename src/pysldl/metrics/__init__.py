"""Ranking metrics at k, plain and propensity-scored, for any number of labels."""

from pysldl.metrics.propensity import inverse_propensity, inverse_propensity_from_counts
from pysldl.metrics.ranking import (
    evaluate,
    ndcg_at_k,
    precision_at_k,
    psndcg_at_k,
    psprecision_at_k,
    recall_at_k,
)

__all__ = [
    "evaluate",
    "inverse_propensity",
    "inverse_propensity_from_counts",
    "ndcg_at_k",
    "precision_at_k",
    "psndcg_at_k",
    "psprecision_at_k",
    "recall_at_k",
]
