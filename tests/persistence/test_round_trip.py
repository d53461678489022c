"""What is saved comes back: every stage, the classifier, and trees of every kind of value."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from pysldl import SLDLClassifier, make_sldl
from pysldl.baselines import CONTROLS
from pysldl.decoding import BlendDecoder, LinearReadout, NeighborDecoder
from pysldl.embedding import (
    GaussianLabelEmbedding,
    IdentityLabelEmbedding,
    RandomLabelEmbedding,
    SVDLabelEmbedding,
    VectorLabelEmbedding,
)
from pysldl.exceptions import DataError
from pysldl.mapping import RidgeMapping
from pysldl.persistence import (
    FORMAT_VERSION,
    current_version,
    load_model,
    read_manifest,
    register_saveable,
    registry,
    save_model,
)

TEXTS = ["the cat sat on the mat", "ein großer Hund", "the dog and the cat", "кот и собака", "a mat"]


class Box(BaseEstimator):
    """An estimator that holds anything."""

    _saved_state = ("value_", "other_")

    def __init__(self, setting: Any = None, random_state: Any = None, callback: Any = None) -> None:
        self.setting = setting
        self.random_state = random_state
        self.callback = callback

    def fit(self, value: Any) -> "Box":
        self.value_ = value
        return self


@pytest.fixture(autouse=True)
def _box_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    register_saveable(Box)


def reloaded(model: Any, folder: Path, **options: Any) -> Any:
    save_model(model, folder / "model", overwrite=True)
    return load_model(folder / "model", **options)


def assert_same(found: Any, expected: Any) -> None:
    """Equal in type and value, NaN equal to NaN, arrays bit for bit and in the same memory order."""
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        assert found.dtype == (object if expected.dtype.kind == "U" else expected.dtype)  # texts have no fixed width
        assert found.shape == expected.shape
        if found.dtype == object:
            assert found.tolist() == expected.tolist()
        else:
            assert found.tobytes(order="A") == expected.tobytes(order="A")
        assert found.flags.f_contiguous == expected.flags.f_contiguous or not expected.flags.forc
    elif sparse.issparse(expected):
        assert found.shape == expected.shape
        for part in ("data", "indices", "indptr"):
            assert_same(getattr(found, part), getattr(expected, part))
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        assert_same(list(found.values()), list(expected.values()))
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif hasattr(expected, "_saved_state"):
        assert_same(found.get_params(deep=False), expected.get_params(deep=False))
        for name in expected._saved_state:
            assert hasattr(found, name) == hasattr(expected, name)
            assert_same(getattr(found, name, None), getattr(expected, name, None))
    elif isinstance(expected, (float, np.floating)):
        assert found == expected or (np.isnan(found) and np.isnan(expected))
        assert math.copysign(1, found) == math.copysign(1, expected) or np.isnan(expected)
    else:
        assert found == expected


EMBEDDINGS = [
    GaussianLabelEmbedding(4, n_steps=20, random_state=0),
    VectorLabelEmbedding(4, n_steps=20, random_state=0),
    RandomLabelEmbedding(4, random_state=0),
    SVDLabelEmbedding(3, random_state=0),
    IdentityLabelEmbedding(),
]


@pytest.mark.parametrize("embedding", EMBEDDINGS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("mmap", [True, False])
def test_embeddings(embedding: Any, mmap: bool, tmp_path: Path) -> None:
    Y = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 1, 0]])
    fitted = clone(embedding).fit(Y)
    found = reloaded(fitted, tmp_path, mmap=mmap)
    assert_same(found, fitted)
    assert_same(found.transform(Y), fitted.transform(Y))


@pytest.mark.parametrize("options", [{}, {"fit_intercept": True}, {"solver": "cg"}, {"positive": True}], ids=str)
def test_mapping(options: dict[str, Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, Z = rng.random((20, 6)), rng.random((20, 3))
    fitted = RidgeMapping(random_state=0, **options).fit(X, Z)
    found = reloaded(fitted, tmp_path)
    assert_same(found, fitted)
    assert_same(found.predict(X), fitted.predict(X))


@pytest.mark.parametrize(
    "decoder",
    [NeighborDecoder(3), LinearReadout(), BlendDecoder(), BlendDecoder(NeighborDecoder(2), weight=0.25)],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:n_neighbors")
def test_decoders(decoder: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(12, 4)).astype(np.float32)
    Y = sparse.csr_array((rng.random((12, 5)) < 0.4).astype(np.float32))
    fitted = clone(decoder).fit(Z, Y)
    found = reloaded(fitted, tmp_path)
    assert_same(found, fitted)
    assert_same(found.scores(Z), fitted.scores(Z))


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("verify", [True, False])
def test_classifier(model: SLDLClassifier, X: Any, mmap: bool, verify: bool, tmp_path: Path) -> None:
    found = reloaded(model, tmp_path, mmap=mmap, verify=verify)
    assert_same(found, model)
    for queries in (X, sparse.csr_array(X)):
        assert_same(found.decision_function(queries), model.decision_function(queries))
        assert_same(found.predict_topk(queries, 3, names=True), model.predict_topk(queries, 3, names=True))
        assert_same(found.predict_proba(queries), model.predict_proba(queries))
        assert_same(found.predict(queries), model.predict(queries))
    assert str(found.explain(X[0], "Straße")) == str(model.explain(X[0], "Straße"))
    assert found.label_relations() == model.label_relations()
    assert found.embedding_.components_.flags.writeable  # mapped or not: compiled loops take one type


@pytest.mark.parametrize("preset", ["paper", "official", "blend"])
@pytest.mark.filterwarnings("ignore::pysldl.exceptions.SLDLWarning")
def test_presets(preset: str, X: Any, tmp_path: Path) -> None:
    labels = [["sky", "cloud"] if row.sum() > 5 else ["sky"] for row in X]
    labels[0] = []
    model = make_sldl(preset, embedding__n_components=3, embedding__n_steps=5).fit(X, labels)
    found = reloaded(model, tmp_path)
    assert_same(found.decision_function(X), model.decision_function(X))
    assert found.predict(X) == model.predict(X)


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.filterwarnings("ignore::pysldl.exceptions.SLDLWarning")
def test_controls(control: str, X: Any, tmp_path: Path) -> None:
    model = CONTROLS[control]().fit(X, [["sky", "cloud"] if row.sum() > 5 else ["sky"] for row in X])
    assert_same(reloaded(model, tmp_path).decision_function(X), model.decision_function(X))


@pytest.mark.filterwarnings("ignore::pysldl.exceptions.SLDLWarning")
def test_a_classifier_of_classes_keeps_their_type(X: Any, tmp_path: Path) -> None:
    classes = np.arange(len(X)) % 3 + 10
    model = SLDLClassifier(GaussianLabelEmbedding(2, n_steps=5), random_state=0).fit(X, classes)
    assert_same(reloaded(model, tmp_path).predict(X), model.predict(X))


@pytest.mark.filterwarnings("ignore::pysldl.exceptions.SLDLWarning")
def test_a_classifier_of_texts(tmp_path: Path) -> None:
    labels = [["cat"], ["dog"], ["cat", "dog"], ["cat", "dog"], []]
    model = SLDLClassifier(GaussianLabelEmbedding(2, n_steps=5), random_state=0).fit(TEXTS, labels)
    found = reloaded(model, tmp_path)
    queries = ["a cat", "собака", ""]
    assert_same(found.decision_function(queries), model.decision_function(queries))
    assert_same(found.feature_names_, model.feature_names_)


@pytest.mark.parametrize(
    "vectorizer",
    [
        TfidfVectorizer(),
        TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), dtype=np.float32, max_features=5),
        TfidfVectorizer(use_idf=False, norm=None),
        TfidfVectorizer(vocabulary=["cat", "dog"], stop_words=["the"]),
        TfidfVectorizer(vocabulary={"cat": 1, "dog": 0}, use_idf=False),
        CountVectorizer(binary=True, analyzer="char", lowercase=False),
    ],
    ids=str,
)
def test_vectorizers(vectorizer: Any, tmp_path: Path) -> None:
    vectorizer = clone(vectorizer)
    empty = reloaded(Box(vectorizer).fit(1), tmp_path).setting
    assert_same(empty.get_params(), vectorizer.get_params())
    assert not hasattr(empty, "vocabulary_")

    vectorizer.fit(TEXTS)
    found = reloaded(Box().fit(vectorizer), tmp_path).value_
    assert_same(found.get_params(), vectorizer.get_params())
    assert found.vocabulary_ == vectorizer.vocabulary_
    assert found.fixed_vocabulary_ == vectorizer.fixed_vocabulary_
    expected, transformed = vectorizer.transform(TEXTS), found.transform(TEXTS)
    assert (transformed.toarray() == expected.toarray()).all()
    assert transformed.dtype == expected.dtype


def shout(text: str) -> str:
    return text.upper()


def test_a_function_in_a_vectorizer_is_refused(tmp_path: Path) -> None:
    vectorizer = TfidfVectorizer(preprocessor=shout).fit(TEXTS)
    with pytest.raises(DataError, match=r"value_\.preprocessor is a function"):
        save_model(Box().fit(vectorizer), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


# Text without NUL at its end, which NumPy's own strings lose.
texts = st.text(max_size=6).filter(lambda text: not text.endswith("\0"))
dtypes = st.sampled_from(["?", "i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8", "c8"])
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
numbers = dtypes.flatmap(lambda dtype: hnp.arrays(dtype, shapes))
matrices = st.builds(
    lambda dense, container: container(dense),
    hnp.arrays("f4", hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=4)),
    st.sampled_from([sparse.csr_array, sparse.csr_matrix]),
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    texts,
    numbers,
    numbers.map(np.asfortranarray),
    hnp.arrays(hnp.unicode_string_dtypes(endianness="=", max_len=5), shapes),
    st.lists(texts, max_size=3).map(lambda names: np.array(names, dtype=object)),
    st.sampled_from([np.dtype(code) for code in ("?", "i2", "u4", "f2", "f4", "f8")]).flatmap(hnp.from_dtype),
    texts.map(np.str_),
    matrices,
    st.lists(st.floats(), min_size=33, max_size=40),
    st.lists(texts, min_size=33, max_size=40),
    st.lists(st.integers(), min_size=33, max_size=40),
)
keys = st.one_of(texts, st.integers(), st.booleans(), st.tuples(texts, st.integers()))
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
        st.builds(lambda setting, value: Box(setting).fit(value), inner, inner),
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(setting=trees, value=trees, mmap=st.booleans())
def test_any_tree(setting: Any, value: Any, mmap: bool, tmp_path: Path) -> None:
    box = Box(setting).fit(value)
    assert_same(reloaded(box, tmp_path, mmap=mmap), box)


def test_wide_indices_stay_wide(tmp_path: Path) -> None:
    matrix = sparse.csr_array(np.eye(3))
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    assert_same(reloaded(Box().fit(matrix), tmp_path).value_, matrix)


def test_a_shared_array_is_stored_once(tmp_path: Path) -> None:
    shared = np.zeros(10_000)
    reloaded(Box(shared).fit([shared, {"again": shared}]), tmp_path)
    assert read_manifest(tmp_path / "model").n_bytes < 1.5 * shared.nbytes


def test_generators_and_callbacks_come_back_as_none(tmp_path: Path) -> None:
    box = Box([1], np.random.RandomState(0), print).fit(1)
    found = reloaded(box, tmp_path)
    assert found.get_params() == {"setting": [1], "random_state": None, "callback": None}
    params = read_manifest(tmp_path / "model").tree["params"]
    assert params["random_state"] == {"kind": "dropped", "was": "RandomState"}
    assert params["callback"] == {"kind": "dropped", "was": "print"}


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        1j,
        np.zeros(2, complex),
        np.array([object()]),
        np.ma.array([1.0]),
        np.datetime64("2020-01-01"),
        sparse.csc_array(np.eye(2)),
        np.random.RandomState(0),
        DictVectorizer(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_place_is_named_and_refused(value: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"value_\.1|DictVectorizer cannot be saved"):
        save_model(Box().fit([0, value]), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_foreign_classes_are_refused(tmp_path: Path) -> None:
    class Box(BaseEstimator):
        _saved_state = ("value_",)

    impostor = Box()
    impostor.value_ = 1
    with pytest.raises(DataError, match="not a class of the library"):
        save_model(impostor, tmp_path / "model")
    with pytest.raises(DataError, match="another class has that name"):
        register_saveable(Box)
    with pytest.raises(DataError, match="must be an estimator"):
        register_saveable(dict)


def test_an_unfitted_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        save_model(SLDLClassifier(), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_manifest(model: SLDLClassifier, tmp_path: Path) -> None:
    save_model(model, tmp_path / "model", extra={"data": "toy", "P@1": 0.5, 1: (2, 10), 10: None})
    manifest = read_manifest(tmp_path / "model")
    assert manifest.format_version == FORMAT_VERSION
    assert (manifest.model_class, manifest.n_labels, manifest.n_features) == ("SLDLClassifier", 5, 7)
    assert manifest.extra == {"data": "toy", "P@1": 0.5, "1": [2, 10], "10": None}
    assert manifest.parameters["decoder"]["class"] == "NeighborDecoder"
    assert manifest.parameters["decoder"]["n_neighbors"] == 5
    assert set(manifest.files) == {"arrays.safetensors", "labels.json"}
    version = current_version(tmp_path / "model")
    sizes = {path.name: path.stat().st_size for path in version.iterdir()}
    assert manifest.n_bytes == sum(sizes.values()) - sizes["manifest.json"]
    assert "Straße" in (version / "labels.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("extra", [{"a": object()}, {"a": math.nan}], ids=["object", "nan"])
def test_extra_that_json_cannot_hold(extra: Any, model: SLDLClassifier, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="extra"):
        save_model(model, tmp_path / "model", extra=extra)
    assert list(tmp_path.iterdir()) == []


def test_parameters_for_people(tmp_path: Path) -> None:
    setting = [(1, math.inf), {"a": np.float32(2)}, np.zeros(2), np.float32, TfidfVectorizer()]
    save_model(Box(setting, callback=print).fit(1), tmp_path / "model")
    parameters = read_manifest(tmp_path / "model").parameters
    assert parameters["callback"] is None
    pair, mapping, array, dtype, vectorizer = parameters["setting"]
    assert (pair, mapping, array, dtype) == ([1, "inf"], {"a": 2.0}, "array setting.2", "float32")
    assert vectorizer["class"] == "TfidfVectorizer"
