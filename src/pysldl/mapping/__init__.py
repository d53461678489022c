"""Stage 2: features to the latent space."""

from pysldl.mapping.ridge import RidgeMapping
from pysldl.mapping.shared_factor import SharedFactorRidge

__all__ = ["RidgeMapping", "SharedFactorRidge"]
