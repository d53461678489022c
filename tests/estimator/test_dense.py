"""Dense vectors beside texts or sparse features, in one model."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from pysldl import load_model, make_sldl
from pysldl.baselines import FeatureNeighbors
from pysldl.embedding import RandomLabelEmbedding
from pysldl.exceptions import DataError
from pysldl.persistence import current_version, load_predictor
from pysldl.preprocessing.features import as_dense_rows

N_ROWS, N_LABELS, WIDTH = 240, 6, 8


@pytest.fixture(scope="module")
def world():
    """Texts that tell the first half of the labels, and vectors that tell the second."""
    rng = np.random.default_rng(0)
    texts, labels, vectors = [], [], []
    centers = rng.normal(size=(N_LABELS, WIDTH))
    for _ in range(N_ROWS):
        word, place = rng.integers(3), 3 + rng.integers(3)
        noise = " ".join(f"noise{number}" for number in rng.integers(400, size=5))
        texts.append(f"word{word} again{word} {noise}")
        vectors.append(5 * centers[place] + rng.normal(size=WIDTH))
        labels.append([f"label{word}", f"label{place}"])
    return texts, labels, np.array(vectors)


@pytest.fixture(scope="module", params=["fast", "accurate", "paper"])
def fitted(request, world):
    texts, labels, vectors = world
    few = {"embedding": RandomLabelEmbedding(16)} if request.param == "paper" else {}
    if request.param == "accurate":  # as with many features
        few = {"decoder": make_sldl("accurate").decoder.large, "ranker": make_sldl("accurate").ranker.large}
    clf = make_sldl(request.param, online=True, **few)
    return clf.fit(texts[:200], labels[:200], dense=vectors[:200])


def hits(clf, world, **given):
    texts, labels, _ = world
    found, _ = clf.predict_topk(texts[200:], 2, names=True, **given)
    return np.mean([len(set(row) & set(true)) / 2 for row, true in zip(found, labels[200:], strict=True)])


def test_texts_and_vectors_find_more_together(world, fitted):
    texts, labels, vectors = world
    together = hits(fitted, world, dense=vectors[200:])
    assert together > 0.85
    alone = clone(fitted).fit(texts[:200], labels[:200])
    assert hits(alone, world) < together - 0.15
    assert fitted.n_dense_ == WIDTH and alone.n_dense_ == 0
    assert fitted.feature_names_[-1] == "dense 7" and fitted.n_features_in_ == len(fitted.feature_names_)


def test_every_method_takes_them(world, fitted):
    texts, labels, vectors = (part[200:] for part in world)
    names, scores = fitted.predict_topk(texts, 3, names=True, dense=vectors)
    assert fitted.score(texts, labels, dense=vectors) > 0.8
    assert fitted.predict(texts, dense=vectors)[0][0] == names[0, 0]
    assert fitted.predict(texts, threshold=0.0, dense=vectors)[0][0] == names[0, 0]
    assert len(fitted.predict_set(texts, recall=0.5, dense=vectors)) == 40
    assert fitted.predict_scores(texts, 2, dense=vectors).shape == (40, N_LABELS)
    assert fitted.predict_proba(texts, dense=vectors).shape == (40, N_LABELS)
    dense = fitted.decision_function(texts, dense=vectors)
    np.testing.assert_allclose(dense.max(axis=1), scores[:, 0], rtol=1e-5)
    frame = fitted.predict_frame(texts, 1, dense=vectors)
    assert frame["label"].tolist() == names[:, 0].tolist()
    told = fitted.explain(texts[0], str(names[0, 0]), dense=vectors[0], top=50)
    assert told.score == pytest.approx(scores[0, 0], rel=1e-4)
    assert {term.feature.split()[0] for term in told.terms} >= {"dense"} and told.neighbors


def test_the_model_is_saved_with_them(world, fitted, tmp_path):
    texts, _, vectors = (part[200:] for part in world)
    fitted.save(tmp_path / "model")
    expected = fitted.predict_topk(texts, 3, dense=vectors)
    found = load_model(tmp_path / "model").predict_topk(texts, 3, dense=vectors)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
    half = load_predictor(tmp_path / "model")
    words = fitted.vectorizer_.transform(texts)
    np.testing.assert_array_equal(half.predict_topk(words, 3, dense=vectors)[1], expected[1])


def test_rows_are_learned_and_removed_with_them(world, fitted, tmp_path):
    vectors = world[2]
    fitted.save(tmp_path / "model")
    grown = load_model(tmp_path / "model", mmap=False)
    grown.partial_fit(["parrot green"] * 4, [["parrot"]] * 4, dense=-vectors[:4])
    assert grown.n_samples_ == 204 and "parrot" in grown.label_names_
    assert grown.predict_topk(["parrot green"], 5, names=True, dense=-vectors[:1])[0].ravel().tolist().count("parrot")
    assert grown.remove_rows([200, 201]).n_samples_ == 202


def test_what_does_not_fit_is_refused(world, fitted):
    texts, labels, vectors = world
    with pytest.raises(DataError, match=r"pass dense=, of shape \(n_samples, 8\)"):
        fitted.predict_topk(texts[:2])
    with pytest.raises(DataError, match="dense has 3 columns, but the model was fitted with 8"):
        fitted.predict(texts[:2], dense=vectors[:2, :3])
    with pytest.raises(DataError, match="dense has 3 rows, but X has 2"):
        fitted.predict_set(texts[:2], recall=0.9, dense=vectors[:3])
    broken = vectors[:2].copy()
    broken[1, 0] = np.nan
    with pytest.raises(DataError, match="Row 1 of dense holds a number that is not finite"):
        fitted.predict(texts[:2], dense=broken)
    with pytest.raises(DataError, match="one vector of numbers per row"):
        clone(fitted).fit(texts[:2], labels[:2], dense=[[1.0], [1.0, 2.0]])
    with pytest.raises(DataError, match="sparse features belong into X"):
        clone(fitted).fit(texts[:2], labels[:2], dense=sparse.eye_array(2))
    with pytest.raises(DataError, match="shape"):
        clone(fitted).fit(texts[:2], labels[:2], dense=[1.0, 2.0])


def test_a_model_without_them_does_not_take_them(world):
    texts, labels, vectors = world
    clf = make_sldl("fast").fit(texts, labels)
    with pytest.raises(DataError, match="this model was fitted without"):
        clf.predict(texts[:2], dense=vectors[:2])


@pytest.mark.parametrize("form", ["list", "frame", "column", "polars"])
def test_vectors_in_the_forms_people_have_them(world, form):
    vectors = world[2]
    if form in ("frame", "column"):
        pandas = pytest.importorskip("pandas")
        given = pandas.DataFrame(vectors) if form == "frame" else pandas.Series(list(vectors))
    else:
        given = vectors.tolist() if form == "list" else pytest.importorskip("polars").DataFrame(vectors)
    np.testing.assert_array_equal(as_dense_rows(given, N_ROWS), vectors.astype(np.float32))


def test_the_command_and_the_service_refuse_them_in_one_line(fitted, sldl, tmp_path):
    fitted.save(tmp_path / "model")
    told = sldl("predict", tmp_path / "model", stdin=b"word0 again0\n")
    assert told.code == 2 and told.err.count("\n") == 1 and "fitted with dense vectors beside X" in told.err
    served_model = pytest.importorskip("pysldl.serve.served_model", reason="the service needs the extra serve")
    with pytest.raises(DataError, match="tagger: was fitted with dense vectors beside the texts"):
        served_model.open_version(current_version(tmp_path / "model"), "tagger")


def test_baselines_and_plain_features_take_them(world):
    _, labels, vectors = world
    X = np.eye(N_ROWS, 3)
    clf = FeatureNeighbors().fit(X, labels, dense=vectors)
    assert clf.score(X, labels, dense=vectors) > 0.5
    assert make_sldl("fast").fit(sparse.csr_array(X), labels, dense=vectors).n_features_in_ == 3 + WIDTH
