"""Stage 1: each label becomes a vector or a Gaussian in a latent space."""

from typing import TYPE_CHECKING

from pysldl._utils.lazy_import import lazy_exports

if TYPE_CHECKING:
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

# Not imported before they are used: they need scikit-learn, and the divergences beside them are asked for by services.
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "GaussianLabelEmbedding": "pysldl.embedding.gaussian",
        "IdentityLabelEmbedding": "pysldl.embedding.simple",
        "RandomLabelEmbedding": "pysldl.embedding.simple",
        "SVDLabelEmbedding": "pysldl.embedding.simple",
        "VectorLabelEmbedding": "pysldl.embedding.vector",
    },
)
