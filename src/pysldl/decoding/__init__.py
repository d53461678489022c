"""Stage 3: latent codes to labels."""

from pysldl.decoding.approximate import FaissIndex
from pysldl.decoding.blend import BlendDecoder
from pysldl.decoding.features import FeatureNeighborDecoder
from pysldl.decoding.index import ExactIndex
from pysldl.decoding.joint import JointNeighborDecoder
from pysldl.decoding.neighbors import NeighborDecoder
from pysldl.decoding.ranker import LinearRanker
from pysldl.decoding.readout import LinearReadout

__all__ = [
    "BlendDecoder",
    "ExactIndex",
    "FaissIndex",
    "FeatureNeighborDecoder",
    "JointNeighborDecoder",
    "LinearRanker",
    "LinearReadout",
    "NeighborDecoder",
]
