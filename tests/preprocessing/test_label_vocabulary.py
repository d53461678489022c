"""Vocabularies of labels: names, identifiers, links, and what a text stands for."""

from copy import deepcopy

import numpy as np
import pytest

from pysldl.datasets import Concept, Vocabulary
from pysldl.exceptions import DataError

ANIMALS = [
    Concept("ex:animal", {"en": "animals", "fi": "eläimet"}, notation="1"),
    Concept("ex:cat", {"en": "cats", "fi": "kissat"}, {"en": ("felines", "house cats")}, broader=["ex:animal"]),
    Concept("ex:kitten", {"en": "kittens"}, broader=["ex:cat"]),
    Concept("ex:dog", {"en": "dogs"}, broader=["ex:animal", "ex:gone"], related=["ex:cat"]),
    Concept("ex:hound", {"en": "hounds"}, deprecated=True, replaced_by="ex:dog"),
    Concept("ex:dodo", {"en": "dodos"}, deprecated=True),
]


@pytest.fixture
def animals():
    return Vocabulary.from_concepts(ANIMALS)


def test_a_concept_is_found_by_every_way_to_write_it(animals):
    for text in ("ex:cat", "<ex:cat>", " cats ", "kissat", "felines", "house cats"):
        assert animals.find(text) == "ex:cat", text
    assert animals.find("1") == "ex:animal"
    assert animals.find("unicorns") is None


def test_links_go_both_ways(animals):
    assert animals["ex:animal"].narrower == ("ex:cat", "ex:dog")
    assert animals["ex:dog"].broader == ("ex:animal",), "a link to nothing is left out"
    assert animals["ex:cat"].related == ("ex:dog",)
    assert animals.ancestors("ex:kitten") == ("ex:cat", "ex:animal")


def test_a_circle_of_broader_links_ends():
    circle = Vocabulary.from_concepts(
        [Concept("a", broader=["b"]), Concept("b", broader=["c"]), Concept("c", broader=["a"])]
    )
    assert circle.ancestors("a") == ("b", "c")
    swapped = Vocabulary.from_concepts([Concept("a", replaced_by="b"), Concept("b", replaced_by="a")])
    assert swapped.current("a") in ("a", "b")


def test_names_follow_the_language_and_fall_back(animals):
    assert [animals.name("ex:kitten", code) for code in ("en", "fi", "sv")] == ["kittens"] * 3
    assert animals["ex:cat"].names == {"en": "cats", "fi": "kissat"}
    assert animals["ex:cat"].other_names == {"en": ("felines", "house cats")}
    finnish = Vocabulary.from_concepts(ANIMALS, language="fi")
    assert finnish.display_name("ex:animal") == "eläimet"
    with pytest.raises(DataError, match="no names in the language 'sv'; it has names in: 'en', 'fi'"):
        Vocabulary.from_concepts(ANIMALS, language="sv")


def test_what_replaced_a_concept_is_in_use(animals):
    assert [animals.current(one) for one in ("ex:hound", "ex:dodo", "ex:cat")] == ["ex:dog", None, "ex:cat"]
    assert animals["ex:hound"].deprecated
    assert animals["ex:hound"].replaced_by == "ex:dog"


def test_two_concepts_of_one_name_are_told_apart():
    banks = Vocabulary.from_concepts(
        [
            Concept("ex:0", {"en": "bank"}, deprecated=True),
            Concept("ex:1", {"en": "bank"}),
            Concept("ex:2", {"en": "bank"}, notation="B2"),
            Concept("ex:3", {"en": "bank"}),
        ]
    )
    names = [banks.display_name(one) for one in banks]
    assert names == ["bank (ex:0)", "bank", "bank (B2)", "bank (ex:3)"]
    assert [banks.find(name) for name in names] == ["ex:0", "ex:1", "ex:2", "ex:3"]


def test_bad_vocabularies_are_refused(animals):
    with pytest.raises(DataError, match="'a' occurs more than once"):
        Vocabulary.from_concepts([Concept("a"), Concept("b"), Concept("a")])
    with pytest.raises(DataError, match="no concept"):
        Vocabulary.from_concepts([])
    with pytest.raises(DataError, match=r"no concept 'ex:cet'\. did you mean 'ex:cat'"):
        animals["ex:cet"]


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("broader_", np.array([[0, 99]], dtype=np.int32)),
        ("replaced_by_", np.array([-2] * 6, dtype=np.int32)),
        ("other_name_languages_", np.array([0, 5], dtype=np.int32)),
        ("deprecated_", np.zeros(2, dtype=bool)),
        ("names_", [["a"]]),
    ],
)
def test_a_forged_vocabulary_is_refused(animals, attribute, value):
    forged = deepcopy(animals)
    setattr(forged, attribute, value)
    with pytest.raises(DataError, match="damaged"):
        forged.find("cats")


def test_a_copy_answers_the_same(animals):
    assert animals.find("felines") == "ex:cat"  # the tables that are made of the state exist now
    copied = deepcopy(animals)
    assert "_spellings" not in vars(copied)
    assert copied.find("felines") == "ex:cat"
    assert copied["ex:dog"] == animals["ex:dog"]
    assert repr(animals) == "Vocabulary(language='en': 6 concepts, 3 broader links)"
