"""AdaBoost.C2: the update by hand, the learners against slow computations, the chain, both variants."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from pysldl.baselines import AdaBoostC2, logistic
from pysldl.baselines.adaboost_c2 import classifier
from pysldl.baselines.adaboost_c2.classifier import boost
from pysldl.baselines.adaboost_c2.linear_chain import LinearChain, solve_chain
from pysldl.baselines.adaboost_c2.svm_chain import SVMChain
from pysldl.baselines.logistic import fit_sigmoids
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.exceptions import DataError, MemoryLimitError
from pysldl.metrics import evaluate


@pytest.fixture(scope="module")
def problem():
    """Fifty rows of five features with three labels, of which the third follows from the first two."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(50, 5)).astype(np.float32)
    first, second = X[:, 0] + 0.5 * rng.normal(size=50) > 0, X[:, 1] + 0.5 * rng.normal(size=50) > 0
    Y = np.stack([first, second, first != second], axis=1).astype(np.float32)
    return X, sparse.csr_array(Y)


def test_three_rows_by_hand():
    # Weights 1/3 each, row 0 wrong: error 1/3, alpha = ln(2)/2.
    # Unnormalized: wrong 1/3 * sqrt 2, right 1/3 / sqrt 2, in the ratio 2 : 1 : 1.
    weights = np.full((3, 1), 1 / 3, dtype=np.float32)
    errors, alphas, changed = boost(weights, np.array([[True], [False], [False]]))
    np.testing.assert_allclose(errors, [1 / 3], rtol=1e-6)
    np.testing.assert_allclose(alphas, [0.5 * np.log(2.0)], rtol=1e-6)
    np.testing.assert_allclose(changed[:, 0], [1 / 2, 1 / 4, 1 / 4], rtol=1e-6)
    # Then row 1 wrong: error 1/4, alpha = ln(3)/2. Unnormalized in units of 1/sqrt 3: 1/2, 3/4, 1/4.
    errors, alphas, changed = boost(changed, np.array([[False], [True], [False]]))
    np.testing.assert_allclose(errors, [1 / 4], rtol=1e-6)
    np.testing.assert_allclose(alphas, [0.5 * np.log(3.0)], rtol=1e-6)
    np.testing.assert_allclose(changed[:, 0], [1 / 3, 1 / 2, 1 / 6], rtol=1e-6)


def test_three_rows_by_hand_in_the_official_variant():
    # The reversed sign: wrong 1/3 / sqrt 2, right 1/3 * sqrt 2, in the ratio 1 : 2 : 2.
    weights = np.full((3, 1), 1 / 3, dtype=np.float32)
    _, _, changed = boost(weights, np.array([[True], [False], [False]]), reversed_update=True)
    np.testing.assert_allclose(changed[:, 0], [1 / 5, 2 / 5, 2 / 5], rtol=1e-6)


def test_after_the_update_the_same_learner_is_as_good_as_chance():
    rng = np.random.RandomState(0)
    weights = rng.dirichlet(np.ones(20), size=4).T.astype(np.float32)
    wrong = rng.uniform(size=(20, 4)) < 0.3
    _, _, changed = boost(weights, wrong)
    np.testing.assert_allclose((changed * wrong).sum(axis=0), 0.5, rtol=1e-5)
    np.testing.assert_allclose(changed.sum(axis=0), 1.0, rtol=1e-5)


def test_perfect_and_hopeless_learners_stay_finite():
    weights = np.full((4, 2), 0.25, dtype=np.float32)
    wrong = np.array([[False, True]] * 4)
    errors, alphas, changed = boost(weights, wrong)
    assert errors.tolist() == [0.0, 1.0]
    assert alphas[0] == pytest.approx(0.5 * np.log(1e10), rel=1e-6)
    assert alphas[1] == 0.0
    np.testing.assert_allclose(changed, 0.25)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_chain_solver_against_one_solve_per_label(container):
    rng = np.random.RandomState(1)
    A = rng.normal(size=(30, 8))
    targets = rng.uniform(size=(30, 3)) < 0.4
    weights = rng.uniform(0.0, 3.0, size=(30, 3))
    seen = np.array([4, 6, 8])
    W = solve_chain(container(A), targets, weights, seen, 0.7, tol=1e-12)
    for k, end in enumerate(seen):
        head = A[:, :end]
        scaled = head * weights[:, [k]]
        expected = np.linalg.solve(head.T @ scaled + 0.7 * np.eye(end), scaled.T @ targets[:, k])
        np.testing.assert_allclose(W[:end, k], expected, rtol=1e-8, atol=1e-10)
        assert (W[end:, k] == 0).all()


def test_equal_weights_need_one_step():
    rng = np.random.RandomState(1)
    A, targets = rng.normal(size=(30, 8)), rng.uniform(size=(30, 3)) < 0.4
    seen = np.array([4, 6, 8])
    once = solve_chain(A, targets, np.ones((30, 3)), seen, 0.7, max_iter=1)
    np.testing.assert_allclose(once, solve_chain(A, targets, np.ones((30, 3)), seen, 0.7, tol=1e-12), atol=1e-12)


@pytest.mark.parametrize("learner", ["ridge", "logistic"])
def test_a_label_sees_only_what_comes_before_it(problem, learner):
    X, Y = problem
    chain = np.array([2, 0, 1])
    fitted = LinearChain(learner).fit(X, Y, chain, chain, np.full((50, 3), 0.02, dtype=np.float32))
    visible = fitted.chain_coef_ != 0  # rows: labels, columns: learners of labels 2, 0, 1
    assert visible.tolist() == [[False, False, True], [False, False, False], [False, True, True]]


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("learner", ["ridge", "logistic"])
def test_predictions_walk_along_the_chain(problem, learner, equal):
    X, Y = problem
    chain = np.array([2, 0, 1])
    weights = np.full((50, 3), 0.02, dtype=np.float32)
    if not equal:
        weights[:10] *= 2.0
    fitted = LinearChain(learner).fit(X, Y, chain, chain, weights / weights.sum(axis=0))
    own = (lambda v: np.clip(v, 0, 1)) if learner == "ridge" else (lambda v: 1 / (1 + np.exp(-v)))
    P = np.zeros((50, 3), dtype=np.float32)
    fitted.fill(X, P)
    for row in range(5):
        seen = np.zeros(3)
        for number, label in enumerate(chain):
            value = X[row] @ fitted.coef_[:, number] + fitted.intercept_[number] + seen @ fitted.chain_coef_[:, number]
            if equal:
                seen[label] = own(value)
            else:
                seen[label] = 1 / (1 + np.exp(-fitted.slope_[number] * value - fitted.offset_[number]))
        np.testing.assert_allclose(P[row], seen, atol=1e-5)


def test_sigmoids_minimize_the_cross_entropy_with_platts_targets(monkeypatch):
    rng = np.random.RandomState(0)
    values = rng.normal(size=(60, 4)) * [1.0, 20.0, 0.01, 1.0] + [0.0, 5.0, 0.0, 0.0]
    targets = values + rng.normal(size=(60, 4)) * [1.0, 30.0, 0.0, 1e9] > [0.5, 0.0, 0.01, 1e8]  # separable; noise
    monkeypatch.setattr(logistic, "BLOCK_BYTES", 3 * 8 * 60)  # two blocks
    slopes, offsets = fit_sigmoids(values, targets)
    for k in range(4):
        n_positive = targets[:, k].sum()
        goal = np.where(targets[:, k], (n_positive + 1) / (n_positive + 2), 1 / (60 - n_positive + 2))

        def loss(pair, goal=goal, value=values[:, k]):
            t = pair[0] * (value - value.mean()) / value.std() + pair[1]
            return (np.logaddexp(0, t) - goal * t).sum() + logistic.PENALTY * pair[0] ** 2 / 2

        best = minimize(loss, [0.0, 0.0], tol=1e-10).x
        spread, center = values[:, k].std(), values[:, k].mean()
        np.testing.assert_allclose([slopes[k] * spread, offsets[k] + slopes[k] * center], best, rtol=1e-3, atol=1e-3)


def test_sigmoids_of_values_that_tell_nothing_give_the_share():
    slopes, offsets = fit_sigmoids(np.ones((10, 1)), np.arange(10)[:, None] < 3)
    assert 1 / (1 + np.exp(-(slopes[0] + offsets[0]))) == pytest.approx((3 * 4 / 5 + 7 / 9) / 10)


def test_kernel_chain_is_scikit_learns_svc(problem):
    X, Y = problem
    chain = np.array([0, 1, 2])
    weights = np.random.RandomState(2).dirichlet(np.ones(50), size=3).T.astype(np.float32)
    fitted = SVMChain().fit(X, Y, chain, chain, weights)
    dense = Y.toarray()
    for number, label in enumerate(chain):
        design = np.hstack([X, dense[:, :label]]).astype(np.float64)
        svm = SVC().fit(design, dense[:, label] > 0, sample_weight=50 * weights[:, number])
        assert fitted.gamma_[number] == pytest.approx(1.0 / (design.shape[1] * design.var()), rel=1e-5)
        kernel = rbf_kernel(design, gamma=fitted.gamma_[number])
        decision = kernel @ fitted.dual_coef_[[number]].toarray()[0] + fitted.intercept_[number]
        np.testing.assert_allclose(decision, svm.decision_function(design), atol=2e-3)
        assert (fitted.decisions(X, Y)[:, number] == svm.predict(design)).all()


def test_kernel_chain_predicts_along_the_chain(problem):
    X, Y = problem
    chain = np.array([2, 0, 1])
    fitted = SVMChain().fit(X, Y, chain, chain[1:], np.full((50, 2), 0.02, dtype=np.float32))
    P = np.full((50, 3), 0.25, dtype=np.float32)  # label 2 has no learner here: its probability is given
    fitted.fill(X, P)
    assert (P[:, 2] == np.float32(0.25)).all()
    dense = Y.toarray()
    seen = np.full((50, 1), 0.25)
    for number, label in enumerate(chain[1:]):
        before = chain[: number + 1]
        rows, support = np.hstack([X, seen]), np.hstack([X, dense[:, before]])
        kernel = rbf_kernel(rows, support, gamma=fitted.gamma_[number])
        decision = kernel @ fitted.dual_coef_[[number]].toarray()[0] + fitted.intercept_[number]
        expected = 1 / (1 + np.exp(-(fitted.slope_[number] * decision + fitted.offset_[number])))
        np.testing.assert_allclose(P[:, label], expected, atol=1e-4)
        seen = np.hstack([seen, P[:, [label]]])


def test_paths_follow_the_paper(problem):
    """The rounds of the estimator, repeated with one independent solve per label."""
    X, Y = problem
    model = AdaBoostC2(4, 0.05, learner="ridge", normalize=False, calibrate=False, random_state=3).fit(X, Y)
    truth = Y.toarray() > 0
    weights = np.full((50, 3), 0.02)
    errors, alphas = np.full(3, np.inf), np.zeros((4, 3))
    for number, learners in enumerate(model.rounds_):
        if number:
            chain = np.argsort(errors, kind="stable")
            active = [label for label in chain if errors[label] >= 0.05]
            assert learners.labels_.tolist() == active
        else:
            chain = learners.labels_
        new_errors = errors.copy()
        for slot, label in enumerate(learners.labels_):
            before = chain[: list(chain).index(label)]
            design = np.hstack([np.ones((50, 1)), X, truth[:, before]])
            scaled = design * (50 * weights[:, [label]])
            w = np.linalg.solve(design.T @ scaled + np.eye(design.shape[1]), scaled.T @ truth[:, label])
            np.testing.assert_allclose(learners.coef_[:, slot], w[1:6], rtol=0.02, atol=3e-3)
            wrong = (design @ w >= 0.5) != truth[:, label]
            error = weights[wrong, label].sum()
            alpha = 0.5 * np.log((1 - error) / max(error, 1e-10)) if error < 0.5 else 0.0
            weights[:, label] *= np.exp(np.where(wrong, alpha, -alpha))
            weights[:, label] /= weights[:, label].sum()
            new_errors[label], alphas[number, label] = error, alpha
        errors = new_errors
    np.testing.assert_allclose(model.vote_weights_, (alphas / alphas.sum(axis=0))[: len(model.rounds_)], atol=1e-3)


@pytest.mark.parametrize("learner", ["kernel_ridge", "ridge"])
def test_score_is_the_weighted_mean_of_the_rounds(problem, learner, monkeypatch):
    monkeypatch.setattr(classifier, "BLOCK_BYTES", 4 * 50 * 20)  # of the kernel: 20 rows at a time
    X, Y = problem
    model = AdaBoostC2(3, learner=learner, C=0.1, normalize=False, random_state=0).fit(X, Y)
    assert len(model.rounds_) == 3
    features = X if learner == "ridge" else rbf_kernel(X, gamma=1.0 / (5 * X.var()))
    P, expected = np.zeros((50, 3), dtype=np.float32), np.zeros((50, 3))
    for learners, share in zip(model.rounds_, model.vote_weights_, strict=True):
        learners.fill(features, P)
        for label in learners.labels_:
            expected[:, label] += share[label] * P[:, label]
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-5)
    np.testing.assert_allclose(model.vote_weights_.sum(axis=0), 1.0, rtol=1e-5)


def test_a_finished_path_stops_and_its_learner_stays_in_the_chain(problem):
    X, _ = problem
    easy, hard = X[:, 0] > 0, np.random.RandomState(0).uniform(size=50) < 0.5
    Y = np.stack([easy, hard], axis=1).astype(np.float32)
    model = AdaBoostC2(n_rounds=3, delta=0.2, learner="ridge", calibrate=False, random_state=0).fit(X, Y)
    assert 0 in model.rounds_[0].labels_
    assert [learners.labels_.tolist() for learners in model.rounds_[1:]] == [[1], [1]]
    assert all(learners.chain_coef_[0, 0] != 0 for learners in model.rounds_[1:])


def test_official_variant_drops_the_learner_that_finishes_a_path(problem):
    X, _ = problem
    easy, hard = X[:, 0] > 0, np.random.RandomState(0).uniform(size=50) < 0.5
    Y = np.stack([easy, hard], axis=1).astype(np.float32)
    official = AdaBoostC2(10, 0.2, learner="ridge", variant="official", calibrate=False, random_state=0).fit(X, Y)
    lengths = [sum(label in learners.labels_ for learners in official.rounds_) for label in (0, 1)]
    assert lengths[0] == 1
    assert official.vote_weights_[0, 0] == 1.0
    assert 1 < lengths[1] < 10  # with the sign reversed the weighted error falls, until it is below delta
    assert official.vote_weights_[lengths[1] - 1, 1] == 0.0


@pytest.mark.parametrize("learner", ["kernel_ridge", "ridge", "logistic", "svc"])
def test_beats_the_prior(learner):
    data = make_asymmetric_multilabel(random_state=0)
    train, test = data.split("train"), data.split("test")
    frequent = np.argsort(-train.Y.sum(axis=0), kind="stable")[:30]
    model = AdaBoostC2(n_rounds=2, learner=learner, calibrate=False, random_state=0)
    model.fit(train.X[:200], train.Y[:200][:, frequent])
    truth = test.Y[:, frequent]
    ours = evaluate(truth, model.predict_topk(test.X, 3)[0], ks=(3,))["P@3"]
    prior = np.argsort(-model.label_counts_, kind="stable")[:3]
    assert ours > 1.2 * evaluate(truth, np.tile(prior, (truth.shape[0], 1)), ks=(3,))["P@3"]


def test_reports_progress(problem):
    seen = []
    AdaBoostC2(n_rounds=2, delta=1e-9, calibrate=False, progress=seen.append).fit(*problem)
    assert [(report.step, report.total) for report in seen] == [(1, 2), (2, 2)]
    assert 0 < seen[0].loss < 0.5


@pytest.mark.parametrize(
    ("name", "value"), [("n_rounds", 0), ("delta", 0.0), ("C", -1.0), ("learner", "tree"), ("variant", "quirks")]
)
def test_bad_parameters(problem, name, value):
    with pytest.raises(DataError, match=f"The '{name}' parameter of AdaBoostC2 must be"):
        AdaBoostC2(**{name: value}).fit(*problem)


def test_refuses_what_does_not_fit_into_memory(problem):
    with pytest.raises(MemoryLimitError, match=r"Boosting 3 labels over 50 rows.*learner='ridge'"):
        AdaBoostC2(memory_limit="1 kB").fit(*problem)
    with pytest.raises(MemoryLimitError, match="Use fewer rounds"):
        AdaBoostC2(learner="ridge", memory_limit="1 kB").fit(*problem)
