"""What every classifier must do: those of the paper's comparison, the controls, and SLDL itself."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from pysldl.baselines import BASELINES, CONTROLS
from pysldl.estimator.presets import PRESETS, make_sldl
from pysldl.exceptions import DataError, MissingDependencyError, SLDLWarning
from pysldl.persistence import load_model, save_model

METHODS = {
    **BASELINES,
    **CONTROLS,
    **{f"SLDL {preset}": lambda preset=preset, **changes: make_sldl(preset, **changes) for preset in PRESETS},
    "AdaC2 logistic": lambda **changes: BASELINES["AdaC2"](learner="logistic", **changes),
    "AdaC2 svc": lambda **changes: BASELINES["AdaC2"](learner="svc", **changes),
}

# A toy needs fewer, larger steps than a real data set.
QUICK = {"epochs": 20, "batch_size": 16, "learning_rate": 0.01, "patience": None}
OVERRIDES = dict.fromkeys(("DXML", "FL", "CB", "DB", "PACA", "FLEM", "DELA", "CLIF", "KD-TEA"), QUICK)
OVERRIDES["PACA"] = QUICK | {"learning_rate": 0.003}  # with 0.01 it depends on the seed

N_GROUPS = 4


def toy(n_rows, seed):
    """Four groups of rows, each with features and a label of its own; two groups share a further label."""
    rng = np.random.RandomState(seed)
    group = np.arange(n_rows) % N_GROUPS
    X = np.zeros((n_rows, 12), dtype=np.float32)
    for column in range(3):
        X[np.arange(n_rows), 3 * group + column] = rng.uniform(0.5, 1.0, n_rows)
    noise = rng.uniform(0.0, 0.1, X.shape) * (rng.uniform(size=X.shape) < 0.3)
    Y = np.zeros((n_rows, 6), dtype=np.float32)
    Y[np.arange(n_rows), group] = 1.0
    Y[np.arange(n_rows), 4 + group // 2] = 1.0
    return X + noise.astype(np.float32), Y


X_TRAIN, Y_TRAIN = toy(40, seed=0)
X_FEW, Y_FEW = X_TRAIN[:12], Y_TRAIN[:12]
X_TEST, Y_TEST = toy(24, seed=1)


def build(name, **changes):
    try:
        return METHODS[name](**OVERRIDES.get(name, {}), **changes)
    except MissingDependencyError as missing:
        pytest.skip(str(missing))


def fit(name, X, Y, **changes):
    """A fitted model; toy data makes some methods adjust themselves, which they may say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SLDLWarning)
        return build(name, **changes).fit(X, Y)


@pytest.fixture(scope="module", params=METHODS, ids=list(METHODS))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def fitted(name):
    return fit(name, X_TRAIN, Y_TRAIN)


def test_learns_a_separable_problem(name, fitted):
    best, _ = fitted.predict_topk(X_TEST, 1)
    precision = Y_TEST[np.arange(len(X_TEST)), best[:, 0]].mean()
    if name == "prior":
        assert precision == 0.5  # the best it can do without features: a label that half the rows carry
    else:
        assert precision >= 0.95


def test_predicts_labels_and_probabilities(fitted):
    predicted = fitted.predict(X_TEST)
    assert sparse.issparse(predicted)
    assert predicted.shape == Y_TEST.shape
    assert np.isin(predicted.data, 1.0).all()
    probabilities = fitted.predict_proba(X_TEST)
    assert probabilities.shape == Y_TEST.shape
    assert ((probabilities >= 0.0) & (probabilities <= 1.0)).all()


def test_topk_is_the_order_of_the_scores(fitted):
    labels, scores = fitted.predict_topk(X_TEST, 3)
    assert (np.diff(scores, axis=1) <= 0).all()
    found = labels >= 0
    dense = fitted.decision_function(X_TEST)
    np.testing.assert_allclose(np.take_along_axis(dense, np.maximum(labels, 0), axis=1)[found], scores[found])
    more = fitted.predict_topk(X_TEST, 10)[0]  # more than there are labels
    assert (more[:, 6:] == -1).all()


def test_sparse_equals_dense(name, fitted):
    expected = fitted.decision_function(X_TEST)
    from_dense = fit(name, X_FEW, Y_FEW).decision_function(X_TEST)
    from_sparse = fit(name, sparse.csr_array(X_FEW), sparse.csr_array(Y_FEW))
    for container in (sparse.csr_array, sparse.csr_matrix):
        np.testing.assert_allclose(fitted.decision_function(container(X_TEST)), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(from_sparse.decision_function(container(X_TEST)), from_dense, rtol=1e-3, atol=1e-4)


def test_batch_equals_single_row(fitted):
    together = fitted.decision_function(X_TEST)
    alone = np.concatenate([fitted.decision_function(X_TEST[[row]]) for row in range(len(X_TEST))])
    np.testing.assert_allclose(alone, together, rtol=1e-4, atol=1e-5)


def test_same_seed_same_scores(name):
    first, again = (fit(name, X_FEW, Y_FEW).decision_function(X_TEST) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_labels_that_no_row_and_that_every_row_carries(name):
    nowhere, everywhere = np.zeros((len(Y_TRAIN), 1)), np.ones((len(Y_TRAIN), 1))
    Y = np.hstack([nowhere, Y_TRAIN, everywhere, nowhere])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", SLDLWarning)
        model = build(name).fit(X_TRAIN, Y)
    assert sum("2 of 9 labels have no training examples" in str(warning.message) for warning in said) == 1
    assert np.isfinite(model.decision_function(X_TEST)).all()
    assert not np.isin(model.predict_topk(X_TEST, 9)[0], (0, 8)).any()
    assert not np.isin(model.predict(X_TEST).indices, (0, 8)).any()
    assert (model.predict_proba(X_TEST)[:, [0, 8]] == 0.0).all()
    assert (model.predict_topk(X_TEST, 3)[0] == 7).any(axis=1).mean() >= 0.9


def test_rows_without_labels(name):
    Y = Y_FEW.copy()
    Y[::5] = 0.0
    model = fit(name, X_FEW, Y)
    assert np.isfinite(model.decision_function(X_TEST)).all()


def test_rows_without_features(fitted):
    scores = fitted.decision_function(np.zeros((2, X_TEST.shape[1]), dtype=np.float32))
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-4, atol=1e-4)  # equal rows, but not equal lanes


@pytest.mark.parametrize("n_rows", [2, 5])
def test_fewer_rows_than_a_batch(name, n_rows):
    model = fit(name, X_TRAIN[:n_rows], Y_TRAIN[:n_rows])
    assert np.isfinite(model.decision_function(X_TEST)).all()


def test_more_neighbors_than_rows(name):
    asked = [key for key in build(name).get_params() if key.endswith("n_neighbors")]
    model = fit(name, X_TRAIN[:7], Y_TRAIN[:7], **dict.fromkeys(asked, 1000))
    labels, _ = model.predict_topk(X_TEST, 2)
    assert (labels[:, 0] >= 0).all()


def test_saved_and_loaded(fitted, tmp_path):
    save_model(fitted, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(X_TEST), fitted.decision_function(X_TEST))
    np.testing.assert_array_equal(loaded.predict_proba(X_TEST), fitted.predict_proba(X_TEST))
    assert str(loaded.get_params()) == str(fitted.get_params())


def test_clone_and_parameters(name, fitted):
    fresh = clone(fitted)
    assert not hasattr(fresh, "label_names_")
    assert str(fresh.get_params()) == str(fitted.get_params())
    assert fresh.set_params(memory_limit="1 GB").memory_limit == "1 GB"
    with pytest.raises(ValueError, match="has no parameter"):
        fresh.set_params(no_such_parameter=1)


def test_class_targets(name):
    """One class per row makes an ordinary classifier."""
    classes = np.array(["east", "north", "south", "west"])[np.arange(len(X_FEW)) % N_GROUPS]
    model = fit(name, X_FEW, classes)
    np.testing.assert_allclose(model.predict_proba(X_TEST).sum(axis=1), 1.0, rtol=1e-6)
    assert np.isin(model.predict(X_TEST), classes).all()


def test_names_in_names_out_and_scored(name):
    """`predict` answers in the form that `fit` took, and `score` takes it."""
    rows = [[f"label {column}" for column in np.flatnonzero(row)] for row in Y_TRAIN]
    model = fit(name, X_TRAIN, rows)
    assert 0 < model.score(X_TRAIN, rows) <= 1
    assert {label for row in model.predict(X_TRAIN) for label in row} <= set(model.label_names_)
    with pytest.warns(SLDLWarning, match="count as missed"):
        model.score(X_TRAIN[:2], [["label 0", "unheard of"], []])


def test_bad_parameters_are_named_by_fit(name):
    for parameter, value in {"calibrate": "yes", "memory_limit": -1, "progress": "yes", "random_state": "x"}.items():
        model = build(name)
        if parameter in model.get_params():
            with pytest.raises(DataError, match=f"The '{parameter}' parameter of {type(model).__name__} must be"):
                model.set_params(**{parameter: value}).fit(X_FEW, Y_FEW)


def test_bad_input_is_refused(name):
    with pytest.raises(ValueError, match="NaN"):
        build(name).fit(np.full_like(X_TRAIN, np.nan), Y_TRAIN)
    with pytest.raises(DataError, match="only 0 and 1"):
        build(name).fit(X_TRAIN, 2 * Y_TRAIN)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        build(name).fit(X_TRAIN[:-1], Y_TRAIN)


def test_wrong_number_of_features_is_refused(fitted):
    with pytest.raises(ValueError, match="features"):
        fitted.predict_topk(X_TEST[:, :-1], 1)


def test_registry_holds_the_papers_names():
    paper = ["SLEEC", "DXML", "FL", "CB", "DB", "PACA", "FLEM", "DELA", "CLIF", "KD-TEA", "AdaC2"]
    assert list(BASELINES) == paper
    assert list(CONTROLS) == ["prior", "knn", "ovr", "ridge"]
