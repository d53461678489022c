"""The candidates of a decoder, ordered by a linear model for each label."""

from pysldl.ranking.linear import LinearRanker
from pysldl.ranking.reranker import TreeReranker

__all__ = ["LinearRanker", "TreeReranker"]
