"""Boosted trees over the candidates: what they learn, that they keep the order where they learn nothing, and files."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier

from pysldl import SLDLClassifier, load_model
from pysldl.backend.label_pairs import count_pairs
from pysldl.backend.trees import boosted_trees, sum_of_trees
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.decoding import FeatureNeighborDecoder
from pysldl.exceptions import DataError
from pysldl.metrics.ranking import hits_of
from pysldl.persistence import load_predictor
from pysldl.ranking import LinearRanker, TreeReranker
from pysldl.ranking.candidates import Candidates
from pysldl.ranking.reranker import FEATURES, LabelRecord, candidate_features

N_ROWS, WIDTH, N_LABELS = 600, 30, 40


def fitted_to(reranker, candidates, Y, counts):
    """Fit to rows that the first stage has not seen; so many others as ``counts`` says have one label each."""
    others = sparse.csr_array(np.eye(N_LABELS)[np.repeat(np.arange(N_LABELS), counts)])
    return reranker.fit(candidates, sparse.vstack([Y, others], format="csr"), np.arange(Y.shape[0]))


def made_up(seed, *, useful=True):
    """Candidates whose truth is a matter of rank and frequency, which the score does not know; or of nothing."""
    rng = np.random.default_rng(seed)
    labels = np.stack([rng.permutation(N_LABELS)[:WIDTH] for _ in range(N_ROWS)]).astype(np.int32)
    scores = rng.random((N_ROWS, WIDTH)).astype(np.float32)
    counts = np.where(np.arange(N_LABELS) < 10, 50, 5)
    counts[0] = N_ROWS  # few labels are nearly as frequent as the first
    order = np.argsort(np.argsort(-scores, axis=1), axis=1)
    right = (order < 8) & (labels < 10) if useful else order < 2
    Y = np.zeros((N_ROWS, N_LABELS))
    rows, slots = np.nonzero(right)
    Y[rows, labels[rows, slots]] = 1
    labels[:3, -1], scores[:3, -1] = -1, -np.inf
    votes = rng.random((N_ROWS, WIDTH)).astype(np.float32)
    return Candidates(labels, scores - 0.5, votes, scores), sparse.csr_array(Y), counts


def test_learns_what_the_scores_do_not_know():
    candidates, Y, counts = made_up(0)
    reranker = fitted_to(TreeReranker(), candidates, Y, counts)
    assert reranker.gain_ > 0.2 and len(reranker.roots_) == reranker.n_trees
    new, truth, _ = made_up(1)
    scores = reranker.scores(new, counts)
    best = new.labels[np.arange(N_ROWS), scores.argmax(axis=1)]
    before = new.labels[np.arange(N_ROWS), new.scores.argmax(axis=1)]
    rows = np.arange(N_ROWS)
    assert np.mean(truth[rows, best]) > np.mean(truth[rows, before]) + 0.3
    assert ((scores[new.labels >= 0] >= 0) & (scores[new.labels >= 0] <= 1)).all()
    assert np.isneginf(scores[new.labels < 0]).all()


@pytest.mark.parametrize("looks", [True, False])
def test_learns_that_labels_imply_each_other(looks):
    """Of two candidates with like scores, the one is right that goes with the best: only the pairs can tell."""
    rng = np.random.default_rng(3)
    first = 2 * rng.integers(0, N_LABELS // 2, 2 * N_ROWS)  # an even label and the next one share their rows
    other = (first + 2 + 2 * rng.integers(0, N_LABELS // 2 - 1, len(first))) % N_LABELS
    Y = sparse.csr_array(np.eye(N_LABELS)[first] + np.eye(N_LABELS)[first + 1])
    scores = np.column_stack([np.full(len(first), 0.9), rng.random((len(first), 2)) / 2]).astype(np.float32)
    labels = np.column_stack([first, first + 1, other + 1]).astype(np.int32)
    candidates, is_known = Candidates(labels, scores, np.zeros_like(scores), scores), np.arange(len(first)) < N_ROWS
    reranker = TreeReranker(3, label_pairs=looks).fit(candidates.of_rows(is_known), Y, np.arange(N_ROWS))
    new = reranker.scores(candidates.of_rows(~is_known), np.bincount(Y.indices))
    assert (np.mean(new[:, 1] > new[:, 2]) > 0.95) == looks
    row, counts = candidates.of_rows(np.arange(len(first)) == N_ROWS), np.bincount(Y.indices)
    related = reranker.related(row, int(labels[N_ROWS, 1]), counts)
    expected = [(int(first[N_ROWS]), pytest.approx(0.9), counts[first[N_ROWS]])] if looks else []
    assert related == expected and reranker.related(row, int(labels[N_ROWS, 0]) ^ 2, counts) == []
    assert reranker.pairs_.nnz == (N_LABELS // 2 if looks else 0)


def test_further_rows_bring_further_pairs():
    candidates, Y, counts = made_up(0)
    reranker = fitted_to(TreeReranker(), candidates, Y, counts)
    wider = sparse.csr_array(np.ones((3, N_LABELS + 2)))
    updated = reranker.updated(wider)
    assert (updated.pairs_.toarray() == 3 * np.triu(np.ones((N_LABELS + 2,) * 2), 1)).all()
    assert reranker.pairs_.shape == (N_LABELS, N_LABELS) and updated.trees_.roots is reranker.trees_.roots


def test_candidates_behind_stay_behind_in_their_order():
    candidates, Y, counts = made_up(0)
    reranker = fitted_to(TreeReranker(5), candidates, Y, counts)
    scores = reranker.scores(candidates, counts)
    for row in range(3, 40):
        order = np.argsort(-candidates.scores[row], kind="stable")
        rescored, others = scores[row][order[:5]], scores[row][order[5:]]
        assert rescored.min() >= others.max() and (np.diff(others) <= 0).all()


@pytest.mark.parametrize(("n_rows", "kept"), [(N_ROWS, True), (150, False)])
def test_trees_that_rank_a_little_worse_in_cross_fitting_are_kept(n_rows, kept):
    """Those of all rows know more than the ones that are judged; of few rows, a loss would not be seen."""
    candidates, Y, counts = made_up(0, useful=False)
    rng = np.random.default_rng(2)
    Y = sparse.csr_array(np.where(rng.random((N_ROWS, 1)) < 0.8, rng.random(Y.shape) < 0.1, Y.toarray()) * 1.0)
    some = candidates.of_rows(np.arange(N_ROWS) < n_rows)
    reranker = fitted_to(TreeReranker(), some, Y[:n_rows], counts)
    assert reranker.gain_ < 0 and (len(reranker.roots_) > 0) == kept


def test_the_order_stays_where_cross_fitting_finds_no_gain():
    candidates, Y, counts = made_up(0, useful=False)
    reranker = fitted_to(TreeReranker(), candidates, Y, counts)
    assert reranker.gain_ <= 0 and len(reranker.roots_) == 0
    assert reranker.scores(candidates, counts) is candidates.scores
    assert reranker.contributions(candidates, 0, counts) == {}


def test_trees_are_those_of_scikit_learn_with_and_without_numba(monkeypatch):
    candidates, Y, counts = made_up(0)
    kept = candidates.best(10)[0]
    known = LabelRecord(counts, counts, count_pairs(Y))
    X, is_true = candidate_features(kept, known), hits_of(kept.labels, Y)
    flat, truth = X.reshape(-1, X.shape[-1]), is_true.ravel()
    weights = 1.0 + np.arange(len(flat)) % 3
    settings = {"max_leaves": 6, "learning_rate": 0.1, "min_rows": 20}
    trees, baseline = boosted_trees(flat, truth, weights, n_trees=7, **settings)
    model = HistGradientBoostingClassifier(max_iter=7, max_leaf_nodes=6, early_stopping=False)
    model.fit(flat, truth, sample_weight=weights)
    found = sum_of_trees(X, trees)
    np.testing.assert_allclose(baseline + found.ravel(), model.decision_function(flat), atol=0.05)
    monkeypatch.setattr("pysldl.backend.dispatch.has_numba", lambda: False)
    again, _ = boosted_trees(flat, truth, weights, n_trees=7, **settings)
    for one, other in zip(trees, again, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    assert (sum_of_trees(X, trees) == found).all()
    assert (sum_of_trees(X[:1], trees) == found[:1]).all()


def test_contributions_add_up_to_the_logit():
    candidates, Y, counts = made_up(0)
    reranker = fitted_to(TreeReranker(), candidates, Y, counts)
    row = candidates.of_rows(np.arange(N_ROWS) == 7)
    label = int(row.best(1)[0].labels[0, 0])
    parts = reranker.contributions(row, label, counts)
    score = reranker.scores(row, counts)[0][row.labels[0] == label][0]
    assert 1 / (1 + np.exp(-sum(parts.values()))) == pytest.approx(score, rel=1e-5)


@pytest.mark.parametrize("n_rows", [1, 2, 5])
def test_few_rows_leave_the_order_as_it_is(n_rows):
    candidates, Y, counts = made_up(0, useful=False)
    some = candidates.of_rows(np.arange(N_ROWS) < n_rows)
    reranker = fitted_to(TreeReranker(), some, Y[:n_rows], counts)
    assert (reranker.pop_cross_fitted_scores() == some.scores).all()
    assert (reranker.scores(some, counts) == some.scores).all()


def test_where_all_labels_have_as_many_rows_their_number_tells_nothing():
    # The rows at hand are missing among the others: those counts would tell which labels they have.
    candidates, Y, _ = made_up(0)
    at_hand = np.bincount(Y.indices, minlength=N_LABELS)
    assert at_hand.max() > 2 * at_hand.min()
    reranker = fitted_to(TreeReranker(), candidates, Y, 400 - at_hand)
    splits = reranker.left_ != np.arange(len(reranker.left_))
    assert splits.any() and FEATURES.index("frequency of the label") not in reranker.feature_[splits]


def test_what_the_trees_cannot_tell_apart_keeps_its_order():
    candidates, Y, counts = made_up(0)
    reranker = fitted_to(TreeReranker(WIDTH, n_trees=1, max_leaves=2), candidates, Y, counts)
    assert len(reranker.roots_) == 1
    scores = reranker.scores(candidates, counts)
    final = np.take_along_axis(scores, candidates.best(WIDTH)[1], axis=1)[3:]
    alike = final.round(3)
    assert len(np.unique(alike)) == 2
    for row in range(len(final)):
        assert all((np.diff(final[row][alike[row] == value]) < 0).all() for value in np.unique(alike))


def test_a_row_without_candidates_has_none_afterwards():
    candidates, Y, counts = made_up(0)
    reranker = fitted_to(TreeReranker(5), candidates, Y, counts)
    nothing = Candidates(
        np.full((1, WIDTH), -1, np.int32),
        np.full((1, WIDTH), -np.inf, np.float32),
        np.zeros((1, WIDTH), np.float32),
        np.full((1, WIDTH), -np.inf, np.float32),
    )
    assert np.isneginf(reranker.scores(nothing, counts)).all()


@pytest.mark.parametrize(
    ("name", "value"), [("n_candidates", 0), ("n_trees", 0), ("learning_rate", 0.0), ("propensity_power", 2.0)]
)
def test_bad_parameters_are_named(name, value):
    candidates, Y, counts = made_up(0)
    with pytest.raises(DataError, match=f"'{name}' parameter of TreeReranker"):
        fitted_to(TreeReranker(**{name: value}), candidates, Y, counts)


@pytest.fixture(scope="module")
def fitted():
    data = make_asymmetric_multilabel(1500, 200, 60, random_state=0)
    model = SLDLClassifier(
        decoder=FeatureNeighborDecoder(20), ranker=LinearRanker(20), reranker=TreeReranker(), random_state=0
    )
    return data, clone(model).fit(data.X[:1200], data.Y[:1200])


def test_in_the_classifier_it_is_saved_and_loaded(fitted, tmp_path):
    data, model = fitted
    assert model.reranker_.gain_ > -1 and model.calibration_ is not None
    model.save(tmp_path / "model")
    expected = model.predict_topk(data.X[1200:], 5)
    for load in (load_model, load_predictor):
        found = load(tmp_path / "model").predict_topk(data.X[1200:], 5)
        assert all((one == other).all() for one, other in zip(expected, found, strict=True))


def test_explain_shows_how_the_parts_make_the_score(fitted):
    data, model = fitted
    row = data.X[[1300]]
    label = int(model.predict_topk(row, 1)[0][0, 0])
    told = model.explain(row, label)
    assert np.prod([part.value for part in told.parts]) == pytest.approx(told.score, rel=1e-4)
    if len(model.reranker_.roots_):
        assert 1 / (1 + np.exp(-sum(part.value for part in told.rescoring))) == pytest.approx(told.score, rel=1e-5)
        assert "rescored by" in str(told)


def test_explain_names_the_candidates_that_speak_for_a_label(fitted):
    data, model = fitted
    row, Y = data.X[[1300]], data.Y[:1200]
    assert len(model.reranker_.roots_)
    best = model.predict_topk(row, 3)[0][0]
    told = model.explain(row, int(best[1]), top=2)
    assert 0 < len(told.related) <= 2
    for other in told.related:
        column = model.label_column(other.label)
        assert other.rows == Y[:, [column]].sum()
        assert other.rows_with_both == Y[:, [column]].multiply(Y[:, [int(best[1])]]).sum()
        assert f"{other.rows_with_both} of its {other.rows} rows have it, too" in str(told)
    assert "Other candidates that share rows with it" in told._repr_html_()
