"""Named settings: what each preset is made of, and how it is changed."""

import pytest

from pysldl import make_sldl
from pysldl.decoding import BlendDecoder, FeatureNeighborDecoder, NeighborDecoder
from pysldl.estimator.presets import PRESETS
from pysldl.estimator.size_dispatch import ProblemSize, SizeDispatch, for_size
from pysldl.exceptions import DataError
from pysldl.ranking import LinearRanker, TreeReranker


def test_the_paper_s_settings():
    clf = make_sldl("paper")
    assert (clf.embedding.n_components, clf.embedding.margin, clf.mapping.alpha) == (128, 0.1, 1.0)
    assert (clf.decoder.n_neighbors, clf.decoder.normalize, clf.mapping.fit_intercept) == (30, False, False)


def test_what_the_authors_code_does_instead():
    clf = make_sldl("official")
    assert (clf.embedding.objective, clf.embedding.n_steps, clf.mapping.positive) == ("official", 50, True)
    assert (clf.decoder.n_neighbors, clf.decoder.exact_match) == (100, "only")


def test_accurate_depends_on_the_size():
    clf = make_sldl("accurate")
    assert isinstance(clf.decoder, SizeDispatch)
    sizes = {
        "dense": (1000, 100, 500, 0.9),
        "narrow": (1000, 100, 500, 0.1),
        "short": (1000, 100, 500, 0.01),
        "wide": (1000, 100, 5000, 0.1),
    }
    found = {name: for_size(clf, ProblemSize(*size)) for name, size in sizes.items()}
    decoders = {name: type(classifier.decoder) for name, classifier in found.items()}
    assert decoders == {
        "dense": BlendDecoder,
        "narrow": BlendDecoder,
        "short": FeatureNeighborDecoder,
        "wide": FeatureNeighborDecoder,
    }
    stages = {name: (type(classifier.ranker), type(classifier.reranker)) for name, classifier in found.items()}
    nothing = type(None)
    assert stages == {
        "dense": (nothing, nothing),
        "narrow": (nothing, TreeReranker),
        "short": (LinearRanker, TreeReranker),
        "wide": (LinearRanker, TreeReranker),
    }


@pytest.mark.parametrize("n_labels", [10, 999, 1001, 100_000])
def test_the_number_of_labels_alone_changes_nothing(n_labels):
    assert isinstance(for_size(make_sldl("accurate"), ProblemSize(300, n_labels, 5000)).ranker, LinearRanker)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_call_gives_a_fresh_classifier_with_a_seed(preset):
    first, second = make_sldl(preset), make_sldl(preset)
    assert first is not second and first.decoder is not second.decoder
    assert first.random_state == 0 and make_sldl(preset, random_state=5, online=True).random_state == 5


def test_accurate_is_the_default_as_it_is_in_a_shell():
    assert repr(make_sldl()) == repr(make_sldl("accurate")) != repr(make_sldl("paper"))


def test_settings_are_changed_by_name():
    clf = make_sldl("blend", decoder__neighbors__n_neighbors=7, mapping__alpha=2.0, decoder__readout=None)
    assert isinstance(clf.decoder.neighbors, NeighborDecoder)
    assert (clf.decoder.neighbors.n_neighbors, clf.mapping.alpha, clf.decoder.readout) == (7, 2.0, None)


def test_unknown_presets_and_settings_are_named():
    with pytest.raises(DataError, match="no preset 'papyrus'; choose one of accurate, blend"):
        make_sldl("papyrus")
    with pytest.raises(DataError, match="Preset 'paper': SLDLClassifier has no parameter 'neighbors': did you mean"):
        make_sldl("paper", neighbors=3)
