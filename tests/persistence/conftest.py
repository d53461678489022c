"""A small fitted classifier and its folder, shared by the tests of the model folder."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pysldl import SLDLClassifier
from pysldl.decoding import NeighborDecoder
from pysldl.embedding import GaussianLabelEmbedding
from pysldl.persistence import current_version, save_model


def small_data() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    Y = (rng.random((30, 5)) < 0.4).astype(int)
    Y[:5] = np.eye(5)
    X = rng.random((30, 7)) + Y @ rng.random((5, 7))
    return X, Y


@pytest.fixture(scope="session")
def X() -> Any:  # noqa: N802
    return small_data()[0]


@pytest.fixture(scope="session")
def model() -> SLDLClassifier:
    X, Y = small_data()
    classifier = SLDLClassifier(
        GaussianLabelEmbedding(4, n_steps=50), decoder=NeighborDecoder(n_neighbors=5), random_state=0
    )
    return classifier.fit(X, Y, label_names=["sky", "cloud", "Straße", "猫", "день"])


@pytest.fixture
def folder(model: SLDLClassifier, tmp_path: Path) -> Path:
    """A good version of a model, which a test may damage."""
    save_model(model, tmp_path / "model")
    return current_version(tmp_path / "model")
