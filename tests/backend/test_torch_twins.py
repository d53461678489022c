"""The loops for a graphics card, run by torch on the processor, give what the processor's own loops give."""

import numpy as np
import pytest
from scipy import sparse

import pysldl.backend.dispatch
from pysldl import SLDLClassifier
from pysldl.backend.candidate_scores import score_candidates
from pysldl.backend.dispatch import use_device
from pysldl.backend.nearest import nearest_rows, pair_products
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.decoding import FeatureNeighborDecoder, JointNeighborDecoder, NeighborDecoder
from pysldl.embedding import GaussianLabelEmbedding, RandomLabelEmbedding
from pysldl.exceptions import DataError, MissingDependencyError
from pysldl.mapping import RidgeMapping
from pysldl.neighbors import ExactIndex
from pysldl.ranking import LinearRanker

torch = pytest.importorskip("torch", reason='torch is not installed: pip install "pysldl[deep]"')


@pytest.fixture
def both(monkeypatch):
    """Call a function on the processor, and again as on a graphics card."""
    monkeypatch.setattr(
        pysldl.backend.dispatch, "find_device", lambda name: None if name == "cpu" else torch.device("cpu")
    )

    def call(function):
        with use_device("cpu"):
            plain = function()
        with use_device("cuda"):
            return plain, function()

    return call


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    X = sparse.random_array((300, 80), density=0.15, random_state=rng, format="csr", dtype=np.float32)
    Y = sparse.csr_array((rng.random((300, 25)) < 0.1).astype(np.float32))
    return X, Y


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("settings", [{"solver": "cg"}, {"solver": "cg", "tol": 1e-4}, {"solver": "cholesky"}], ids=str)
@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_mapping(both, world, settings, fit_intercept, form):
    X = world[0] if form == "sparse" else world[0].toarray()
    Z = np.random.default_rng(1).normal(size=(300, 5))
    rows = np.arange(40)

    def fit():
        return RidgeMapping(0.5, fit_intercept=fit_intercept, random_state=0, **settings).fit(X, Z, leverage_of=rows)

    plain, card = both(fit)
    np.testing.assert_allclose(card.coef_, plain.coef_, atol=2e-3 if settings.get("tol") else 1e-4)
    np.testing.assert_allclose(card.intercept_, plain.intercept_, atol=1e-3)
    np.testing.assert_allclose(card.leverage_, plain.leverage_, atol=1e-2 if settings.get("tol") else 1e-4)


def test_mapping_stops_at_the_same_step(both, world):
    Z = np.random.default_rng(1).normal(size=(300, 5)) + world[0] @ np.ones((80, 5))
    plain, card = both(lambda: RidgeMapping(0.5, solver="cg", early_stopping=True, random_state=0).fit(world[0], Z))
    assert card.n_iter_ == plain.n_iter_ and (card.held_rows_ == plain.held_rows_).all()
    np.testing.assert_allclose(card.coef_, plain.coef_, atol=1e-4)


@pytest.mark.parametrize("left_out", [False, True])
def test_nearest_vectors(both, left_out):
    vectors = np.random.default_rng(2).normal(size=(400, 7)).astype(np.float32)
    rows = np.arange(90) if left_out else None
    plain, card = both(lambda: ExactIndex().fit(vectors).search(vectors[:90], 8, exclude=rows))
    assert (plain[0] == card[0]).all()
    np.testing.assert_allclose(plain[1], card[1], atol=1e-7)
    plain, card = both(lambda: nearest_rows(vectors[:90], vectors, 8, rows))
    assert (plain == card).all()


@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_products_of_pairs(both, world, form):
    X = world[0] if form == "sparse" else world[0].toarray()
    pairs = np.random.default_rng(3).integers(-1, 300, (300, 9))
    plain, card = both(lambda: pair_products(X, pairs, X))
    np.testing.assert_allclose(plain, card, atol=1e-5)


def test_scores_of_candidates(both, world):
    rng = np.random.default_rng(5)
    W = sparse.random_array((25, 80), density=0.3, random_state=rng, format="csr", dtype=np.float32)
    labels = rng.integers(-1, 25, (300, 6)).astype(np.int32)
    plain, card = both(lambda: score_candidates(world[0], labels, W, rng.random(25).astype(np.float32) * 0))
    np.testing.assert_allclose(plain, card, rtol=1e-4, atol=1e-5)


def test_the_largest_of_equals_are_those_of_the_lower_columns():
    from pysldl.backend.torch.selection import concatenate_found, largest_nonnegative

    values = np.random.default_rng(4).integers(0, 4, (50, 9)).astype(np.float32)
    found, kept = concatenate_found([largest_nonnegative(torch.from_numpy(values), 6)], 6)
    order = np.argsort(-values, axis=1, kind="stable")[:, :6]
    best = np.take_along_axis(values, order, axis=1)
    assert (found[best > 0] == order[best > 0]).all() and (kept == best).all()


@pytest.mark.parametrize("objective", ["paper", "official"])
def test_embedding(both, world, objective):
    def fit():
        embedding = GaussianLabelEmbedding(6, objective=objective, n_steps=15, tol=None, random_state=0)
        return embedding.fit(world[1])

    plain, card = both(fit)
    np.testing.assert_allclose(card.losses_, plain.losses_, rtol=1e-12)
    assert (card.components_ == plain.components_).all()
    assert (card.log_variances_ == plain.log_variances_).all()


@pytest.mark.parametrize(
    ("decoder", "ranker"),
    [
        (NeighborDecoder(20), None),
        (FeatureNeighborDecoder(20), LinearRanker(20, max_epochs=1000, tol=1e-3)),
        (JointNeighborDecoder(), LinearRanker(20, max_epochs=1000, tol=1e-3)),
    ],
    ids=["latent", "features and ranker", "joint and ranker"],
)
def test_classifier(both, decoder, ranker):
    data = make_asymmetric_multilabel(800, 240, 50, random_state=0)
    train, test = data.split("train"), data.split("test")

    def fit(device):
        clf = SLDLClassifier(RandomLabelEmbedding(32), None, decoder, ranker, device=device, random_state=0)
        return clf.fit(train.X, train.Y)

    plain, card = fit("cpu"), fit("cuda")
    a, b = (clf.predict_topk(test.X, 5)[0] for clf in (plain, card))
    assert (np.sort(a) == np.sort(b)).all(axis=1).mean() > 0.95
    assert card.score(test.X, test.Y) == pytest.approx(plain.score(test.X, test.Y), abs=0.01)
    assert card.calibration_.threshold_ == pytest.approx(plain.calibration_.threshold_, abs=0.02)


def test_asking_for_what_is_not_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    X, Y = np.eye(6), np.eye(6)
    with pytest.raises(DataError, match="device='cuda' was asked for, but torch finds no such GPU here"):
        SLDLClassifier(device="cuda").fit(X, Y)
    with pytest.raises(DataError, match="device must be 'cpu', 'cuda' or 'cuda:' and a number, but is 'gpu'"):
        SLDLClassifier(device="gpu").fit(X, Y)
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingDependencyError, match="device='cuda' needs torch, which is not installed"):
        SLDLClassifier(device="cuda").fit(X, Y)
