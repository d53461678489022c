"""AdaBoost.C2: one boosting path per label, with a classifier chain in every round."""

from pysldl.baselines.adaboost_c2.classifier import AdaBoostC2

__all__ = ["AdaBoostC2"]
