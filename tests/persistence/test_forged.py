"""A folder whose checksums were computed anew after it was changed: refused before a compiled loop sees an array."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from test_damage import edit, refused

from pysldl import SLDLClassifier
from pysldl.decoding import FeatureNeighborDecoder
from pysldl.exceptions import DataError
from pysldl.persistence import current_version, load_model, load_predictor, save_model
from pysldl.ranking import LinearRanker

VERIFY = pytest.mark.parametrize("verify", [True, False])
TEXTS = ["the cat sat on the mat", "ein Hund", "the dog and the cat", "a mat"] * 3
LABELS = [["cat"], ["dog"], ["cat", "dog"], ["mat"]] * 3


@pytest.fixture(scope="module")
def ranked() -> SLDLClassifier:
    """A model of sparse rows, with an inverted index, votes and a linear ranker."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((60, 40), density=0.2, random_state=rng, format="csr", dtype=np.float32)
    Y = (rng.random((60, 6)) < 0.4).astype(int)
    Y[:6] = np.eye(6)
    classifier = SLDLClassifier(None, mapping=None, decoder=FeatureNeighborDecoder(), ranker=LinearRanker(4))
    return classifier.set_params(random_state=0).fit(X, Y)


@pytest.fixture
def version(ranked: SLDLClassifier, tmp_path: Path) -> Path:
    save_model(ranked, tmp_path / "model")
    return current_version(tmp_path / "model")


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    from pysldl.embedding import RandomLabelEmbedding

    model = SLDLClassifier(RandomLabelEmbedding(2), decoder=FeatureNeighborDecoder(3), random_state=0)
    save_model(model.fit(TEXTS, LABELS), tmp_path / "texts")
    return current_version(tmp_path / "texts")


def change_array(version: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Replace an array of the safetensors file by another one."""
    from pysldl.persistence.tensors import read_tensors, write_tensors

    path = version / "arrays.safetensors"
    arrays = read_tensors(path, mapped=False)
    arrays[name] = change(arrays[name].copy())
    with path.open("wb") as stream:
        write_tensors(stream, arrays)
    edit(version, lambda content: None)


def at(index: int, value: Any) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array[index] = value
        return array

    return change


FORGED: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "index beyond the matrix": ("decoder_.Y_.gaps", at(0, 127), "can build"),
    "too few indices": ("decoder_.index_.postings_.gaps", lambda a: a[:-1], "can build"),
    "pointers that fall": ("ranker_.W_.indptr", at(2, 10**6), "can build|belong to no row"),
    "too few pointers": ("ranker_.W_.indptr", lambda a: a[:-1], "other arrays than its shape"),
    "label that is none": ("ranker_.frequent_", at(0, 6), "'frequent_' of LinearRanker"),
    "other type": ("ranker_.bias_", lambda a: a.astype(np.int64), "'bias_' of LinearRanker must be"),
    "not finite": ("ranker_.bias_", at(0, np.nan), "not finite"),
    "too few counts": ("label_counts_", lambda a: a[:-1], "'label_counts_'.*5 labels.*6"),
    "two dimensions": ("label_counts_", lambda a: a.reshape(1, -1), "1 dimensions, but has 2"),
    "floats for indices": ("decoder_.Y_.gaps", lambda a: a.astype(np.float64), "can build"),
    "curve that falls": ("calibration_.scores_", lambda a: -a[::-1] if len(a) < 2 else a[::-1], "must ascend"),
}


@VERIFY
@pytest.mark.parametrize("case", FORGED)
def test_a_forged_array_is_refused(case: str, verify: bool, version: Path) -> None:
    name, change, message = FORGED[case]
    change_array(version, name, change)
    refused(version, message, verify=verify)


def set_shape(tree: dict[str, Any]) -> None:
    tree["state"]["decoder_"]["state"]["Y_"]["shape"][0] = 10**12


def set_scalar(tree: dict[str, Any]) -> None:
    tree["state"]["n_samples_"] = {"kind": "scalar", "dtype": "int8", "value": 300}


def set_state(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(tree: dict[str, Any]) -> None:
        tree["state"]["decoder_"]["state"][name] = value

    return change


TREES: dict[str, Callable[[dict[str, Any]], None]] = {
    "a matrix of 10^12 rows": set_shape,
    "a scalar beyond its type": set_scalar,
    "more neighbors than rows": set_state("n_neighbors_", 10**9),
    "no neighbors": set_state("n_neighbors_", 0),
    "a temperature that is none": set_state("temperature_", {"kind": "float", "value": "nan"}),
    "a text for a number": set_state("temperature_", "warm"),
    "an index that is none": set_state("index_", None),
    "a decoder that is none": lambda tree: tree["state"].update(decoder_=3),
    "no decoder": lambda tree: tree["state"].pop("decoder_"),
    "a limit of postings that is none": lambda tree: tree["state"]["decoder_"]["state"]["index_"]["params"].update(
        max_postings="many"
    ),
    "no means of the features": lambda tree: tree["state"].pop("feature_means_"),
    "no reranker": lambda tree: tree["state"].pop("reranker_"),
    "no calibration": lambda tree: tree["state"].pop("calibration_"),
    "other features": lambda tree: tree["state"].update(n_features_in_=41),
    "another class": lambda tree: tree["state"].update(decoder_=tree["state"]["ranker_"]),
}


@VERIFY
@pytest.mark.parametrize("case", TREES)
def test_a_forged_tree_is_refused(case: str, verify: bool, version: Path) -> None:
    edit(version, lambda content: TREES[case](content["model"]))
    refused(version, "can build|can answer|other arrays", verify=verify)


def one_number(state: dict[str, Any]) -> None:
    state["mapping_"]["state"]["one_dimensional_"] = True


@VERIFY
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda state: state.update(mapping_=None), "works on codes, but no mapping"),
        (one_number, "decoders take vectors"),
    ],
    ids=["no mapping", "a number a row"],
)
def test_a_decoder_of_codes_needs_a_mapping(
    change: Callable[[dict[str, Any]], None], said: str, verify: bool, tmp_path: Path
) -> None:
    from pysldl.embedding import RandomLabelEmbedding

    rng = np.random.default_rng(0)
    X, Y = rng.random((40, 5)), np.eye(4, dtype=int)[np.arange(40) % 4]
    save_model(SLDLClassifier(RandomLabelEmbedding(2), random_state=0).fit(X, Y), tmp_path / "model")
    version = current_version(tmp_path / "model")
    edit(version, lambda content: change(content["model"]["state"]))
    refused(version, said, verify=verify)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("input", "filename"),
        ("input", "file"),
        ("token_pattern", r"(a+)+$"),
        ("token_pattern", r"(a|aa)+$"),
        ("token_pattern", r"\w*\w*\w*x"),
        ("token_pattern", r"(?u)\b(\w+)\1"),
        ("token_pattern", "(" * 500),
        ("token_pattern", "a*b"),
        ("encoding", "klingon"),
        ("ngram_range", {"kind": "tuple", "items": [1, 10**6]}),
        ("analyzer", "shell"),
        ("tokenizer", "os.system"),
        ("surprise", 1),
    ],
)
def test_a_vectorizer_has_only_parameters_that_are_allowed(parameter: str, value: Any, texts: Path) -> None:
    edit(texts, lambda content: content["model"]["state"]["vectorizer_"]["params"].update({parameter: value}))
    refused(texts, "can build|vectorizer")


def test_the_terms_of_a_vectorizer_are_its_features(texts: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        content["model"]["state"]["vectorizer_"]["state"]["vocabulary_"] = ["a", "b"]

    edit(texts, change)
    refused(texts, "can build|idf|terms")


def test_a_pattern_that_cannot_be_loaded_is_not_saved(tmp_path: Path) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    from pysldl.embedding import RandomLabelEmbedding

    vectorizer = TfidfVectorizer(token_pattern=r"(\w+\s?)+")
    model = SLDLClassifier(
        RandomLabelEmbedding(2), decoder=FeatureNeighborDecoder(3), vectorizer=vectorizer, random_state=0
    ).fit(TEXTS, LABELS)
    with pytest.raises(DataError, match=r"token_pattern.*without end only once"):
        save_model(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_files_of_names_hold_lists_of_texts(folder: Path) -> None:
    (folder / "labels.json").write_text(json.dumps({"label_names_": [["a"], ["b"], ["c"], ["d"], ["e"]]}))
    edit(folder, lambda content: None)
    refused(folder, "lists of texts")


def test_a_parameter_that_is_not_there_has_its_default_in_the_predicting_half_too(version: Path) -> None:
    edit(version, lambda content: content["model"]["params"].pop("device"))
    rows = sparse.csr_array(np.eye(3, 40, dtype=np.float32))
    answers = [load(version).predict_topk(rows, 3)[0] for load in (load_model, load_predictor)]
    np.testing.assert_array_equal(*answers)


def test_a_limit_of_postings_may_be_very_large(ranked: SLDLClassifier, tmp_path: Path) -> None:
    """Few features of many rows have a limit of their product, which is beyond 32 bits."""
    model = copy.deepcopy(ranked)
    model.decoder_.index_.max_postings = 2**40
    save_model(model, tmp_path / "large")
    assert load_model(tmp_path / "large").decoder_.index_.max_postings == 2**40
