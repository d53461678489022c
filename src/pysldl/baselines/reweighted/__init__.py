"""Classifiers with losses reweighted for rare labels: focal, class-balanced, distribution-balanced."""

from pysldl.baselines.reweighted.classifiers import (
    ClassBalancedLossClassifier,
    DistributionBalancedLossClassifier,
    FocalLossClassifier,
)

__all__ = ["ClassBalancedLossClassifier", "DistributionBalancedLossClassifier", "FocalLossClassifier"]
