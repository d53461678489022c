"""Stage 3: latent codes to labels."""

from pysldl.decoding.blend import BlendDecoder
from pysldl.decoding.neighbors import NeighborDecoder
from pysldl.decoding.readout import LinearReadout

__all__ = ["BlendDecoder", "LinearReadout", "NeighborDecoder"]
