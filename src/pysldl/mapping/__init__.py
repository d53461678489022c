"""Stage 2: features to the latent space."""

from pysldl.mapping.ridge import RidgeMapping

__all__ = ["RidgeMapping"]
