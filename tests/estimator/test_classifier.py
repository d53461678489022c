"""The estimator as people use it: forms of labels, top-k, thresholds, probabilities, reasons, memory."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from pysldl import SLDLClassifier, make_sldl
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.decoding import BlendDecoder, FeatureNeighborDecoder, LinearReadout, NeighborDecoder
from pysldl.embedding import GaussianLabelEmbedding, RandomLabelEmbedding
from pysldl.exceptions import DataError, MemoryLimitError, SLDLWarning
from pysldl.metrics import evaluate
from pysldl.ranking import LinearRanker


def small(**overrides):
    return make_sldl(
        "paper", embedding__n_components=16, embedding__n_steps=100, embedding__cooccurrence="count", **overrides
    )


@pytest.fixture(scope="module")
def data():
    return make_asymmetric_multilabel(random_state=0)


@pytest.fixture(scope="module")
def train(data):
    return data.split("train")


@pytest.fixture(scope="module")
def test(data):
    return data.split("test")


@pytest.fixture(scope="module")
def fitted(train):
    return small(calibrate=True).fit(train.X, train.Y, label_names=train.label_names, feature_names=train.feature_names)


DECODERS = {"votes": NeighborDecoder(20), "readout": LinearReadout(), "blend": BlendDecoder()}


@pytest.fixture(scope="module", params=DECODERS)
def decoded(request, train):
    clf = SLDLClassifier(RandomLabelEmbedding(64), decoder=DECODERS[request.param], random_state=0)
    return clf.fit(train.X, train.Y, label_names=train.label_names)


def test_beats_the_label_prior_by_far(fitted, train, test):
    labels, _ = fitted.predict_topk(test.X, 3)
    prior = np.tile(np.argsort(-fitted.label_counts_, kind="stable")[:3], (test.X.shape[0], 1))
    ours, chance = (evaluate(test.Y, found, ks=(3,))["nDCG@3"] for found in (labels, prior))
    assert ours > chance + 0.2


def test_topk_scores_and_decision_function_agree(decoded, test):
    labels, scores = decoded.predict_topk(test.X[:20], 4)
    dense = decoded.decision_function(test.X[:20])
    stored = decoded.predict_scores(test.X[:20], top=4)
    for row in range(20):
        kept = labels[row] >= 0
        np.testing.assert_allclose(dense[row, labels[row, kept]], scores[row, kept], rtol=1e-6)
        assert sorted(labels[row, kept]) == stored[[row]].indices.tolist()
    assert (np.diff(scores, axis=1) <= 0).all()


def test_a_row_alone_gets_what_it_gets_in_a_batch(decoded, test):
    together = decoded.decision_function(test.X[:10])
    alone = np.vstack([decoded.decision_function(test.X[[row]]) for row in range(10)])
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-6)


def test_same_seed_same_model(train, test):
    first, second = (small().fit(train.X, train.Y).decision_function(test.X) for _ in range(2))
    assert (first == second).all()


def test_names_in_names_out(train, test):
    rows = [train.label_names[train.Y[[i]].indices].tolist() for i in range(train.X.shape[0])]
    clf = small().fit(train.X, rows)
    assert set(clf.label_names_) <= set(train.label_names)
    labels, _ = clf.predict_topk(test.X[:5], 3, names=True)
    assert set(labels.ravel()) <= set(train.label_names)
    predicted = clf.predict(test.X[:5])
    assert all(isinstance(name, str) for row in predicted for name in row)
    assert clf.score(test.X, [[str(labels[0, 0])]] * test.X.shape[0]) >= 0


def test_columns_of_a_data_frame_name_labels_and_features(train, test):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(train.X.toarray(), columns=train.feature_names)
    Y = pandas.DataFrame(train.Y.toarray().astype(int), columns=train.label_names)
    clf = small().fit(X, Y)
    assert clf.label_names_.tolist() == train.label_names.tolist()
    assert clf.feature_names_.tolist() == train.feature_names.tolist()


def test_texts_in_labels_out():
    texts = ["clouds in the sky", "rain from the sky", "a cat on a mat", "the cat sleeps"] * 5
    labels = [["cloud", "sky"], ["rain", "sky"], ["cat"], ["cat"]] * 5
    clf = small(decoder__n_neighbors=10).fit(texts, labels)
    best, _ = clf.predict_topk(["a sleeping cat", "the sky"], 1, names=True)
    assert best.ravel().tolist() == ["cat", "sky"]
    assert "cat" in str(clf.explain("a sleeping cat", "cat"))
    with pytest.raises(DataError, match="pass a matrix"):
        small(decoder__n_neighbors=10).fit(np.eye(20), labels).predict_topk(["a text"])


def test_threshold_learned_on_left_out_rows_carries_over(decoded, test):
    predicted = decoded.predict(test.X)
    hits = predicted.multiply(test.Y).sum()
    f1 = 2 * hits / (predicted.nnz + test.Y.nnz)
    assert f1 == pytest.approx(decoded.calibration_.held_out_f1_, abs=0.07)


def test_probabilities_are_calibrated(decoded, test):
    labels, probability = decoded.predict_topk(test.X, 5, proba=True)
    hit = np.take_along_axis(test.Y.toarray(), labels, axis=1)
    for low, high in ((0.1, 0.4), (0.4, 0.7), (0.7, 1.0)):
        inside = (probability >= low) & (probability < high)
        assert hit[inside].mean() == pytest.approx(probability[inside].mean(), abs=0.12)
    everywhere = decoded.predict_proba(test.X)
    assert everywhere.sum() == pytest.approx(test.Y.nnz, rel=0.15)


@pytest.mark.parametrize("form", ["indicator", "names"])
@pytest.mark.parametrize("decoder", [NeighborDecoder(10), LinearReadout()], ids=["sparse", "dense"])
def test_predict_has_no_limit_of_labels_a_row(form, decoder):
    """150 labels apply to every row, and the rows are scored in many blocks."""
    rng = np.random.default_rng(0)
    X, Y = rng.random((40, 8)), np.hstack([np.ones((40, 150)), rng.random((40, 20)) < 0.1])
    Y[:, -20:] = np.eye(40, 20)
    names = np.array([f"label {column:03}" for column in range(170)])
    y = Y if form == "indicator" else [names[row > 0].tolist() for row in Y]
    clf = SLDLClassifier(RandomLabelEmbedding(8), decoder=decoder, random_state=0).fit(X, y)
    expected = clf.decision_function(X) >= clf.calibration_.threshold_
    assert expected.sum(axis=1).min() >= 150
    clf._rows_at_once = lambda: 7
    found = clf.predict(X)
    if form == "indicator":
        np.testing.assert_array_equal(found.toarray() > 0, expected)
    else:
        assert [sorted(row) for row in found] == [clf.label_names_[row].tolist() for row in expected]
        best, _ = clf.predict_topk(X, 3, names=True)
        assert [row[:3] for row in found] == best.tolist()


def test_codes_are_those_of_the_mapping(decoded, train, test):
    codes = decoded.transform(test.X)
    assert codes.shape == (test.X.shape[0], 64)
    np.testing.assert_allclose(codes[:5], decoded.transform(test.X[:5]), rtol=1e-6)
    assert not hasattr(make_sldl("fast"), "transform")
    with pytest.raises(DataError, match="This SLDLClassifier has no transform: it works on the features"):
        make_sldl("fast").fit(train.X, train.Y).transform(test.X)
    first = clone(decoded).set_params(calibrate=False).fit_transform(train.X, train.Y)
    np.testing.assert_array_equal(first, decoded.transform(train.X))


def test_parts_of_an_explanation_make_up_the_score(decoded, train, test):
    label = int(decoded.predict_topk(test.X[:1], 1)[0][0, 0])
    told = decoded.explain(test.X[[0]], label)
    assert sum(part.value for part in told.parts) == pytest.approx(told.score, rel=1e-4)
    assert f"score = {told.parts[0].value:.3g} ({told.parts[0].name})" in str(told)
    empty = decoded.explain(sparse.csr_array((1, test.X.shape[1])), label)
    assert sum(part.value for part in empty.parts) == pytest.approx(empty.score, abs=1e-6)
    ranked = SLDLClassifier(decoder=FeatureNeighborDecoder(20), ranker=LinearRanker(20), random_state=0)
    ranked.fit(train.X, train.Y)
    told = ranked.explain(test.X[[0]], int(ranked.predict_topk(test.X[:1], 1)[0][0, 0]))
    linear, votes = told.parts
    assert told.parts_multiply and linear.value * votes.value == pytest.approx(told.score)
    assert linear.value == pytest.approx(1 / (1 + np.exp(-2 * told.terms_total))) and 0 < votes.value <= 1.001
    assert ranked.explain(test.X[[0]], int(np.argmin(ranked.decision_function(test.X[:1])))).parts == ()


def test_explanation_adds_up(decoded, test):
    labels, scores = decoded.predict_topk(test.X[:5], 1)
    for row in range(5):
        told = decoded.explain(test.X[[row]], int(labels[row, 0]), top=10_000)
        assert told.score == pytest.approx(scores[row, 0], rel=1e-3)
        assert told.terms_total == pytest.approx(sum(term.contribution for term in told.terms), rel=1e-3, abs=1e-5)
        assert str(told).startswith(told.label)
        if told.neighbors:
            assert all(told.label in neighbor.labels for neighbor in told.neighbors)


@pytest.mark.parametrize("preset", ["paper", "fast", "accurate"])
def test_relations_have_the_planted_direction(train, data, preset):
    """With Gaussians and without: the counts of the rows are the same."""
    small = {"embedding__n_components": 8, "embedding__n_steps": 5} if preset == "paper" else {}
    clf = make_sldl(preset, **small).fit(train.X, train.Y, label_names=train.label_names)
    planted = set(data.named_implications)
    found = clf.label_relations(30)
    assert all((r.source, r.target) in planted and r.verb == "implies" and r.confidence > 0.95 for r in found)
    assert all((r.kl is None) is (preset != "paper") for r in found)
    only = clf.label_relations(None, label="sky")
    assert only and all("sky" in (r.source, r.target) for r in only)
    assert "cloud implies sky" in str([str(r) for r in only])


def test_relations_need_training_labels(train):
    clf = SLDLClassifier(RandomLabelEmbedding(8), decoder=LinearReadout()).fit(train.X, train.Y)
    with pytest.raises(DataError, match="labels of the training rows"):
        clf.label_relations()


def test_unseen_labels_are_reported_once_and_never_predicted(train, test, decoded):
    gap = sparse.hstack([train.Y, sparse.csr_array((train.Y.shape[0], 1), dtype=np.float32)], format="csr")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf = SLDLClassifier(RandomLabelEmbedding(16), decoder=decoded.decoder, random_state=0).fit(train.X, gap)
    assert [w.category for w in caught] == [SLDLWarning]
    assert "1 of 91 labels" in str(caught[0].message)
    labels, _ = clf.predict_topk(test.X, 91)
    assert not (labels == 90).any()
    scores = clf.decision_function(test.X)
    assert np.isfinite(scores).all()
    assert (clf.predict_proba(test.X)[:, 90] == 0).all()


def test_rows_without_features_or_labels_are_accepted(train):
    X, Y = train.X[:200].tolil(), train.Y[:200].tolil()
    X[3], Y[5] = 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SLDLWarning)
        clf = small().fit(X.tocsr(), Y.tocsr())
    labels, _ = clf.predict_topk(sparse.csr_array((1, X.shape[1])), 2)
    assert labels[0].tolist() == np.argsort(-clf.label_counts_, kind="stable")[:2].tolist()


BAD_INPUT = {
    "rows differ": (np.eye(4), np.eye(5), "inconsistent numbers of samples"),
    "NaN": (np.array([[np.nan, 1.0], [0.0, 1.0]]), np.eye(2), "Input X contains NaN"),
    "infinity": (np.array([[np.inf, 1.0], [0.0, 1.0]]), np.eye(2), "Input X contains infinity"),
    "not binary": (np.eye(3), np.diag([1, 2, 1]), "row 1, column 1 is 2"),
    "negative": (np.eye(3), -np.eye(3), "row 0, column 0 is -1"),
    "no labels": (np.eye(3), np.zeros((3, 4)), "Y holds no label at all"),
    "no columns": (np.eye(3), np.zeros((3, 0)), "Y is empty"),
    "single row": (np.eye(1), np.ones((1, 2)), "n_samples=1"),
    "no Y": (np.eye(3), None, "y is None"),
    "text as Y": (np.eye(2), np.array([["a", "b"], ["c", "d"]]), "data type"),
    "ragged": (np.eye(2), [[1, 0], [1]], "rows differ in length"),
    "continuous": (np.eye(3), [0.5, 1.5, 2.5], "continuous"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_gets_one_clear_error(case):
    X, Y, message = BAD_INPUT[case]
    with pytest.raises(ValueError, match=message):
        small().fit(X, Y)


def test_bad_names(train, fitted):
    names = train.label_names.copy()
    names[1] = names[0]
    with pytest.raises(DataError, match="occur more than once"):
        small().fit(train.X, train.Y, label_names=names)
    with pytest.raises(DataError, match="holds 3 names, but Y has 90 columns"):
        small().fit(train.X, train.Y, label_names=["a", "b", "c"])
    with pytest.raises(DataError, match=r"Unknown label 'clout': did you mean 'cloud'"):
        fitted.explain(train.X[[0]], "clout")
    with pytest.raises(DataError, match="Row 0 carries the label 'nothing'"):
        fitted.encode([["nothing"]])
    with pytest.raises(ValueError, match="X has 3 features, but SLDLClassifier is expecting"):
        fitted.predict_topk(np.eye(3))
    with pytest.raises(DataError, match="no preset 'papyrus'"):
        make_sldl("papyrus")
    with pytest.raises(DataError, match="has no parameter 'neighbors'"):
        make_sldl("paper", neighbors=3)


def test_without_calibration_topk_works_and_predict_says_what_to_do(train, test):
    clf = small(calibrate=False).fit(train.X, train.Y)
    clf.predict_topk(test.X)
    with pytest.raises(DataError, match="calibrate=True"):
        clf.predict(test.X)


def test_memory_is_estimated_and_refused_before_it_is_taken(train, fitted, test):
    sizes = (100_000, 50_000, 1_000_000, 10_000_000)
    dense = SLDLClassifier(GaussianLabelEmbedding(graph="dense")).estimate_memory(*sizes)
    assert dense["embedding"] > 10**12
    estimate = SLDLClassifier().estimate_memory(*sizes, n_pairs=5_000_000)
    assert estimate["embedding"] < 9 * 10**9
    with pytest.raises(MemoryLimitError, match=r"embedding stage for 90 labels needs about .* RandomLabelEmbedding"):
        small(memory_limit="100 kB").fit(train.X, train.Y)
    fitted_small = small(memory_limit="100 MB").fit(train.X, train.Y)
    fitted_small.memory_limit = "1 kB"
    with pytest.raises(MemoryLimitError, match=r"dense score matrix of 360 rows and 90 labels.*predict_topk"):
        fitted_small.decision_function(test.X)


def test_a_small_memory_limit_takes_the_lean_way_through_every_stage():
    rng = np.random.default_rng(0)
    X = sparse.random_array((1500, 600), density=0.2, random_state=rng, format="csr", dtype=np.float32)
    Y = sparse.csr_array((rng.random((1500, 400)) < 0.01).astype(np.float32))
    Y = Y[:, np.asarray(Y.sum(axis=0)).ravel() > 0]
    quick = {"calibrate": False, "random_state": 0}
    rich = SLDLClassifier(GaussianLabelEmbedding(32, n_steps=2), **quick).fit(X, Y)
    lean = SLDLClassifier(GaussianLabelEmbedding(32, n_steps=2), memory_limit="8 MB", **quick).fit(X, Y)
    assert (rich.embedding_.graph_, rich.mapping_.solver_) == ("dense", "cholesky")
    assert (lean.embedding_.graph_, lean.mapping_.solver_) == ("sparse", "cg")
    with pytest.raises(MemoryLimitError, match=r"stage for \d+ labels needs about .* raise memory_limit"):
        lean.set_params(memory_limit="200 kB").fit(X, Y)


def test_progress_is_reported(train):
    seen = []
    small(progress=seen.append).fit(train.X, train.Y)
    assert {p.stage for p in seen} >= {"embedding"}


def test_official_preset_runs_the_authors_choices(train, test):
    clf = make_sldl("official", embedding__n_components=16, decoder__n_neighbors=20).fit(train.X, train.Y)
    assert len(clf.embedding_.losses_) == 50
    assert (clf.mapping_.coef_ >= 0).all() and clf.mapping_.intercept_.any()
    assert clf.score(test.X, test.Y) > 0.3


def test_default_stages():
    clf = SLDLClassifier(random_state=0).fit(np.eye(40), np.eye(40)[:, :20] + np.eye(40)[:, 20:])
    assert isinstance(clf.embedding_, GaussianLabelEmbedding)
