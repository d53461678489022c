"""The table of fitted attributes: a value that does not belong there is refused by its name, without any file."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from pysldl.decoding import BlendDecoder, FeatureNeighborDecoder, JointNeighborDecoder, LinearReadout
from pysldl.estimator.calibration import ScoreCalibration
from pysldl.estimator.predictor import StagedPredictor
from pysldl.exceptions import ModelFormatError
from pysldl.mapping.linear_predictor import LinearPredictor
from pysldl.persistence.packing import unpack_indices, unpack_values
from pysldl.persistence.state import check_state
from pysldl.persistence.vectorizers import restore_vectorizer
from pysldl.ranking import TreeReranker

TREES = {
    "pairs_": sparse.csr_array((3, 3), dtype=np.float32),
    "feature_": np.array([0, 0, 0]),
    "threshold_": np.array([0.5, 0.0, 0.0], dtype=np.float32),
    "left_": np.array([1, 1, 2]),
    "right_": np.array([2, 1, 2]),
    "value_": np.array([0.0, 1.0, 2.0], dtype=np.float32),
    "roots_": np.array([0]),
    "depth_": 1,
    "baseline_": 0.0,
}
VOTES = {"Y_": sparse.csr_array(np.eye(3, dtype=np.float32)), "prior_": sparse.csr_array((1, 3), dtype=np.float32)}
JOINT = {
    **VOTES,
    "index_": None,
    "axes_": None,
    "vectors_": np.zeros((3, 4), dtype=np.float32),
    "n_neighbors_": 2,
    "weight_": 0.5,
    "temperature_": 1.0,
}
CLASSIFIER = {
    "label_names_": np.array(["a"], dtype=object),
    "label_counts_": np.array([1]),
    "target_kind_": "indicator",
    "n_samples_": 1,
    "n_features_in_": 1,
    "feature_names_": None,
}
CALIBRATION = {"scores_": np.array([0.0, 1.0]), "probabilities_": np.array([-1.0, 1.0]), "threshold_": 0.5}
READOUT = {"B_": np.zeros((2, 3), dtype=np.float32)}


def fitted(model, state):
    vars(model).update(state)
    return model


def test_whole_states_pass():
    check_state(fitted(TreeReranker(), TREES))
    check_state(fitted(JointNeighborDecoder(), JOINT), {"features": 3, "latent": 1})
    check_state(fitted(LinearReadout(), READOUT))


@pytest.mark.parametrize(
    ("model", "state", "sizes", "message"),
    [
        (StagedPredictor(), CLASSIFIER | {"label_names_": 3}, {}, "'label_names_' of StagedPredictor must be an array"),
        (StagedPredictor(), CLASSIFIER | {"label_names_": np.array([], object)}, {}, "'label_names_' .* has no labels"),
        (StagedPredictor(), CLASSIFIER | {"target_kind_": 3}, {}, "'target_kind_' of StagedPredictor must be a text"),
        (StagedPredictor(), CLASSIFIER | {"feature_names_": 3}, {}, "'feature_names_' .* must be an array of texts"),
        (ScoreCalibration(), CALIBRATION, {}, "'probabilities_' .* holds -1.0, which is less than 0"),
        (TreeReranker(), TREES | {"left_": np.array([1, 0, 2])}, {}, "lead back to where they came from"),
        (TreeReranker(), TREES | {"right_": np.array([2, 1, 3])}, {}, "'right_' of TreeReranker holds 3, but must be"),
        (TreeReranker(), TREES | {"feature_": np.array([0, 99, 0])}, {}, "ask for more than .* features"),
        (TreeReranker(), TREES, {"labels": 4}, "'pairs_' of TreeReranker has 3 labels, but the model has 4"),
        (JointNeighborDecoder(), JOINT, {"features": 3, "latent": 2}, "JointNeighborDecoder have 4 columns"),
        (
            JointNeighborDecoder(),
            JOINT | {"axes_": np.zeros((2, 2), dtype=np.float32)},
            {"features": 3, "latent": 2},
            "JointNeighborDecoder have 4 columns",
        ),
        (JointNeighborDecoder(), JOINT | {"Y_": np.eye(3)}, {}, "'Y_' of .* must be a sparse matrix of float32"),
        (JointNeighborDecoder(), JOINT | {"n_neighbors_": 4}, {}, "'n_neighbors_' .* is 4, but there are 3"),
        (
            StagedPredictor(),
            CLASSIFIER | {"vectorizer_": 3},
            {},
            "'vectorizer_' of StagedPredictor must be a vectorizer",
        ),
    ],
    ids=[
        "names",
        "no names",
        "kind",
        "features",
        "probability",
        "circle",
        "node that is none",
        "feature that is none",
        "pairs of other labels",
        "columns",
        "columns beside axes",
        "dense labels",
        "too many neighbors",
        "vectorizer",
    ],
)
def test_what_does_not_belong_is_named(model, state, sizes, message):
    with pytest.raises(ModelFormatError, match=message):
        check_state(fitted(model, state), dict(sizes))


def test_attributes_of_a_classifier_fit_each_other():
    readout = fitted(LinearReadout(), {"B_": np.zeros((1, 1), dtype=np.float32)})
    mapping = fitted(LinearPredictor(), {"coef_": np.ones((1, 1)), "intercept_": np.ones(1), "one_dimensional_": False})
    mapping.n_features_in_, mapping.fit_intercept = 1, True
    state = CLASSIFIER | {"decoder_": readout, "mapping_": mapping, "embedding_": None, "ranker_": None}
    state |= dict.fromkeys(("reranker_", "vectorizer_", "calibration_", "feature_means_", "feature_scales_"))
    check_state(fitted(StagedPredictor(), state))
    rates = {"name_rates_": np.ones(2), "mean_name_rate_": 0.5}
    with pytest.raises(ModelFormatError, match="2 rates of names for 1 labels"):
        check_state(fitted(StagedPredictor(), state | rates))
    vectorizer = CountVectorizer().fit(["one two"])
    with pytest.raises(ModelFormatError, match="the vectorizer has 2 terms, but the model 1 features"):
        check_state(fitted(StagedPredictor(), state | {"vectorizer_": vectorizer}))
    mapping.fit_intercept = "yes"
    with pytest.raises(ModelFormatError, match="'fit_intercept' of LinearPredictor must be one of True, False"):
        check_state(fitted(StagedPredictor(), state))
    with pytest.raises(ModelFormatError, match="the decoder works on codes, but no mapping"):
        check_state(fitted(StagedPredictor(), state | {"mapping_": None}))


def test_the_neighbors_of_a_blend_are_of_the_kind_that_was_asked_for():
    readout = fitted(LinearReadout(), READOUT)
    blend = fitted(BlendDecoder(FeatureNeighborDecoder()), {"neighbors_": readout, "readout_": readout, "weight_": 0.5})
    with pytest.raises(ModelFormatError, match="neighbors of BlendDecoder are of another kind than its parameter says"):
        check_state(blend)


def test_packed_matrices_that_cannot_be():
    gaps = np.array([0, 1], dtype=np.uint8)
    assert unpack_indices(gaps, np.array([0, 2]), 3).tolist() == [0, 2]
    for stream, indptr, n_columns, message in (
        (gaps, [0, 3], 3, "more or fewer columns than values"),
        (gaps, [0, 2], 2, "a column beyond its shape"),
        (gaps.astype(np.float32), [0, 2], 3, "other arrays than it needs"),
    ):
        with pytest.raises(ValueError, match=message):
            unpack_indices(stream, np.array(indptr), n_columns)
    with pytest.raises(ValueError, match="more or fewer values than columns"):
        unpack_values(np.ones(3, dtype=np.float32), 2, np.float32)


def test_vectorizers_with_something_else_inside():
    with pytest.raises(ValueError, match="may not have tokenizer="):
        restore_vectorizer("TfidfVectorizer", {"tokenizer": "os.system"}, {})
    with pytest.raises(ValueError, match="terms of a vectorizer must be texts"):
        restore_vectorizer("TfidfVectorizer", {}, {"vocabulary_": [1, 2]})
    with pytest.raises(ValueError, match="may not have ngram_range="):
        restore_vectorizer("TfidfVectorizer", {"ngram_range": (1, "2")}, {})
    with pytest.raises(ValueError, match="may not have dtype="):
        restore_vectorizer("TfidfVectorizer", {"dtype": np.array([1, 2])}, {})
    with pytest.raises(KeyError, match="DictVectorizer"):
        restore_vectorizer("DictVectorizer", {}, {})
    with pytest.raises(ValueError, match="the same term twice"):
        restore_vectorizer("CountVectorizer", {}, {"vocabulary_": ["a", "a"]})
