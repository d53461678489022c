"""A fit on Dask gives the model folder of a local fit, whatever the blocks; predictions are lazy and the same."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

pytest.importorskip("distributed")

from pysldl import make_sldl
from pysldl.dask import DaskSLDLClassifier, read_parts
from pysldl.datasets import Dataset, make_asymmetric_multilabel, write_parquet
from pysldl.decoding import FeatureNeighborDecoder
from pysldl.exceptions import ClusterError, DataError, MemoryLimitError
from pysldl.persistence import read_manifest, save_model
from pysldl.ranking import LinearRanker

pytestmark = pytest.mark.filterwarnings("ignore::pysldl.exceptions.SLDLWarning", "ignore::DeprecationWarning")

WORDS = [f"word{number}" for number in range(60)]
LARGE = {  # what "accurate" takes for many labels
    "decoder": FeatureNeighborDecoder(n_neighbors=20, n_terms=16, index_terms=50, temperature=None),
    "ranker": LinearRanker(n_candidates=10),
}


@pytest.fixture(scope="module")
def texts():
    """Texts whose words are drawn by Zipf's law, and whose labels follow from them."""
    rng = np.random.RandomState(0)
    share = 1.0 / np.arange(1, len(WORDS) + 1)
    rows = [rng.choice(len(WORDS), 12, p=share / share.sum()) for _ in range(300)]
    labels = [[f"about {word % 20}" for word in sorted(set(row.tolist())) if word % 3 == 0] for row in rows]
    names = sorted({label for row in labels for label in row})
    Y = np.array([[name in row for name in names] for row in labels])
    return Dataset("words", None, Y, names, texts=[" ".join(WORDS[word] for word in row) for row in rows])


def lists(data):
    return [
        data.label_names[data.Y.indices[a:b]].tolist() for a, b in zip(data.Y.indptr, data.Y.indptr[1:], strict=False)
    ]


def content(folder):
    """All of a model folder but when it was written."""
    manifest = read_manifest(folder)
    return manifest.files, manifest.tree


@pytest.mark.parametrize("here_bytes", [0, 20_000, 1 << 26], ids=["on workers", "on both", "passes in the client"])
@pytest.mark.parametrize("preset, settings", [("fast", {}), ("accurate", LARGE)], ids=["fast", "accurate"])
def test_the_model_folder_is_that_of_a_local_fit(client, texts, tmp_path, monkeypatch, preset, settings, here_bytes):
    monkeypatch.setattr("pysldl.dask.workspace.HERE_BYTES", here_bytes)
    save_model(make_sldl(preset, **settings).fit(texts.texts, lists(texts)), tmp_path / "local")
    for number, rows_per_part in enumerate((300, 77)):
        folder = tmp_path / f"parts-{number}"
        write_parquet(texts, folder, rows_per_part=rows_per_part)
        clf = DaskSLDLClassifier(make_sldl(preset, **settings), client).fit(read_parts(folder))
        clf.save(tmp_path / f"model-{number}")
        assert content(tmp_path / f"model-{number}") == content(tmp_path / "local")


def test_short_stages_of_small_data_are_no_work_of_workers(client, texts, tmp_path, monkeypatch):
    for size in ("estimator.predictor.SPARSE_BLOCK", "backend.label_shards.FEWEST_ROWS"):
        monkeypatch.setattr(f"pysldl.{size}", 100)
    write_parquet(texts, tmp_path / "parts", rows_per_part=77)
    heard, kept = [], {}
    for here_bytes in (0, 1 << 26):
        monkeypatch.setattr("pysldl.dask.workspace.HERE_BYTES", here_bytes)
        stages = set()
        heard.append(stages)
        estimator = make_sldl("accurate", **LARGE, progress=lambda report, stages=stages: stages.add(report.stage))
        kept[here_bytes] = DaskSLDLClassifier(estimator, client).fit(read_parts(tmp_path / "parts"))
    short = {"vocabulary", "encoding", "label rows"}
    assert heard[0] >= {"reading", "candidates", "classifiers", *short}
    assert heard[1] >= {"reading", "candidates", "classifiers"} and not heard[1] & {"scaling", "saving", *short}
    files = [read_manifest(clf.model_folder_).files for clf in kept.values()]
    assert files[0] == files[1]


@pytest.mark.parametrize("vectorizer, kind", [("hashing", "HashingVectorizer"), ("auto", "char_wb")])
def test_hashed_and_chosen_features_are_those_of_a_local_fit(client, tmp_path, vectorizer, kind):
    rng = np.random.RandomState(0)
    stems, endings = ("kirja", "talo", "koulu", "laiva", "sauna", "lintu"), ("ssa", "sta", "lla", "lta", "ksi", "tta")
    labels = rng.randint(len(stems), size=400)
    texts = [f"w{rng.randint(9)} {stems[label]}{''.join(rng.choice(endings, 3))}" for label in labels]
    names = [[stems[label]] for label in labels]
    local = make_sldl("fast", vectorizer=vectorizer).fit(texts, names)
    assert kind in (type(local.vectorizer_).__name__, local.vectorizer_.analyzer)
    save_model(local, tmp_path / "local")
    blocks = [slice(0, 90), slice(90, 91), slice(91, 400)]
    far = DaskSLDLClassifier(make_sldl("fast", vectorizer=vectorizer), client)
    far.fit([texts[rows] for rows in blocks], [names[rows] for rows in blocks]).save(tmp_path / "far")
    assert content(tmp_path / "far") == content(tmp_path / "local")
    written = Dataset("texts", None, far.to_local().encode(names), sorted(stems), texts=texts)
    write_parquet(written, tmp_path / "parts", rows_per_part=150)
    again = DaskSLDLClassifier(make_sldl("fast", vectorizer=vectorizer), client).fit(read_parts(tmp_path / "parts"))
    assert content(again.model_folder_) == content(tmp_path / "local")


def test_gaussians_and_ridge_give_the_same_model(client, tmp_path):
    data = make_asymmetric_multilabel(random_state=0).split("train")
    small = make_sldl("paper", embedding__n_components=4, embedding__n_steps=3)
    X = [sparse.csr_array(data.X[rows]) for rows in (slice(0, 500), slice(500, None))]
    local = clone(small).fit(sparse.vstack(X, format="csr"), data.Y)
    far = DaskSLDLClassifier(small, client).fit(X, [data.Y[:500], data.Y[500:]])
    save_model(local, tmp_path / "local")
    far.save(tmp_path / "far")
    assert content(tmp_path / "far") == content(tmp_path / "local")


@pytest.fixture(scope="module")
def fitted(client, texts):
    blocks = [texts.texts[:130], texts.texts[130:]]
    return DaskSLDLClassifier(make_sldl("fast"), client).fit(blocks, [lists(texts)[:130], lists(texts)[130:]])


def test_predictions_are_lazy_and_those_of_the_local_model(client, texts, fitted, tmp_path):
    write_parquet(texts, tmp_path, rows_per_part=90)
    rows = read_parts(tmp_path)
    labels, scores = fitted.predict_topk(rows, 3)
    assert labels.shape == (300, 3) and labels.numblocks == (4, 1)
    labels, scores = (future.result() for future in client.compute([labels, scores]))
    expected = fitted.to_local().predict_topk(texts.texts, 3)
    assert np.array_equal(labels, expected[0]) and np.array_equal(scores, expected[1])
    assert client.compute(fitted.predict(rows)).result() == list(fitted.to_local().predict(texts.texts))
    probabilities = client.compute(fitted.predict_proba(rows)).result()
    assert np.array_equal(probabilities, fitted.to_local().predict_proba(texts.texts))


def test_arrays_frames_and_bags_are_taken(client, texts, fitted):
    import dask

    da, bag = pytest.importorskip("dask.array"), pytest.importorskip("dask.bag")
    expected = fitted.to_local().predict_topk(texts.texts, 2)[0]
    records = bag.from_sequence([{"text": text} for text in texts.texts], npartitions=3)
    assert np.array_equal(client.compute(fitted.predict_topk(records, 2)[0]).result(), expected)
    pandas, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    plain = pandas.DataFrame({"text": texts.texts, "labels": lists(texts)})
    with dask.config.set({"dataframe.convert-string": False}):
        frame = dd.from_pandas(plain, npartitions=2)
        again = DaskSLDLClassifier(make_sldl("fast"), client).fit(frame)
        assert np.array_equal(client.compute(again.predict_topk(frame["text"], 2)[0]).result(), expected)
    with pytest.raises(DataError, match="Dask turns lists into texts"):
        DaskSLDLClassifier(make_sldl("fast"), client).fit(dd.from_pandas(plain, npartitions=2))
    X = fitted.to_local().vectorizer_.transform(texts.texts)
    dense = da.from_array(X.toarray(), chunks=(100, -1))
    of_arrays = DaskSLDLClassifier(make_sldl("fast"), client).fit(
        dense, da.from_array(texts.Y.toarray(), chunks=(100, -1))
    )
    assert of_arrays.predict_topk(dense, 2)[0].compute(scheduler="sync").shape == (300, 2)
    with pytest.raises(DataError, match=r"blocks of columns; rows must be whole: X.rechunk"):
        DaskSLDLClassifier(make_sldl("fast"), client).fit(dense.rechunk((100, 10)), dense)


def test_further_blocks_are_learned(client, texts):
    names = lists(texts)
    clf = DaskSLDLClassifier(make_sldl("fast", online=True), client)
    clf.partial_fit([texts.texts[:200]], [names[:200]]).partial_fit([texts.texts[200:]], [names[200:]])
    local = (
        make_sldl("fast", online=True).fit(texts.texts[:200], names[:200]).partial_fit(texts.texts[200:], names[200:])
    )
    assert clf.to_local().n_samples_ == 300
    assert np.array_equal(clf.to_local().predict_topk(texts.texts, 3)[0], local.predict_topk(texts.texts, 3)[0])


@pytest.mark.parametrize(
    "X, y, said",
    [
        ([["a", "b"], [3, 4]], [[["x"], []], [["x"], []]], "block 1: .*"),
        ([["a", "b"], ["c"]], [[["x"], []], [["x"], []]], "block 1: X has 1 rows, but y has 2"),
        ([["a", "b"], [[1.0]]], [[["x"], []], [["x"]]], "block 1: holds features, but block 0 holds texts"),
        ([["a"], [None]], [[["x"]], [["x"]]], "block 1: "),
        ([["a"]], [[["x"]], [["x"]]], "X has 1 blocks of rows, but y has 2"),
    ],
    ids=["numbers", "lengths", "kinds", "missing", "blocks"],
)
def test_a_wrong_block_is_named(client, X, y, said):
    with pytest.raises(DataError, match=said):
        DaskSLDLClassifier(make_sldl("fast"), client).fit(X, y)


def test_too_little_memory_is_refused_before_the_work(client, texts, monkeypatch):
    monkeypatch.setattr("pysldl.dask.classifier.memory_per_worker", lambda client: 100 << 20)
    with pytest.raises(MemoryLimitError, match=r"needs about .* but a worker has 104.9 MB. Use fewer workers"):
        DaskSLDLClassifier(make_sldl("fast"), client).fit([texts.texts], [lists(texts)])


def test_no_scheduler_is_one_sentence(monkeypatch):
    from pysldl.dask import connect

    monkeypatch.setattr("pysldl.dask.cluster.SECONDS_TO_CONNECT", 0.5)
    nowhere = "tcp://127.0.0.1:9"
    with pytest.raises(ClusterError, match=f"{nowhere}: no Dask scheduler answers there"), connect(nowhere):
        pass


def test_without_dask_the_extra_is_named(monkeypatch):
    from pysldl.dask.cluster import require_dask
    from pysldl.exceptions import MissingDependencyError

    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "pysldl\[dask\]"'):
        require_dask()
