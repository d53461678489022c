"""Rows and labels that come after the fit, and rows that go: the same model as a fit of what is left."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from pysldl import SLDLClassifier, make_sldl
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.decoding import BlendDecoder, FeatureNeighborDecoder, LinearReadout, NeighborDecoder
from pysldl.embedding import (
    GaussianLabelEmbedding,
    IdentityLabelEmbedding,
    RandomLabelEmbedding,
    SVDLabelEmbedding,
    VectorLabelEmbedding,
)
from pysldl.embedding.base import LabelEmbedding
from pysldl.exceptions import DataError, NotAvailableError, SLDLWarning
from pysldl.mapping import RidgeMapping
from pysldl.persistence import load_model, save_model
from pysldl.ranking import LinearRanker

# The columns of labels that come later are empty at first.
pytestmark = pytest.mark.filterwarnings("ignore:.*labels have no training examples:pysldl.exceptions.SLDLWarning")

N_KNOWN, N_NEW_LABELS = 400, 5


class Frozen(LabelEmbedding):
    """Vectors that are given: what a refit with the same embedding uses."""

    def __init__(self, vectors=None):
        self.vectors = vectors

    def memory(self, n_labels, **more):
        return 0

    def _place(self, Y, progress, memory_limit):
        self.components_ = self.vectors.copy()


@pytest.fixture(scope="module")
def data():
    return make_asymmetric_multilabel(600, 150, 40, random_state=0)


@pytest.fixture(scope="module")
def new_labels(data):
    """Labels that shall be unknown at first: the last columns, on rows that come later."""
    return np.arange(data.n_labels - N_NEW_LABELS, data.n_labels)


@pytest.fixture(scope="module")
def halves(data, new_labels):
    """Rows of the first fit, which carry none of the new labels, and rows that come later."""
    carries = np.asarray(data.Y[:, new_labels].sum(axis=1)).ravel() > 0
    first = np.flatnonzero(~carries)[:N_KNOWN]
    return first, np.setdiff1d(np.arange(data.n_samples), first)


MAPPINGS = {
    "normal equations": {"solver": "cholesky"},
    "conjugate gradients": {"solver": "cg", "tol": 1e-7},
    "intercept": {"solver": "cholesky", "fit_intercept": True},
    "intercept by conjugate gradients": {"solver": "cg", "tol": 1e-7, "fit_intercept": True},
    "descent": {"solver": "lbfgs", "tol": 1e-8},
    "nonnegative": {"positive": True, "tol": 1e-8},
}


def frozen(vectors, decoder=None, **mapping):
    return SLDLClassifier(Frozen(vectors), RidgeMapping(**mapping), decoder, calibrate=False, online=True)


@pytest.mark.parametrize("form", ["sparse", "dense"])
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_rows_that_come_later_are_as_if_they_had_been_there(data, halves, mapping, form):
    first, later = halves
    vectors = np.random.default_rng(0).normal(size=(data.n_labels, 12)).astype(np.float32)
    X = data.X if form == "sparse" else data.X.toarray()
    whole = np.concatenate([first, later])
    refit = frozen(vectors, **MAPPINGS[mapping]).fit(X[whole], data.Y[whole])
    grown = frozen(vectors, **MAPPINGS[mapping]).fit(X[first], data.Y[first])
    for part in np.array_split(later, 3):
        grown.partial_fit(X[part], data.Y[part])
    assert (grown.mapping_.normal_equations_ is not None) == (MAPPINGS[mapping].get("solver") == "cholesky")
    np.testing.assert_allclose(grown.transform(X), refit.transform(X), atol=1e-5 * np.abs(refit.transform(X)).max())
    np.testing.assert_allclose(grown.decoder_.index_.vectors_, refit.decoder_.index_.vectors_, atol=1e-5)
    assert grown.n_samples_ == refit.n_samples_
    np.testing.assert_array_equal(grown.label_counts_, refit.label_counts_)
    labels, _ = grown.predict_topk(X, 1)
    assert (labels == refit.predict_topk(X, 1)[0]).mean() > 0.999


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_rows_that_go_are_as_if_they_had_never_been(data, halves, mapping):
    first, later = halves
    vectors = np.random.default_rng(0).normal(size=(data.n_labels, 12)).astype(np.float32)
    rows = np.concatenate([first, later])
    shrunk = frozen(vectors, **MAPPINGS[mapping]).fit(data.X[rows], data.Y[rows])
    shrunk.remove_rows(np.arange(len(first), len(rows)))
    refit = frozen(vectors, **MAPPINGS[mapping]).fit(data.X[first], data.Y[first])
    np.testing.assert_allclose(
        shrunk.transform(data.X), refit.transform(data.X), atol=1e-5 * np.abs(refit.transform(data.X)).max()
    )
    assert shrunk.n_samples_ == len(first)
    assert shrunk.decoder_.Y_.shape[0] == len(first)


@pytest.mark.parametrize(
    "decoder", [NeighborDecoder(10), LinearReadout(), BlendDecoder()], ids=["votes", "read", "mix"]
)
def test_scores_of_every_decoder_are_those_of_a_refit(data, halves, decoder):
    first, later = halves
    vectors = np.random.default_rng(0).normal(size=(data.n_labels, 12)).astype(np.float32)
    whole = np.concatenate([first, later])
    refit = frozen(vectors, decoder).fit(data.X[whole], data.Y[whole])
    grown = frozen(vectors, decoder).fit(data.X[first], data.Y[first])
    grown.partial_fit(data.X[later], data.Y[later])
    # A vote is 1/d: codes that differ in the seventh digit vote differently in the fourth where d is small.
    np.testing.assert_allclose(
        grown.decision_function(data.X[later]), refit.decision_function(data.X[later]), atol=1e-5, rtol=1e-3
    )


def test_conjugate_gradients_go_on_instead_of_starting_again(data):
    vectors = np.random.default_rng(0).normal(size=(data.n_labels, 12)).astype(np.float32)
    clf = frozen(vectors, solver="cg").fit(data.X[:-1], data.Y[:-1])
    steps = clf.mapping_.n_iter_
    assert clf.partial_fit(data.X[-1:], data.Y[-1:]).mapping_.n_iter_ < 0.8 * steps


EMBEDDINGS = {
    "gaussian": GaussianLabelEmbedding(16, n_steps=60),
    "random": RandomLabelEmbedding(16),
    "svd": SVDLabelEmbedding(16),
    "vector": VectorLabelEmbedding(16, n_steps=60),
    "identity": IdentityLabelEmbedding(),
}


@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_new_labels_join_and_no_other_moves(data, halves, new_labels, embedding):
    first, later = halves
    names = [data.label_names[data.Y[[row]].indices].tolist() for row in range(data.n_samples)]
    clf = SLDLClassifier(EMBEDDINGS[embedding], online=True, random_state=0)
    clf.fit(data.X[first], [names[row] for row in first])
    known = clf.label_names_.copy()
    places = _dense(clf.embedding_.components_)
    clf.partial_fit(data.X[later], [names[row] for row in later])

    assert clf.label_names_[: len(known)].tolist() == known.tolist()
    assert set(data.label_names[new_labels]) <= set(clf.label_names_[len(known) :])
    grown = _dense(clf.embedding_.components_)
    np.testing.assert_array_equal(grown[: len(known), : places.shape[1]], places)
    assert grown[len(known) :].any(axis=1).all()
    found = clf.predict(data.X[later])
    for name in data.label_names[new_labels]:
        carried = [name in names[row] for row in later]
        assert any(name in row for row, is_carried in zip(found, carried, strict=True) if is_carried), name


def test_random_vectors_of_new_labels_are_what_a_fit_would_have_drawn(data, halves):
    first, later = halves
    whole = np.concatenate([first, later])
    drawn = RandomLabelEmbedding(8, random_state=3).fit(data.Y[whole])
    known = data.n_labels - N_NEW_LABELS
    grown = RandomLabelEmbedding(8, random_state=3).fit(data.Y[first][:, :known]).extend(data.Y[whole])
    np.testing.assert_array_equal(grown.components_, drawn.components_)


def test_a_new_label_finds_what_it_implies(data):
    """The planted parents of labels that come late are their nearest by KL, in the planted direction."""
    world = make_asymmetric_multilabel(random_state=0)
    parents = dict(world.implications.tolist() if hasattr(world.implications, "tolist") else world.implications)
    late = [child for child in parents if world.Y[:, [child]].sum() >= 8][:8]
    early = world.Y[np.asarray(world.Y[:, late].sum(axis=1)).ravel() == 0]
    embedding = GaussianLabelEmbedding(32, cooccurrence="count", random_state=0).fit(early)
    before = embedding.components_.copy(), embedding.log_variances_.copy()
    embedding.extend(world.Y)
    others = np.setdiff1d(np.flatnonzero(before[0].any(axis=1)), late)
    np.testing.assert_array_equal(embedding.components_[others], before[0][others])
    np.testing.assert_array_equal(embedding.log_variances_[others], before[1][others])
    divergence = embedding.divergences()
    np.fill_diagonal(divergence, np.inf)
    ranks = [np.flatnonzero(np.argsort(divergence[child]) == parents[child])[0] for child in late]
    directed = [divergence[child, parents[child]] < divergence[parents[child], child] for child in late]
    assert np.median(ranks) <= 1
    assert np.mean(directed) >= 0.75


@pytest.fixture
def ranked():
    return SLDLClassifier(decoder=FeatureNeighborDecoder(20), ranker=LinearRanker(20), online=True, random_state=0)


def test_rows_behind_the_indexed_ones_are_indexed_as_all_at_once(data, halves):
    first, later = halves
    all_rows = np.concatenate([first, later])
    X, Y = sparse.csr_array(data.X, dtype=np.float32), data.Y
    at_once = FeatureNeighborDecoder(500, index_terms=4).fit(X[all_rows], Y[all_rows])
    with pytest.warns(SLDLWarning, match="n_neighbors"):
        one_by_one = FeatureNeighborDecoder(500, index_terms=4).fit(X[first], Y[first]).extend(X[later], Y[all_rows])
    assert one_by_one.n_neighbors_ == at_once.n_neighbors_
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(
            getattr(one_by_one.postings_, part), getattr(at_once.postings_, part), strict=True
        )


def test_neighbors_in_the_features_learn_on(data, halves):
    first, later = halves
    whole = np.concatenate([first, later])
    plain = SLDLClassifier(decoder=FeatureNeighborDecoder(20), online=True, calibrate=False)
    refit = clone(plain).fit(data.X[whole], data.Y[whole])
    grown = clone(plain).fit(data.X[first], data.Y[first]).partial_fit(data.X[later], data.Y[later])
    np.testing.assert_allclose(grown.decision_function(data.X), refit.decision_function(data.X), atol=1e-5)
    shrunk = refit.remove_rows(np.arange(len(first), len(whole)))
    fitted = clone(plain).fit(data.X[first], data.Y[first])
    np.testing.assert_allclose(shrunk.decision_function(data.X), fitted.decision_function(data.X), atol=1e-5)


def test_a_ranker_learns_new_labels_and_keeps_the_others(data, halves, new_labels, ranked, tmp_path):
    first, later = halves
    known = data.n_labels - N_NEW_LABELS
    clf = ranked.fit(data.X[first], data.Y[first][:, :known])
    before = clf.ranker_.W_.toarray(), clf.ranker_.bias_.copy()
    clf.partial_fit(data.X[later], data.Y[later])
    np.testing.assert_array_equal(clf.ranker_.W_.toarray()[:known], before[0])
    np.testing.assert_array_equal(clf.ranker_.bias_[:known], before[1])
    assert clf.ranker_.W_.shape[0] == data.n_labels
    carrying = np.asarray(data.Y[later][:, new_labels].sum(axis=1)).ravel() > 0
    labels, scores = clf.predict_topk(data.X[later], 5)
    found = np.isin(labels, new_labels).any(axis=1)
    assert found[carrying].mean() > 0.7 and found[~carrying].mean() < found[carrying].mean()
    save_model(clf, tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict_topk(data.X[later], 5)[1], scores)


def test_a_ranker_does_not_offer_labels_whose_rows_are_gone(data, ranked):
    clf = ranked.fit(data.X, data.Y)
    label = int(clf.ranker_.frequent_[0])
    rows = data.Y[:, [label]].tocoo().row
    weights = clf.ranker_.W_[[label]].toarray()
    clf.remove_rows(rows)
    assert not (clf.predict_topk(data.X, data.n_labels)[0] == label).any()
    clf.partial_fit(data.X[rows], data.Y[rows])
    assert (clf.predict_topk(data.X[rows], 5)[0] == label).any()
    np.testing.assert_array_equal(clf.ranker_.W_[[label]].toarray(), weights)


def test_a_removed_row_no_longer_votes(data, halves):
    first, _ = halves
    clf = small().fit(data.X[first], data.Y[first], label_names=data.label_names)
    label = int(clf.predict_topk(data.X[first[:1]], 1)[0][0, 0])
    voter = clf.explain(data.X[first[:1]], label).neighbors[0]
    features = clf.training_features_[[voter.row]].toarray()
    clf.remove_rows(voter.row)
    assert clf.n_samples_ == len(first) - 1
    kept = clf.training_features_.toarray()
    told = clf.explain(data.X[first[:1]], label, top=1000)
    assert all(not np.array_equal(kept[n.row], features[0]) for n in told.neighbors)


def test_a_label_without_rows_is_not_predicted_and_can_come_back(data, halves):
    first, _ = halves
    clf = small().fit(data.X[first], data.Y[first])
    label = int(np.flatnonzero((clf.label_counts_ > 0) & (clf.label_counts_ < 20))[0])
    carrying = data.Y[first][:, [label]].tocoo().row
    place = clf.embedding_.components_[label].copy()
    clf.remove_rows(carrying)
    assert clf.label_counts_[label] == 0
    assert not (clf.predict_topk(data.X, data.n_labels)[0] == label).any()
    clf.partial_fit(data.X[first[carrying]], data.Y[first[carrying]])
    assert clf.label_counts_[label] == len(carrying)
    np.testing.assert_array_equal(clf.embedding_.components_[label], place)


def test_indicator_columns_are_matched_by_name(data, halves):
    first, later = halves
    by_position = small().fit(data.X[first], data.Y[first], label_names=data.label_names)
    by_name = small().fit(data.X[first], data.Y[first], label_names=data.label_names)
    order = np.random.default_rng(0).permutation(data.n_labels)
    by_position.partial_fit(data.X[later], data.Y[later])
    by_name.partial_fit(data.X[later], data.Y[later][:, order], label_names=data.label_names[order])
    np.testing.assert_array_equal(by_name.predict_topk(data.X)[0], by_position.predict_topk(data.X)[0])
    wider = sparse.hstack([data.Y[later], np.ones((len(later), 1))], format="csr")
    by_name.partial_fit(data.X[later], wider, label_names=[*data.label_names, "everywhere"])
    assert by_name.label_names_[-1] == "everywhere"
    assert "everywhere" in by_name.predict_topk(data.X[later], 3, names=True)[0]


def test_a_wider_indicator_without_names_goes_on_counting(data, halves):
    first, later = halves
    known = data.n_labels - N_NEW_LABELS
    clf = small().fit(data.X[first], data.Y[first][:, :known]).partial_fit(data.X[later], data.Y[later])
    assert clf.label_names_[-1] == str(data.n_labels - 1)
    with pytest.raises(DataError, match="label_names"):
        clf.partial_fit(data.X[later], data.Y[later][:, :known])
    named = small().fit(data.X[first], data.Y[first][:, :known], label_names=data.label_names[:known])
    with pytest.raises(DataError, match="40 columns, but the model knows 35 labels"):
        named.partial_fit(data.X[later], data.Y[later])


def test_texts_and_classes_learn_on():
    texts = ["clouds in the sky", "rain from the sky", "a cat on a mat", "the cat sleeps"] * 5
    labels = [["cloud", "sky"], ["rain", "sky"], ["cat"], ["cat"]] * 5
    clf = small(decoder__n_neighbors=5).fit(texts, labels)
    clf.partial_fit(["the mat sleeps", "a mat on the mat"] * 3, [["mat"]] * 6)
    assert clf.predict_topk(["a mat on a mat"], 1, names=True)[0].item() == "mat"

    single = small(decoder__n_neighbors=3).fit(np.eye(8), np.arange(8) % 2)
    assert single.partial_fit(np.eye(8)[:2], [0, 1]).n_samples_ == 10
    with pytest.raises(DataError, match="label 7, which is not one of the 2 known"):
        single.partial_fit(np.eye(8)[:1], [7])


def test_only_an_online_model_learns_on(data):
    clf = make_sldl("paper", embedding__n_components=8, embedding__n_steps=5).fit(data.X[:100], data.Y[:100])
    assert not hasattr(clf, "partial_fit") and not hasattr(clf, "training_features_")
    with pytest.raises(NotAvailableError, match="online=True"):
        clf.partial_fit(data.X[:2], data.Y[:2])
    with pytest.raises(NotAvailableError, match="online=True"):
        clf.remove_rows([1])
    with pytest.raises(NotAvailableError, match="made and fitted with online=True"):
        clf.set_params(online=True).partial_fit(data.X[:2], data.Y[:2])
    clf.set_params(online=True).fit(data.X[:100], data.Y[:100])
    assert hasattr(clf, "partial_fit") and clf.training_features_.shape[0] == 100
    clf.set_params(online=False).fit(data.X[:100], data.Y[:100])
    assert not hasattr(clf, "training_features_")


def test_the_first_partial_fit_is_a_fit(data):
    first = small().partial_fit(data.X[:300], data.Y[:300], label_names=data.label_names)
    np.testing.assert_array_equal(
        first.decision_function(data.X), small().fit(data.X[:300], data.Y[:300]).decision_function(data.X)
    )


BAD = {
    "width": (lambda c, d: c.partial_fit(np.eye(3), np.ones((3, 40))), "X has 3 features"),
    "lengths": (lambda c, d: c.partial_fit(d.X[:3], d.Y[:4]), "inconsistent numbers of samples"),
    "not binary": (lambda c, d: c.partial_fit(d.X[:1], 2 * d.Y[:1]), "only 0 and 1"),
    "no such row": (lambda c, d: c.remove_rows([3, 300]), "no training row 300"),
    "negative row": (lambda c, d: c.remove_rows(-1), "no training row -1"),
    "no rows": (lambda c, d: c.remove_rows([]), "numbers of training rows"),
    "text as row": (lambda c, d: c.remove_rows("first"), "numbers of training rows"),
    "all rows": (lambda c, d: c.remove_rows(np.arange(300)), "would leave 0 of 300"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_and_changes_nothing(data, case):
    act, message = BAD[case]
    clf = small().fit(data.X[:300], data.Y[:300])
    before = clf.decision_function(data.X[300:])
    with pytest.raises(ValueError, match=message):
        act(clf, data)
    np.testing.assert_array_equal(clf.decision_function(data.X[300:]), before)
    assert clf.n_samples_ == 300


def test_a_failing_stage_leaves_the_model_as_it_was(data, monkeypatch):
    clf = small().fit(data.X[:300], data.Y[:300])
    before = clf.decision_function(data.X[300:])

    def fail(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(NeighborDecoder, "fit", fail)
    with pytest.raises(MemoryError):
        clf.partial_fit(data.X[300:], data.Y[300:])
    np.testing.assert_array_equal(clf.decision_function(data.X[300:]), before)
    assert clf.n_samples_ == 300


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
@pytest.mark.parametrize("mmap", [True, False])
def test_a_loaded_model_learns_on_as_the_original_would(data, halves, tmp_path, solver, mmap):
    first, later = halves
    clf = small(mapping__solver=solver).fit(data.X[first], data.Y[first])
    save_model(clf, tmp_path / "model")
    loaded = load_model(tmp_path / "model", mmap=mmap)
    for model in (clf, loaded):
        model.partial_fit(data.X[later], data.Y[later]).remove_rows([0, 5])
    np.testing.assert_array_equal(loaded.decision_function(data.X), clf.decision_function(data.X))
    save_model(loaded, tmp_path / "model", overwrite=True)
    assert load_model(tmp_path / "model").n_samples_ == data.n_samples - 2


def test_the_caller_s_matrix_is_not_held(data):
    X = data.X[:300].toarray()
    clf = small(normalize=False).fit(X, data.Y[:300])
    kept = clf.training_features_.copy()
    X[:] = 0
    np.testing.assert_array_equal(clf.training_features_, kept)


def small(**overrides):
    return make_sldl(
        "paper", embedding__n_components=16, embedding__n_steps=60, online=True, **{"normalize": True} | overrides
    )


def _dense(components):
    return components.toarray() if sparse.issparse(components) else components.copy()
