"""One stage for small problems, another for large ones."""

import numpy as np
import pytest
from sklearn.base import clone

from pysldl import SLDLClassifier
from pysldl.decoding import FeatureNeighborDecoder, NeighborDecoder
from pysldl.embedding import RandomLabelEmbedding
from pysldl.estimator.size_dispatch import SizeDispatch, for_size, stage_for
from pysldl.exceptions import DataError

DISPATCH = SizeDispatch("small", "large", limit=1000, most_labels=20)


@pytest.mark.parametrize(
    ("n_samples", "n_labels", "expected"),
    [(100, 10, "small"), (101, 10, "large"), (50, 20, "small"), (1, 21, "large"), (10**9, 1, "large")],
)
def test_small_is_within_both_limits(n_samples, n_labels, expected):
    assert stage_for(DISPATCH, n_samples, n_labels) == expected


def test_other_stages_are_what_they_are():
    assert stage_for("stage", 1, 1) == "stage" and stage_for(None, 1, 1) is None


@pytest.mark.parametrize("wrong", [{"limit": -1}, {"limit": 0.5}, {"most_labels": None}])
def test_limits_are_checked(wrong):
    with pytest.raises(DataError, match=f"'{next(iter(wrong))}' parameter of SizeDispatch"):
        stage_for(SizeDispatch(**wrong), 1, 1)


@pytest.mark.filterwarnings("ignore::pysldl.exceptions.SLDLWarning")
@pytest.mark.parametrize(("most_labels", "kind"), [(4, NeighborDecoder), (2, FeatureNeighborDecoder)])
def test_the_classifier_fits_the_stage_of_its_size(most_labels, kind):
    decoder = SizeDispatch(NeighborDecoder(3), FeatureNeighborDecoder(3), most_labels=most_labels)
    clf = SLDLClassifier(RandomLabelEmbedding(4), decoder=decoder, calibrate=False, random_state=0)
    X, Y = np.eye(9, 5) + 0.1, np.tile(np.eye(3), (3, 1))
    assert type(clf.fit(X, Y).decoder_) is kind
    assert (clf.mapping_ is None) is (kind is FeatureNeighborDecoder)
    assert type(for_size(clf, *Y.shape).decoder) is kind


def test_nested_parameters_go_through():
    dispatch = SizeDispatch(NeighborDecoder(3), FeatureNeighborDecoder(3))
    clf = clone(SLDLClassifier(decoder=dispatch).set_params(decoder__small__n_neighbors=9))
    assert clf.decoder.small.n_neighbors == 9
