"""DXML: features regressed on DeepWalk vectors of the label graph (Zhang et al., ICMR 2018)."""

from pysldl.baselines.dxml.classifier import DXML

__all__ = ["DXML"]
