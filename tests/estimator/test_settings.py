"""Parameters written as KEY=VALUE."""

import pytest

from pysldl import make_sldl
from pysldl.embedding import RandomLabelEmbedding
from pysldl.estimator.settings import parse_assignments, parse_settings, with_settings
from pysldl.exceptions import DataError
from pysldl.neighbors import FaissIndex


def test_values_are_literals_where_they_can_be():
    words = ["alpha=0.5", "solver=cg", "positive=TRUE", "tol=none", "ks=(1, 3)", "text=a=b"]
    values = [0.5, "cg", True, None, (1, 3), "a=b"]
    assert list(parse_assignments(words, "--set").values()) == values


@pytest.mark.parametrize("word", ["alpha", "=3", " =3"])
def test_what_is_no_assignment_is_refused(word):
    with pytest.raises(DataError, match=r"--set .*: write it as key=value"):
        parse_assignments([word], "--set")


def test_points_and_underscores_lead_to_the_same_parameter():
    clf = with_settings(make_sldl("paper"), parse_settings(["embedding.margin=0.2", "mapping__alpha=3"], "--set"), "")
    assert (clf.embedding.margin, clf.mapping.alpha) == (0.2, 3)


def test_a_stage_is_replaced_by_name_before_its_parameters_are_set():
    words = ["embedding.scale=0.3", "embedding=RandomLabelEmbedding", "decoder.index=FaissIndex", "ranker=none"]
    clf = with_settings(make_sldl("paper"), parse_settings(words, "--set"), "--set")
    assert isinstance(clf.embedding, RandomLabelEmbedding) and clf.embedding.scale == 0.3
    assert isinstance(clf.decoder.index, FaissIndex) and clf.ranker is None


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("embedding=Popen", r"--set embedding=Popen: choose one of GaussianLabelEmbedding"),
        ("decoder.neighbors=FeatureNeighborDecoder", "choose one of JointNeighborDecoder, NeighborDecoder"),
        ("decoder.n_neighbours=3", "did you mean 'decoder.n_neighbors'"),
        ("nothing=3", "its own are calibrate"),
        ("calibrate=3", "expected a value like True"),
        ("decoder.n_neighbors=2.5", "expected a value like 30"),
        ("decoder.n_neighbors=true", "expected a value like 30"),
    ],
)
def test_mistakes_are_named(word, message):
    with pytest.raises(DataError, match=message):
        with_settings(make_sldl("paper"), parse_settings([word], "--set"), "--set")


@pytest.mark.parametrize(
    ("preset", "name", "advice"),
    [
        ("fast", "n_neighbors", "did you mean 'decoder__n_neighbors'?"),
        ("fast", "n_neigbors", "did you mean 'decoder__n_neighbors'?"),
        ("fast", "decoder__n_neigbors", "did you mean 'decoder__n_neighbors'"),
        ("fast", "ranker__C", "its ranker is None, which has no parameters."),
        ("accurate", "ranker__C", "did you mean 'ranker__large__C'?"),
        (
            "accurate",
            "decoder__n_neighbors",
            "did you mean 'decoder__large__n_neighbors' or 'decoder__small__neighbors__n_neighbors'?",
        ),
    ],
)
def test_a_parameter_that_a_classifier_does_not_have_leads_to_the_one_that_was_meant(preset, name, advice):
    expected = f"SLDLClassifier has no parameter '{name}': {advice}"
    with pytest.raises(DataError) as told:
        make_sldl(preset, **{name: 1})
    assert str(told.value).startswith(f"Preset '{preset}': {expected}")
    with pytest.raises(DataError) as told:
        make_sldl(preset).set_params(**{name: 1})
    assert str(told.value).startswith(expected)


def test_a_setting_is_named_with_points_as_it_is_written_in_a_shell():
    with pytest.raises(DataError) as told:
        with_settings(make_sldl("accurate"), parse_settings(["decoder.n_neighbors=5"], "--set"), "--set")
    assert str(told.value) == (
        "--set decoder.n_neighbors: SLDLClassifier has no such parameter; did you mean 'decoder.large.n_neighbors' or "
        "'decoder.small.neighbors.n_neighbors'?"
    )
