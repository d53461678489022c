"""The trial of a data scientist (docs/trial.md): frames in and out, metrics, reports, and interrupted fits."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score

from pysldl import SLDLClassifier, make_sldl
from pysldl.embedding import GaussianLabelEmbedding

pd = pytest.importorskip("pandas", reason="pandas is not installed (it is part of the extra dev)")
pl = pytest.importorskip("polars", reason="polars is not installed (it is part of the extra dev)")


@pytest.fixture(scope="module")
def frame(records):
    return pd.DataFrame(records).set_index("id")


@pytest.fixture(scope="module")
def fitted(frame):
    return make_sldl("fast").fit(frame["text"], frame["labels"])


def test_arrow_tables_of_texts_and_of_numbers(records, fitted):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra arrow)")
    table = pa.table({"text": [r["text"] for r in records], "labels": [r["labels"] for r in records]})
    clf = make_sldl("fast").fit(table.select(["text"]), table["labels"])
    assert clf.predict(table["text"]) == fitted.predict([r["text"] for r in records])
    rng = np.random.default_rng(0)
    numbers = pa.table({"height": rng.random(40), "width": rng.random(40), "depth": rng.random(40)})
    labels = pa.table({"tall": rng.integers(0, 2, 40), "wide": rng.integers(0, 2, 40)})
    clf = make_sldl("fast").fit(numbers, labels)
    assert clf.feature_names_.tolist() == ["height", "width", "depth"]
    assert clf.label_names_.tolist() == ["tall", "wide"]
    with pytest.raises(ValueError, match="columns, of which 'text' holds text"):
        clf.predict(pa.table({"text": ["a"], "other": [1.0], "third": [2.0]}))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_predictions_as_a_frame_of_the_same_library(frame, fitted, library):
    if library == "pandas":
        given = frame["text"].iloc[3:5]
    elif library == "polars":
        given = pl.DataFrame({"text": frame["text"].iloc[3:5].to_list()})
    else:
        given = pytest.importorskip("pyarrow").table({"text": frame["text"].iloc[3:5].to_list()})
    found = fitted.predict_frame(given, k=2)
    assert type(found).__module__.split(".")[0].strip("_") in (library, "pyarrow" if library == "pyarrow" else library)
    assert list(getattr(found, "column_names", None) or found.columns) == ["row", "rank", "label", "score"]
    rows = np.asarray(found["row"]).tolist()
    assert rows == (["r3", "r3", "r4", "r4"] if library == "pandas" else [0, 0, 1, 1])
    names, scores = fitted.predict_topk(given, 2, names=True)
    assert np.asarray(found["label"]).tolist() == names.ravel().tolist()
    np.testing.assert_allclose(np.asarray(found["score"]), scores.ravel())


def test_predictions_as_a_frame_of_plain_lists(fitted):
    found = fitted.predict_frame(["a soup of leek"], k=1, proba=True)
    assert found.columns.tolist() == ["row", "rank", "label", "probability"] and found["label"].tolist() == ["cooking"]
    with pytest.raises(ValueError, match="library must be one of pandas, polars, pyarrow, but is 'spark'"):
        fitted.predict_frame(["a soup"], library="spark")


def test_metrics_of_scikit_learn_take_the_predictions(frame, fitted):
    indicator = fitted.encode(frame["labels"])
    by_columns = make_sldl("fast").fit(frame["text"], indicator)
    assert f1_score(indicator, by_columns.predict(frame["text"]), average="micro") > 0.9
    names = fitted.predict(frame["text"])
    assert f1_score(indicator, fitted.encode(names), average="micro") > 0.9


def test_embeddings_beside_words_in_one_model(frame):
    from sklearn.compose import make_column_transformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import GridSearchCV, KFold
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(0)
    centers = {label: rng.normal(size=6) for label in ("chess", "cooking", "music", "travel")}
    table = frame[["text"]].assign(
        **{f"e{i}": [sum(centers[label][i] for label in labels) for labels in frame["labels"]] for i in range(6)}
    )
    vectors = [f"e{i}" for i in range(6)]
    features = make_column_transformer((TfidfVectorizer(), "text"), ("passthrough", vectors), sparse_threshold=1.0)
    model = make_pipeline(features, make_sldl("fast")).fit(table, frame["labels"])
    unknown_words = table.assign(text="nothing that was seen before")
    labels, _ = model[-1].predict_topk(model[:-1].transform(unknown_words), 1, names=True)
    right = [label in true for label, true in zip(labels[:, 0], frame["labels"], strict=True)]
    assert np.mean(right) > 0.9  # the embeddings alone lead there
    assert sparse.issparse(model[:-1].transform(table))
    weights = [{"tfidfvectorizer": 1.0, "passthrough": weight} for weight in (0.1, 1.0)]
    search = GridSearchCV(model, {"columntransformer__transformer_weights": weights}, cv=KFold(3))
    assert search.fit(table, frame["labels"]).best_score_ > 0.9


@pytest.mark.parametrize("preset", ["paper", "fast", "accurate"])
def test_probabilities_of_a_toy_are_not_zero(preset):
    texts = ["clouds over the sea", "rain from gray clouds", "a clear blue sky", "a cat on a mat"] * 10
    labels = [["cloud", "sea"], ["rain", "cloud"], ["sky"], ["cat"]] * 10
    clf = make_sldl(preset).fit(texts, labels)
    proba = clf.predict_proba(texts[:4])
    assert (proba[clf.encode(labels[:4]).toarray() > 0] > 0.9).all() and (proba > 0).all()


def test_a_notebook_shows_stages_and_metrics(fitted):
    shown = fitted._repr_mimebundle_()["text/html"]
    assert "Fitted SLDLClassifier" in shown and "FeatureNeighborDecoder" in shown
    assert "held-out examples" in shown and "P@1" in shown and "threshold of predict" in shown
    assert "Fitted SLDLClassifier" not in make_sldl("fast")._repr_mimebundle_()["text/html"]


def test_stages_without_steps_are_reported_too(frame, capsys):
    make_sldl("accurate", progress=True).fit(frame["text"], frame["labels"])
    told = capsys.readouterr().err
    assert "decoder: ..." in told and "ranker: ..." in told


def interrupt_when(started):
    started.wait(60)
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt, also where a parent made the process ignore it (a job in the background)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_fit_leaves_the_object_as_it_was():
    rng = np.random.default_rng(0)
    X, Y = rng.random((300, 40)), sparse.csr_array((rng.random((300, 60)) < 0.1).astype(float))
    started = threading.Event()
    embedding = GaussianLabelEmbedding(16, n_steps=10_000_000, tol=None)
    clf = SLDLClassifier(embedding, calibrate=False, progress=lambda report: started.set())
    threading.Thread(target=interrupt_when, args=(started,), daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, Y)
    with pytest.raises(NotFittedError):
        clf.predict_topk(X)
    clf.set_params(embedding__n_steps=2).fit(X, Y)  # it can be fitted again
    before = clf.predict_topk(X[:5])[1]
    started.clear()
    clf.set_params(embedding__n_steps=10_000_000)
    threading.Thread(target=interrupt_when, args=(started,), daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, Y)
    np.testing.assert_array_equal(clf.predict_topk(X[:5])[1], before)  # and stays what it was


def test_a_fit_with_bad_input_keeps_the_earlier_one(frame):
    clf = make_sldl("fast").fit(frame["text"], frame["labels"])
    with pytest.raises(ValueError, match="Row 1 of X is None"):
        clf.fit(["a", None], [["x"], ["y"]])
    assert clf.predict_topk(["a soup of leek"], 1, names=True)[0].item() == "cooking"
