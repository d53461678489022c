"""PACA: probabilistic label-specific features (Hang, Zhang, Feng and Song, AAAI 2022)."""

from pysldl.baselines.paca.classifier import PACA

__all__ = ["PACA"]
