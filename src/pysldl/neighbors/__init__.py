"""Nearest-neighbor search: exact, and approximate through faiss."""

from pysldl.neighbors.exact import ExactIndex
from pysldl.neighbors.faiss_index import FaissIndex

__all__ = ["ExactIndex", "FaissIndex"]
