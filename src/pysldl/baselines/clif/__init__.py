"""CLIF: collaborative learning of label semantics and label-specific features (Hang and Zhang, TPAMI 2021)."""

from pysldl.baselines.clif.classifier import CLIF

__all__ = ["CLIF"]
