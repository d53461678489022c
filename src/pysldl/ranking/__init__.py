"""The candidates of a decoder, ordered by a linear model for each label."""

from pysldl.ranking.linear import LinearRanker

__all__ = ["LinearRanker"]
