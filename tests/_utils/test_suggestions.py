"""What is suggested after a name that is not known."""

import pytest

from pysldl._utils.suggestions import did_you_mean


@pytest.mark.parametrize(
    ("name", "known", "question"),
    [
        ("clouds", ["sky", "cloud"], "did you mean 'cloud'?"),
        ("sleec", ["SLEEC", "DXML"], "did you mean 'SLEEC'?"),
        ("zzz", ["sky", "cloud"], ""),
        ("zzz", [], ""),
        ("color", ["colors", "color", "sky"], "did you mean 'color' or 'colors'?"),
    ],
)
def test_near_names_are_offered_as_they_are_written(name, known, question):
    assert did_you_mean(name, known) == question


def test_a_thing_with_several_names_is_offered_once_by_its_own():
    assert did_you_mean("delicius", {"delicious": "Delicious", "Delicious-small": "Delicious"}) == (
        "did you mean 'Delicious'?"
    )
