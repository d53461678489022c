"""Which classes a model folder may be built from, and what is imported to find them."""

import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest

from pysldl.persistence.registry import CLASSES, HOMES, find_class, home_of

PACKAGES = ("estimator", "embedding", "mapping", "decoding", "neighbors", "ranking", "baselines", "preprocessing")
# Nobody makes objects of them.
BASES = {
    *("BaseLabelClassifier", "OnlineLearning", "LabelEmbedding", "TrainedLabelEmbedding", "Decoder", "NeighborIndex"),
    *("TorchClassifier", "LabelSpecificClassifier", "BaselineClassifier", "NormalizingBaseline", "SimilarityDecoder"),
}


def saveable_classes() -> dict[str, type]:
    found = {}
    for package in PACKAGES:
        home = import_module(f"pysldl.{package}")
        for part in pkgutil.walk_packages(home.__path__, f"pysldl.{package}."):
            try:
                module = import_module(part.name)
            except ModuleNotFoundError:  # kernels for a GPU need triton, which is not on every machine
                continue
            for name, cls in vars(module).items():
                if isinstance(cls, type) and cls.__module__ == part.name and hasattr(cls, "_saved_state"):
                    found[name] = cls
    return found


def test_a_class_whose_extra_is_missing_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pysldl.baselines", None)  # as if its import failed
    assert find_class("SLEEC") is None
    assert find_class("NoSuchClass") is None


def test_every_class_with_saved_state_is_in_the_table() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    classes = saveable_classes()
    assert set(HOMES) == set(classes) - BASES
    assert all(find_class(name) is classes[name] for name in HOMES)


@pytest.mark.parametrize("name", ["Popen", "pysldl.SLDLClassifier", "", None, 3, ["SLDLClassifier"], "BaseEstimator"])
def test_other_names_lead_nowhere(name: object) -> None:
    assert home_of(name) is None and find_class(name) is None


@pytest.mark.parametrize("home", ["pysldl.decoding", "pysldl.neighbors", "pysldl.ranking", "pysldl.ranking.centroids"])
def test_finding_a_class_imports_its_package_and_nothing_heavy(home: str) -> None:
    script = """
import sys
from pysldl.persistence.registry import find_class
assert find_class(sys.argv[1]) is not None
heavy = ("sklearn", "numba", "torch", "faiss", "pandas", "pysldl.baselines", "pysldl.embedding", "pysldl.estimator")
print(*[name for name in heavy if name in sys.modules])
"""
    command = [sys.executable, "-c", script, CLASSES[home][0]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
