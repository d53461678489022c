"""Scalable label distribution learning for multi-label classification."""

__version__ = "0.1.0"
