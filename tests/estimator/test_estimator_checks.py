"""scikit-learn's own checks of every preset, with each exception and its reason; searches, pipelines, containers."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from pysldl import make_sldl
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.estimator.presets import PRESETS

FEW_STEPS = {"embedding__n_components": 4, "embedding__n_steps": 3}
SMALL = {
    "paper": FEW_STEPS | {"decoder__n_neighbors": 3},
    "official": FEW_STEPS | {"decoder__n_neighbors": 3},
    "blend": FEW_STEPS | {"decoder__neighbors__n_neighbors": 3},
}
SPARSE = "predict answers an indicator with a CSR array, sparse as everything else; the check asks for a dense one"
SHARES = "of two classes the probabilities are shares of the votes, and the decision is their difference"
EXCEPTIONS = {
    "check_classifiers_multilabel_output_format_predict": SPARSE,
    "check_classifiers_multilabel_representation_invariance": SPARSE,
}
OF_PRESETS = {name: {"check_decision_proba_consistency": SHARES} for name in ("paper", "blend")}


def small(preset, **changes):
    return make_sldl(preset, **SMALL.get(preset, {}), **changes)


ESTIMATORS = [small(preset) for preset in PRESETS]


def expected_failures(estimator):
    preset = list(PRESETS)[next(place for place, known in enumerate(ESTIMATORS) if known is estimator)]
    return EXCEPTIONS | OF_PRESETS.get(preset, {})


@pytest.mark.filterwarnings("ignore:Comparing two sparse matrices")
@pytest.mark.filterwarnings("ignore::pysldl.exceptions.SLDLWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return make_asymmetric_multilabel(400, 150, 30, random_state=0)


def test_clone_keeps_every_nested_parameter():
    clf = make_sldl("paper", embedding__n_components=48, decoder__n_neighbors=7, mapping__alpha=3.0)
    copy = clone(clf)
    assert copy.get_params()["embedding__n_components"] == 48
    assert copy.get_params()["decoder__n_neighbors"] == 7
    assert copy.get_params()["mapping__alpha"] == 3.0


@pytest.mark.filterwarnings("ignore:.*will never be predicted")
def test_grid_search_chooses_among_nested_parameters(data):
    search = GridSearchCV(
        make_sldl("paper", embedding__n_components=8, embedding__n_steps=10, calibrate=False),
        {"decoder__n_neighbors": [1, 20]},
        cv=2,
    ).fit(data.X, data.Y)
    assert search.best_params_ == {"decoder__n_neighbors": 20}


@pytest.mark.filterwarnings("ignore:.*will never be predicted")
def test_pipeline_and_cross_validation(data):
    pipeline = make_pipeline(MaxAbsScaler(), small("paper"))
    assert cross_val_score(pipeline, data.X, data.Y.toarray(), cv=2).min() > 0.3
    assert isinstance(pipeline.fit(data.X, data.Y).predict(data.X[:3]), sparse.csr_array)


@pytest.mark.filterwarnings("ignore:.*will never be predicted")
def test_predictions_of_all_folds_come_together(data):
    clf, folds = make_sldl("fast"), KFold(2)
    names = [data.label_names[data.Y[[row]].indices].tolist() for row in range(data.n_samples)]
    by_name = cross_val_predict(clf, data.X, names, cv=folds)
    indicator = cross_val_predict(clf, data.X, data.Y, cv=folds)
    assert [len(row) for row in by_name] == np.diff(indicator.indptr).tolist()
    train, test = next(folds.split(data.X))
    assert by_name[: len(test)].tolist() == clf.fit(data.X[train], [names[row] for row in train]).predict(data.X[test])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix, lambda X: X.toarray(), sparse.csc_array])
def test_every_container_and_precision_gives_the_same_ranking(data, container, dtype):
    clf = small("paper", calibrate=False)
    expected, _ = clone(clf).fit(data.X, data.Y).predict_topk(data.X[:50], 3)
    X, Y = container(data.X.astype(dtype)), container(data.Y)
    labels, _ = clf.fit(X, Y).predict_topk(X[:50], 3)
    assert (labels == expected).mean() > 0.98
