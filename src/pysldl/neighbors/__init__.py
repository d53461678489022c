"""Nearest-neighbor search: exact, through an inverted index of sparse rows, and approximate through faiss."""

from pysldl.neighbors.exact import ExactIndex
from pysldl.neighbors.faiss_index import FaissIndex
from pysldl.neighbors.inverted_index import InvertedIndex

__all__ = ["ExactIndex", "FaissIndex", "InvertedIndex"]
