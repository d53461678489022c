"""Stage 3: from latent codes, or features, to scores of labels."""

from pysldl.decoding.blend import BlendDecoder
from pysldl.decoding.feature_neighbors import FeatureNeighborDecoder
from pysldl.decoding.joint import JointNeighborDecoder
from pysldl.decoding.neighbors import NeighborDecoder
from pysldl.decoding.readout import LinearReadout

__all__ = ["BlendDecoder", "FeatureNeighborDecoder", "JointNeighborDecoder", "LinearReadout", "NeighborDecoder"]
