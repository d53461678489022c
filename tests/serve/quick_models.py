"""A model of the small world, fitted in a moment."""

from typing import Any

from pysldl import SLDLClassifier
from pysldl.datasets import SyntheticDataset
from pysldl.embedding import GaussianLabelEmbedding


def fitted(
    world: SyntheticDataset, rows: Any, *, names: bool = True, seed: int = 0, online: bool = False
) -> SLDLClassifier:
    """A quick model of a part of the world."""
    embedding = GaussianLabelEmbedding(n_components=16, n_steps=100, cooccurrence="count")
    classifier = SLDLClassifier(embedding, random_state=seed, online=online)
    part = world.subset(rows)
    return classifier.fit(
        part.X,
        part.Y,
        label_names=part.label_names.tolist(),
        feature_names=part.feature_names.tolist() if names else None,
    )
