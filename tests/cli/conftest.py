"""A small world on disk in every format, and models of it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pysldl.cli import run
from pysldl.datasets import make_asymmetric_multilabel, write_npz, write_xc

QUICK = ["--preset", "paper", "--set", "embedding.n_steps=30", "--set", "embedding.n_components=16"]


@pytest.fixture
def refused(sldl):
    """Run ``sldl`` with words that it must refuse in one line; that line."""

    def run_words(*words, stdin=None):
        outcome = sldl(*words, stdin=stdin)
        assert outcome.code == 2, outcome
        assert outcome.out == ""
        errors = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1 and outcome.err.splitlines()[-1] == errors[0], outcome.err
        assert "Traceback" not in outcome.err
        return errors[0]

    return run_words


@pytest.fixture(scope="session")
def world():
    # Without idf, so that every format holds the same features.
    return replace(make_asymmetric_multilabel(240, 80, 20, random_state=1), idf=None)


@pytest.fixture(scope="session")
def files(world, tmp_path_factory):
    """The world as npz (with splits), XC text, JSON lines (with splits) and ARFF, by format."""
    folder = tmp_path_factory.mktemp("world")
    paths = {"npz": folder / "world.npz", "xc": folder / "world.txt", "jsonl": folder / "world.jsonl"}
    paths["arff"] = folder / "world.arff"
    write_npz(world, paths["npz"])
    write_xc(world, paths["xc"])
    part_of = {row: part for part, rows in world.splits.items() for row in rows.tolist()}
    with paths["jsonl"].open("w") as file:
        for row in range(world.n_samples):
            words = [str(word).replace(" ", "_") for word in world.feature_names[world.X[[row]].indices]]
            labels = world.label_names[world.Y[[row]].indices].tolist()
            file.write(json.dumps({"text": " ".join(words), "labels": labels, "split": part_of[row]}) + "\n")
    with paths["arff"].open("w") as file:
        file.write(f"@relation 'world: -C {world.n_labels}'\n")
        file.writelines(f"@attribute '{name}' {{0,1}}\n" for name in world.label_names)
        file.writelines(f"@attribute '{name}' numeric\n" for name in world.feature_names)
        file.write("@data\n")
        table = np.hstack([world.Y.toarray(), world.X.toarray()]).astype(int)
        file.writelines(",".join(map(str, row)) + "\n" for row in table.tolist())
    return paths


@pytest.fixture(scope="session")
def model(files, tmp_path_factory):
    """A model of the npz file."""
    path = tmp_path_factory.mktemp("models") / "npz"
    assert run(["fit", str(files["npz"]), "--model", str(path), *QUICK]) == 0
    return path


@pytest.fixture(scope="session")
def text_model(files, tmp_path_factory):
    """A model of the JSON lines."""
    path = tmp_path_factory.mktemp("models") / "text"
    assert run(["fit", str(files["jsonl"]), "--model", str(path), *QUICK]) == 0
    return path
