"""The one table of methods, and what reads it."""

import pickle

import pytest

from pysldl import baselines
from pysldl.baselines.registry import BASELINES, CONTROLS, METHODS, PRESET_METHODS
from pysldl.estimator.presets import PRESETS
from pysldl.experiments.run.methods import find_methods


def test_presets_are_those_of_make_sldl():
    assert list(PRESET_METHODS) == list(PRESETS)


def test_experiments_know_every_method():
    assert [method.name for method in find_methods(["all"])] == list(METHODS)


def test_ablations_change_what_they_name():
    embeddings = {name: spec().embedding for name, spec in METHODS.items() if spec.kind == "ablation"}
    assert [type(embedding).__name__ for embedding in embeddings.values()] == [
        "VectorLabelEmbedding",
        "VectorLabelEmbedding",
        "GaussianLabelEmbedding",
        "RandomLabelEmbedding",
        "IdentityLabelEmbedding",
        "SVDLabelEmbedding",
    ]
    assert embeddings["without-ge"].directed and not embeddings["without-ge-symmetric"].directed
    assert embeddings["without-ac"].divergence == "js"


def test_methods_can_be_sent_to_another_process():
    spec = pickle.loads(pickle.dumps(METHODS["SLEEC"]))
    assert spec(n_neighbors=7).get_params() == METHODS["SLEEC"](n_neighbors=7).get_params()


def test_every_class_is_public_and_visible():
    names = {spec.path.rpartition(".")[2] for spec in (*BASELINES.values(), *CONTROLS.values())}
    assert {*names, "BASELINES", "CONTROLS"} == set(baselines.__all__)
    assert set(baselines.__all__) <= set(dir(baselines))


@pytest.mark.parametrize("name", [*BASELINES, *CONTROLS])
def test_common_parameters_have_the_same_names_and_are_only_stored(name):
    if name not in ("SLEEC", "AdaC2", *CONTROLS):
        pytest.importorskip("torch")
    given = object()
    common = ("calibrate", "vectorizer", "memory_limit", "progress", "random_state")
    assert all(METHODS[name](**{key: given}).get_params()[key] is given for key in common)
    known = METHODS[name]()
    assert set(known.get_params()) <= set(known._parameter_constraints)
