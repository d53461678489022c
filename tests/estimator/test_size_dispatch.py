"""One stage for small problems, another for large ones."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from pysldl import SLDLClassifier
from pysldl.decoding import FeatureNeighborDecoder, NeighborDecoder
from pysldl.embedding import RandomLabelEmbedding
from pysldl.estimator.size_dispatch import ProblemSize, SizeDispatch, for_size, stage_for
from pysldl.exceptions import DataError
from pysldl.ranking import LinearRanker

DISPATCH = SizeDispatch("small", "large", limit=1000, most_features=20, min_density=0.1)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((100, 10, 20, 0.2), "small"),
        ((101, 10, 20, 0.2), "large"),
        ((100, 10, 21, 0.2), "large"),
        ((100, 10, 20, 0.1), "large"),
        ((100, 10, None, 0.2), "large"),
    ],
)
def test_small_is_within_all_limits(size, expected):
    assert stage_for(DISPATCH, ProblemSize(*size)) == expected


def test_other_stages_are_what_they_are():
    assert stage_for("stage", ProblemSize(1, 1)) == "stage" and stage_for(None, ProblemSize(1, 1)) is None


@pytest.mark.parametrize(("labels_per_row", "n_candidates"), [(0.5, 75), (6, 75), (10, 120), (80, 300)])
def test_rows_of_many_labels_get_more_candidates(labels_per_row, n_candidates):
    size = ProblemSize(1, 1, labels_per_row=labels_per_row)
    ranker = LinearRanker(None)
    assert stage_for(ranker, size).n_candidates == n_candidates and ranker.n_candidates is None
    assert stage_for(LinearRanker(7), size).n_candidates == 7


def test_the_size_of_dense_and_sparse_rows_is_the_same():
    X, Y = np.array([[1.0, 0.0, 0.0, 2.0], [0.0, 0.0, 0.0, 3.0]]), np.eye(2)
    assert ProblemSize.of(X, Y) == ProblemSize.of(sparse.csr_array(X), Y) == (2, 2, 4, 0.375, 1.0)


@pytest.mark.parametrize("wrong", [{"limit": -1}, {"limit": 0.5}, {"most_features": None}, {"min_density": 2}])
def test_limits_are_checked(wrong):
    with pytest.raises(DataError, match=f"'{next(iter(wrong))}' parameter of SizeDispatch"):
        stage_for(SizeDispatch(**wrong), ProblemSize(1, 1))


@pytest.mark.filterwarnings("ignore::pysldl.exceptions.SLDLWarning")
@pytest.mark.parametrize(("most_features", "kind"), [(5, NeighborDecoder), (4, FeatureNeighborDecoder)])
def test_the_classifier_fits_the_stage_of_its_size(most_features, kind):
    decoder = SizeDispatch(NeighborDecoder(3), FeatureNeighborDecoder(3), most_features=most_features)
    clf = SLDLClassifier(RandomLabelEmbedding(4), decoder=decoder, calibrate=False, random_state=0)
    X, Y = np.eye(9, 5) + 0.1, np.tile(np.eye(3), (3, 1))
    assert type(clf.fit(X, Y).decoder_) is kind
    assert (clf.mapping_ is None) is (kind is FeatureNeighborDecoder)
    assert type(for_size(clf, ProblemSize.of(X, Y)).decoder) is kind


def test_nested_parameters_go_through():
    dispatch = SizeDispatch(NeighborDecoder(3), FeatureNeighborDecoder(3))
    clf = clone(SLDLClassifier(decoder=dispatch).set_params(decoder__small__n_neighbors=9))
    assert clf.decoder.small.n_neighbors == 9
