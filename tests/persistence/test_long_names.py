"""A name takes the space of its own length, in memory and on the disk."""

import tracemalloc
from pathlib import Path

import numpy as np

from pysldl import SLDLClassifier, load_model
from pysldl.datasets import Dataset, read_npz, write_npz
from pysldl.decoding import NeighborDecoder
from pysldl.embedding import RandomLabelEmbedding
from pysldl.persistence import save_model
from pysldl.preprocessing.labels import name_array

LONG = "x" * 100_000


def test_one_long_feature_name_does_not_lengthen_all_others(tmp_path: Path) -> None:
    names = [LONG, *map(str, range(1999))]  # in an array of a fixed width: 2,000 * 100,000 * 4 bytes = 0.8 GB
    X, Y = np.eye(20, 2000, dtype=np.float32), np.eye(20, 4, dtype=np.float32) + np.eye(20, 4, -4, dtype=np.float32)
    tracemalloc.start()
    model = SLDLClassifier(RandomLabelEmbedding(4), decoder=NeighborDecoder(3), random_state=0).fit(
        X, Y, feature_names=names, label_names=[LONG, "a", "b", "c"]
    )
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    dataset = Dataset("d", X, Y, loaded.label_names_, feature_names=loaded.feature_names_)
    write_npz(dataset, tmp_path / "d.npz")
    again = read_npz(tmp_path / "d.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert loaded.feature_names_.tolist() == names == again.feature_names.tolist()
    assert loaded.predict_topk(X, 1, names=True)[0][0, 0] == LONG
    assert peak < 300e6


def test_names_keep_every_character() -> None:
    assert name_array(["a\0", "猫", "\ud800"]).tolist() == ["a\0", "猫", "\ud800"]
    assert name_array(np.array([["a"], ["b"]])).shape == (2, 1)
