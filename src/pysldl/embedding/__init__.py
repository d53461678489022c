"""Stage 1: labels to places in a latent space."""

from pysldl.embedding.gaussian import GaussianLabelEmbedding
from pysldl.embedding.simple import IdentityLabelEmbedding, RandomLabelEmbedding, SVDLabelEmbedding
from pysldl.embedding.vector import VectorLabelEmbedding

__all__ = [
    "GaussianLabelEmbedding",
    "IdentityLabelEmbedding",
    "RandomLabelEmbedding",
    "SVDLabelEmbedding",
    "VectorLabelEmbedding",
]
