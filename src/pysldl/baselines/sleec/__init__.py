"""SLEEC: local embeddings that preserve label similarities, decoded by nearest neighbors."""

from pysldl.baselines.sleec.classifier import SLEEC

__all__ = ["SLEEC"]
