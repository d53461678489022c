"""The loops for a graphics card, run by torch on the processor, give what the processor's own loops give."""

import numpy as np
import pytest
from scipy import sparse

import pysldl.backend.device
from pysldl import SLDLClassifier
from pysldl.backend.candidate_scores import score_candidates
from pysldl.backend.device import use_device
from pysldl.backend.inverted_index import search_inverted_index
from pysldl.backend.label_problems import label_problems
from pysldl.backend.nearest import pair_products
from pysldl.backend.squared_hinge import BIAS_CENTER, BIAS_FREEDOM, fit_squared_hinge
from pysldl.backend.voting import vote_top
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
        pysldl.backend.device, "find_device", lambda name: None if name == "cpu" else torch.device("cpu")
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


@pytest.mark.parametrize("left_out", [False, True])
@pytest.mark.parametrize("k", [6, 400])
def test_rows_through_the_inverted_index(both, world, left_out, k):
    X, _ = world
    rows = np.arange(300) if left_out else None
    plain, card = both(lambda: search_inverted_index(X, sparse.csr_array(X.T), k, rows))
    np.testing.assert_allclose(plain[1], card[1], atol=1e-5)
    assert (plain[0] == card[0]).mean() > 0.99
    assert ((plain[0] < 0) == (card[0] < 0)).mean() > 0.999


@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_products_of_pairs(both, world, form):
    X = world[0] if form == "sparse" else world[0].toarray()
    pairs = np.random.default_rng(3).integers(-1, 300, (300, 9))
    plain, card = both(lambda: pair_products(X, pairs, X))
    np.testing.assert_allclose(plain, card, atol=1e-5)


def test_votes(both, world):
    rng = np.random.default_rng(4)
    neighbors = rng.integers(-1, 300, (50, 9)).astype(np.int32)
    weights = rng.random((50, 9)).astype(np.float32) + 0.1
    for m in (6, 40):
        plain, card = both(lambda m=m: vote_top(neighbors, weights, world[1], m))
        assert (plain[0] == card[0]).all()
        np.testing.assert_allclose(plain[1], card[1], rtol=1e-5)


def test_scores_of_candidates(both, world):
    rng = np.random.default_rng(5)
    W = sparse.random_array((25, 80), density=0.3, random_state=rng, format="csr", dtype=np.float32)
    labels = rng.integers(-1, 25, (300, 6)).astype(np.int32)
    plain, card = both(lambda: score_candidates(world[0], labels, W, rng.random(25).astype(np.float32) * 0))
    np.testing.assert_allclose(plain, card, rtol=1e-4, atol=1e-5)


def margin_loss(X, problems, W, bias, C, positive_weight):
    """The ranker's objective, summed over its labels, written as it stands."""
    total = 0.0
    for label in range(len(problems.indptr) - 1):
        rows = problems.rows[problems.indptr[label] : problems.indptr[label + 1]]
        signs = np.where(rows >= 0, 1.0, -1.0)
        if rows.size == 0 or signs.min() == signs.max():
            continue
        w = W[[label]].toarray().ravel().astype(float)
        short = np.maximum(0, 1 - signs * (X[np.where(rows >= 0, rows, ~rows)] @ w + bias[label]))
        total += 0.5 * w @ w + 0.5 * (bias[label] - BIAS_CENTER) ** 2 / BIAS_FREEDOM
        total += C * np.where(signs > 0, positive_weight[label], 1) @ short**2
    return total


@pytest.mark.parametrize(("C", "most"), [(0.3, 1), (3.0, 1), (1.0, 5)])
def test_classifiers_reach_the_optimum(both, world, C, most):
    X, Y = world
    rng = np.random.default_rng(6)
    candidates = np.stack([rng.permutation(25)[:8] for _ in range(300)]).astype(np.int32)
    Y = sparse.csr_array(Y.multiply(np.arange(25) != 4))  # a label without positives
    problems = label_problems(candidates, Y)
    costs = {"C": C, "positive_weight": rng.uniform(1, most, 25).astype(np.float32)}
    settled = fit_squared_hinge(X, problems, max_epochs=5000, tol=1e-4, min_weight=0.0, **costs)
    card = both(lambda: fit_squared_hinge(X, problems, tol=0.01, max_epochs=1000, min_weight=0.0, **costs))[1]
    best = margin_loss(X, problems, *settled[:2], **costs)
    assert margin_loss(X, problems, *card[:2], **costs) <= best * (1 + 1e-3)
    pruned = both(lambda: fit_squared_hinge(X, problems, C=C, min_weight=0.1))[1][0]
    assert 0 < pruned.nnz < card[0].nnz and np.abs(pruned.data).min() >= 0.1


def test_groups_of_labels_change_nothing(both, world, monkeypatch):
    import pysldl.backend.torch.squared_hinge as margins

    X, Y = world
    problems = label_problems(np.tile(np.arange(10, dtype=np.int32), (300, 1)), Y)
    whole = both(lambda: fit_squared_hinge(X, problems, min_weight=0.0))[1]
    monkeypatch.setattr(margins, "VALUES_AT_ONCE", 5000)
    parts = both(lambda: fit_squared_hinge(X, problems, min_weight=0.0))[1]
    np.testing.assert_allclose(whole[0].toarray(), parts[0].toarray(), atol=0.02)


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
    data = make_asymmetric_multilabel(random_state=0)
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
