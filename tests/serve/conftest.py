"""Small models on disk, and a real `sldl serve` process for each."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from quick_models import fitted
from service_process import Service

from pysldl import SLDLClassifier
from pysldl.datasets import SyntheticDataset, make_asymmetric_multilabel
from pysldl.embedding import GaussianLabelEmbedding
from pysldl.persistence import save_model


@pytest.fixture(scope="session")
def world() -> SyntheticDataset:
    return replace(make_asymmetric_multilabel(400, 240, 40, random_state=1), idf=None)


@pytest.fixture(scope="session")
def word_model(world: SyntheticDataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Term counts with feature names: takes texts and vectors."""
    path = tmp_path_factory.mktemp("models") / "words"
    save_model(fitted(world, range(400)), path, extra={"data": "world", "features": "raw", "n_samples": 400})
    return path


@pytest.fixture(scope="session")
def vector_model(world: SyntheticDataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Features without names: takes vectors only."""
    path = tmp_path_factory.mktemp("models") / "vectors"
    save_model(fitted(world, range(200), names=False), path)
    return path


@pytest.fixture(scope="session")
def text_model(world: SyntheticDataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fitted on texts: takes texts only."""
    path = tmp_path_factory.mktemp("models") / "texts"
    texts = [" ".join(world.feature_names[world.X[[row]].indices]) for row in range(200)]
    labels = [world.label_names[world.Y[[row]].indices].tolist() for row in range(200)]
    embedding = GaussianLabelEmbedding(n_components=16, n_steps=50)
    save_model(SLDLClassifier(embedding, random_state=0).fit(texts, labels), path)
    return path


@pytest.fixture(scope="session")
def serve_long() -> Iterator[Callable[..., Service]]:
    """Start a service that many tests share; it is stopped at the end of all tests."""
    yield from _starting()


@pytest.fixture
def serve() -> Iterator[Callable[..., Service]]:
    """Start a service; it is stopped at the end of the test."""
    yield from _starting()


def _starting() -> Iterator[Callable[..., Service]]:
    started: list[Service] = []

    def start(model: Path, *words: str, **environment: str) -> Service:
        started.append(Service(model, *words, **environment))
        return started[-1]

    yield start
    for service in started:
        service.process.terminate()
    for service in started:
        service.stop()


@pytest.fixture(scope="session")
def service(serve_long: Callable[..., Service], word_model: Path) -> Service:
    """Two workers with a model of words."""
    return serve_long(word_model, "--workers", "2")


@pytest.fixture(scope="session")
def vector_service(serve_long: Callable[..., Service], vector_model: Path) -> Service:
    return serve_long(vector_model, "--workers", "1")


@pytest.fixture(scope="session")
def guarded_service(
    serve_long: Callable[..., Service], word_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Service:
    """One that wants the token open-sesame."""
    file = tmp_path_factory.mktemp("secrets") / "token"
    file.write_text("open-sesame\n")
    return serve_long(word_model, "--workers", "1", "--token-file", str(file))


@pytest.fixture(scope="session")
def strict_service(serve_long: Callable[..., Service], word_model: Path) -> Service:
    """One that waits only a second for its clients, and takes and gives little."""
    limits = ("--max-body", "2 kB", "--max-rows", "3", "--max-k", "7")
    return serve_long(word_model, "--workers", "1", "--read-timeout", "1", *limits)
