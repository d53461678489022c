"""DELA: dual perspective of label-specific feature learning (Hang and Zhang, ICML 2022)."""

from pysldl.baselines.dela.classifier import DELA

__all__ = ["DELA"]
