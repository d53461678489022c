"""Stage 2: features to the latent space."""

from typing import TYPE_CHECKING

from pysldl._utils.lazy_import import lazy_exports

if TYPE_CHECKING:
    from pysldl.mapping.landmarks import LandmarkRidge
    from pysldl.mapping.ridge import RidgeMapping
    from pysldl.mapping.shared_factor import SharedFactorRidge

__all__ = ["LandmarkRidge", "RidgeMapping", "SharedFactorRidge"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "LandmarkRidge": "pysldl.mapping.landmarks",
        "RidgeMapping": "pysldl.mapping.ridge",
        "SharedFactorRidge": "pysldl.mapping.shared_factor",
    },
)
