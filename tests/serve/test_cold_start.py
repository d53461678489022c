"""What a service does not wait for before its first answers."""

import subprocess
import sys
from pathlib import Path

import pytest

from pysldl import SLDLClassifier, make_sldl
from pysldl.datasets import SyntheticDataset
from pysldl.decoding import FeatureNeighborDecoder
from pysldl.persistence import save_model
from pysldl.ranking import LinearRanker

# Each takes between a tenth of a second and several seconds to load, and no single row needs it.
SLOW = (
    "numba",
    "sklearn",
    "pandas",
    "scipy.linalg",
    "scipy.stats",
    "matplotlib",
    "torch",
    "pysldl.baselines",
    "pysldl.datasets",
    "pysldl.experiments",
)
SCRIPT = """
import sys
from pathlib import Path
import pysldl.cli
import pysldl.serve.server
from pysldl.serve.schemas import RelationsQuery
from pysldl.persistence import current_version
from pysldl.serve.served_model import open_version
model = open_version(current_version(sys.argv[1]), "model")
model.warm_up()
(found,) = model.predict([sys.argv[2]], 3).predictions
assert len(found.labels) == 3, found
assert len(model.map().x) == len(model.labels)
assert model.relations(RelationsQuery(model.labels[0])).label == model.labels[0]
print(*[name for name in sys.argv[3:] if name in sys.modules])
"""


def test_relations_of_gaussians_wait_for_no_compiler(word_model: Path) -> None:
    script = """
import sys
from pathlib import Path
from pysldl.serve.schemas import RelationsQuery
from pysldl.persistence import current_version
from pysldl.serve.served_model import open_version
model = open_version(current_version(sys.argv[1]), "model")
found = model.relations(RelationsQuery("sky", limit=100))
assert all(one.kl > 0 for one in found.incoming) and found.incoming and model.map().source
print(*[name for name in ("numba", "sklearn") if name in sys.modules])
"""
    command = [sys.executable, "-c", script, str(word_model)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


@pytest.mark.parametrize("ranked", [True, False])
def test_the_first_answer_loads_nothing_slow(world: SyntheticDataset, tmp_path: Path, ranked: bool) -> None:
    """Neither through neighbors by features and a ranker, as large models are made, nor as small ones are."""
    large = SLDLClassifier(decoder=FeatureNeighborDecoder(), ranker=LinearRanker())
    model = (large if ranked else make_sldl("accurate")).fit(
        world.X, world.Y, label_names=world.label_names, feature_names=world.feature_names
    )
    save_model(model, tmp_path / "model")
    text = " ".join(world.feature_names[world.X[[0]].indices])
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "model"), text, *SLOW]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
