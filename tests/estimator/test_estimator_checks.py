"""scikit-learn's own checks of the classifier, with each exception and its reason."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from pysldl import SLDLClassifier, make_sldl
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.decoding import NeighborDecoder
from pysldl.embedding import GaussianLabelEmbedding

SMALL = SLDLClassifier(GaussianLabelEmbedding(8, n_steps=20), decoder=NeighborDecoder(3), random_state=0)

EXCEPTIONS = {
    "check_classifiers_multilabel_output_format_predict": (
        "predict answers an indicator with a CSR array, sparse as everything else; the check asks for a dense one"
    ),
    "check_classifiers_multilabel_representation_invariance": "as above",
}


@parametrize_with_checks([SMALL], expected_failed_checks=lambda estimator: EXCEPTIONS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return make_asymmetric_multilabel(random_state=0)


def test_clone_keeps_every_nested_parameter():
    clf = make_sldl("paper", embedding__n_components=48, decoder__n_neighbors=7, mapping__alpha=3.0)
    copy = clone(clf)
    assert copy.get_params()["embedding__n_components"] == 48
    assert copy.get_params()["decoder__n_neighbors"] == 7
    assert copy.get_params()["mapping__alpha"] == 3.0


@pytest.mark.filterwarnings("ignore:.*will never be predicted")
def test_grid_search_chooses_among_nested_parameters(data):
    search = GridSearchCV(
        make_sldl("paper", embedding__n_components=8, embedding__n_steps=10),
        {"decoder__n_neighbors": [1, 20]},
        cv=2,
    ).fit(data.X, data.Y)
    assert search.best_params_ == {"decoder__n_neighbors": 20}


@pytest.mark.filterwarnings("ignore:.*will never be predicted")
def test_pipeline_and_cross_validation(data):
    pipeline = make_pipeline(MaxAbsScaler(), clone(SMALL))
    assert cross_val_score(pipeline, data.X, data.Y.toarray(), cv=2).min() > 0.3
    assert isinstance(pipeline.fit(data.X, data.Y).predict(data.X[:3]), sparse.csr_array)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix, lambda X: X.toarray(), sparse.csc_array])
def test_every_container_and_precision_gives_the_same_ranking(data, container, dtype):
    expected, _ = clone(SMALL).fit(data.X, data.Y).predict_topk(data.X[:50], 3)
    X, Y = container(data.X.astype(dtype)), container(data.Y)
    labels, _ = clone(SMALL).fit(X, Y).predict_topk(X[:50], 3)
    assert (labels == expected).mean() > 0.98
