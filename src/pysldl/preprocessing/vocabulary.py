"""A controlled vocabulary: what the labels are called, and which of them are broader, narrower and related."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pysldl._utils.light_estimator import LightEstimator
from pysldl._utils.suggestions import did_you_mean
from pysldl.exceptions import DataError

NO_LANGUAGE = ""
USUAL_LANGUAGE = "en"
LINKS = ("broader", "related")

WORD = re.compile(r"\w+")
LONGEST_NAME = 6  # words; longer names are hardly ever found as they are
SHORTEST_NAME = 3  # letters; shorter ones are mostly something else


@dataclass(frozen=True)
class Concept:
    """One entry of a vocabulary.

    Parameters
    ----------
    identifier : str
        A URI, or any other text that never changes.
    names : mapping of str to str
        The preferred name by language; the empty language if none is known.
    other_names : mapping of str to sequence of str
        Alternative names by language.
    notation : str
        A short code, such as the number of a class; empty if there is none.
    broader, narrower, related : sequences of str
        Identifiers of other concepts. What is broader in one direction is narrower in the other; one is enough.
    deprecated : bool
        No longer used: it is not suggested.
    replaced_by : str
        The identifier of the concept that took its place; empty if there is none.

    Examples
    --------
    >>> Concept("http://example.org/cat", {"en": "cats", "fi": "kissat"}).name("fi")
    'kissat'
    """

    identifier: str
    names: Mapping[str, str] = field(default_factory=dict)
    other_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notation: str = ""
    broader: Sequence[str] = ()
    narrower: Sequence[str] = ()
    related: Sequence[str] = ()
    deprecated: bool = False
    replaced_by: str = ""

    def name(self, language: str = "") -> str:
        """Return the preferred name in a language; if there is none, in another, else notation or identifier."""
        for choice in (language, NO_LANGUAGE, USUAL_LANGUAGE, *sorted(self.names)):
            if self.names.get(choice):
                return self.names[choice]
        return self.notation or self.identifier


class Vocabulary(LightEstimator):
    """Concepts with their names in several languages and the links between them.

    Made by :meth:`from_concepts`, or read from a file by :func:`pysldl.datasets.read_vocabulary`.

    Parameters
    ----------
    language : str
        The language of the names that people are shown, such as ``"en"``.

    Examples
    --------
    >>> vocabulary = Vocabulary.from_concepts(
    ...     [Concept("ex:1", {"en": "animals", "de": "Tiere"}), Concept("ex:2", {"en": "cats"}, broader=["ex:1"])]
    ... )
    >>> vocabulary.find("Tiere"), vocabulary.name("ex:1"), vocabulary["ex:1"].narrower
    ('ex:1', 'animals', ('ex:2',))
    """

    _saved_state = (
        *("identifiers_", "languages_", "names_", "notations_"),
        *("other_names_", "other_name_concepts_", "other_name_languages_"),
        *("broader_", "related_", "deprecated_", "replaced_by_"),
    )

    identifiers_: list[str]  # in their order, by which all lists and arrays below are numbered
    languages_: list[str]  # of the names
    names_: list[list[str]]  # preferred names, a list for each language; empty if a concept has none in it
    notations_: list[str]
    other_names_: list[str]  # alternative names of all concepts
    other_name_concepts_: NDArray[np.int32]  # the concept of each of them
    other_name_languages_: NDArray[np.int32]  # the position in languages_ of each of them
    broader_: NDArray[np.int32]  # (n_links, 2): the second concept of a pair is broader than the first
    related_: NDArray[np.int32]  # (n_links, 2)
    deprecated_: NDArray[np.bool_]
    replaced_by_: NDArray[np.int32]  # -1 if no concept took its place

    def __init__(self, language: str = USUAL_LANGUAGE) -> None:
        self.language = language

    @classmethod
    def from_concepts(cls, concepts: Iterable[Concept], language: str | None = None) -> Self:
        """Make a vocabulary of concepts.

        Parameters
        ----------
        concepts : iterable of Concept
            Links to identifiers that are not among them are left out; a link to what replaced a concept, too.
        language : str, optional
            Of the names that people are shown. Default: English if some concept has an English name, else the
            language with the most names. One that no name has is an error.
        """
        known = list(concepts)
        identifiers = [concept.identifier for concept in known]
        place = {identifier: number for number, identifier in enumerate(identifiers)}
        if len(place) < len(known):
            twice = next(name for number, name in enumerate(identifiers) if place[name] != number)
            raise DataError(f"The identifier {twice!r} occurs more than once in the vocabulary.")
        if not known:
            raise DataError("The vocabulary holds no concept.")
        counts = _names_by_language(known)
        made = cls(_display_language(counts, language))
        made.identifiers_ = identifiers
        made.languages_ = sorted(counts)
        made.names_ = [[concept.names.get(code) or "" for concept in known] for code in made.languages_]
        made.notations_ = [concept.notation for concept in known]
        code_of = {code: number for number, code in enumerate(made.languages_)}
        others = [
            (name, number, code_of[code])
            for number, concept in enumerate(known)
            for code in sorted(concept.other_names)
            for name in concept.other_names[code]
        ]
        made.other_names_ = [name for name, _, _ in others]
        made.other_name_concepts_ = np.array([number for _, number, _ in others], dtype=np.int32)
        made.other_name_languages_ = np.array([code for _, _, code in others], dtype=np.int32)
        up = {(place[c.identifier], place[other]) for c in known for other in c.broader if other in place}
        up |= {(place[other], place[c.identifier]) for c in known for other in c.narrower if other in place}
        across = {(place[c.identifier], place[other]) for c in known for other in c.related if other in place}
        made.broader_ = _pairs(up)
        made.related_ = _pairs(across | {(second, first) for first, second in across})
        made.deprecated_ = np.array([concept.deprecated for concept in known], dtype=bool)
        made.replaced_by_ = np.array([place.get(concept.replaced_by, -1) for concept in known], dtype=np.int32)
        return made

    def __len__(self) -> int:
        return len(self.identifiers_)

    def __iter__(self) -> Iterator[str]:
        return iter(self.identifiers_)

    def __contains__(self, identifier: object) -> bool:
        return identifier in self._places

    def __getitem__(self, identifier: str) -> Concept:
        """Return the concept with that identifier; an unknown one is an error."""
        number = self._place(identifier)
        successor = int(self.replaced_by_[number])
        return Concept(
            identifier,
            {code: names[number] for code, names in zip(self.languages_, self.names_, strict=True) if names[number]},
            self._other_names_of(number),
            self.notations_[number],
            broader=self._linked("broader", number),
            narrower=self._linked("narrower", number),
            related=self._linked("related", number),
            deprecated=bool(self.deprecated_[number]),
            replaced_by="" if successor < 0 else self.identifiers_[successor],
        )

    def name(self, identifier: str, language: str | None = None) -> str:
        """Return the preferred name of a concept, in ``language`` or else in the one of the vocabulary."""
        return self[identifier].name(self.language if language is None else language)

    def find(self, text: str) -> str | None:
        """Return the identifier of a concept given by identifier, notation or name; None if there is none.

        A preferred name goes before an alternative one, the language of the vocabulary before others, and a concept in
        use before a deprecated one. A name that two concepts share is found where :meth:`display_name` tells them
        apart. URIs may stand in angle brackets.
        """
        text = text.strip()
        if text.startswith("<") and text.endswith(">"):
            text = text[1:-1]
        if text in self._places:
            return text
        number = self._spellings.get(text)
        return None if number is None else self.identifiers_[number]

    def current(self, identifier: str) -> str | None:
        """Return the identifier in use for a concept: itself, or what replaced it; None if it is deprecated."""
        number, seen = self._place(identifier), set()
        while self.replaced_by_[number] >= 0 and number not in seen:
            seen.add(number)
            number = int(self.replaced_by_[number])
        return None if self.deprecated_[number] else self.identifiers_[number]

    def display_name(self, identifier: str) -> str:
        """Return the name for people; a second concept of that name has its notation or identifier behind it."""
        return self._display_names[self._place(identifier)]

    def ancestors(self, identifier: str) -> tuple[str, ...]:
        """Return all broader concepts, those of broader ones among them, nearest first; a circle ends."""
        start = self._place(identifier)
        found, level = {start: None}, [start]
        while level:
            level = [up for number in level for up in self._links["broader"].get(number, ()) if up not in found]
            found.update(dict.fromkeys(level))
            level = list(dict.fromkeys(level))
        return tuple(self.identifiers_[number] for number in found if number != start)

    def all_names(self) -> Iterator[tuple[str, str]]:
        """Yield every preferred and alternative name, with the identifier of its concept."""
        for names in self.names_:
            for number, name in enumerate(names):
                if name:
                    yield name, self.identifiers_[number]
        for name, number in zip(self.other_names_, self.other_name_concepts_.tolist(), strict=True):
            yield name, self.identifiers_[number]

    @cached_property
    def _places(self) -> dict[str, int]:
        self._check_state()
        return {identifier: number for number, identifier in enumerate(self.identifiers_)}

    def _check_state(self) -> None:
        """Refuse lists and arrays that do not fit together, as a forged model folder may hold them."""
        n, languages, others = len(self.identifiers_), len(self.languages_), len(self.other_names_)
        fits = [len(names) == n for names in self.names_]
        fits += [len(self.names_) == languages, len(self.notations_) == n, self.deprecated_.shape == (n,)]
        numbers: list[tuple[NDArray[np.int32], tuple[int, ...], int, int]] = [
            (self.replaced_by_, (n,), -1, n),
            (self.other_name_concepts_, (others,), 0, n),
        ]
        numbers += [(self.other_name_languages_, (others,), 0, languages)]
        numbers += [(links, (len(links), 2), 0, n) for links in (self.broader_, self.related_)]
        fits += [
            array.shape == shape and bool(((array >= least) & (array < end)).all())
            for array, shape, least, end in numbers
        ]
        if not all(fits):
            raise DataError("The vocabulary is damaged: its lists and links do not fit together.")

    @cached_property
    def _links(self) -> dict[str, dict[int, list[int]]]:
        """Concepts that are linked to each concept, by the kind of link."""
        links: dict[str, dict[int, list[int]]] = {"broader": {}, "narrower": {}, "related": {}}
        for first, second in self.broader_.tolist():
            links["broader"].setdefault(first, []).append(second)
            links["narrower"].setdefault(second, []).append(first)
        for first, second in self.related_.tolist():
            links["related"].setdefault(first, []).append(second)
        return links

    @cached_property
    def _others(self) -> dict[int, list[int]]:
        """Positions among the alternative names, by concept."""
        found: dict[int, list[int]] = {}
        for position, number in enumerate(self.other_name_concepts_.tolist()):
            found.setdefault(number, []).append(position)
        return found

    @cached_property
    def _display_names(self) -> list[str]:
        order = np.argsort(self.deprecated_, kind="stable").tolist()  # those in use keep the plain name
        names = {number: self[self.identifiers_[number]].name(self.language) for number in order}
        taken: set[str] = set()
        for number in order:
            name = names[number]
            for suffix in ("", self.notations_[number], self.identifiers_[number]):
                spelled = f"{name} ({suffix})" if suffix else name
                if spelled not in taken:
                    break
            taken.add(spelled)
            names[number] = spelled
        return [names[number] for number in range(len(names))]

    @cached_property
    def _spellings(self) -> dict[str, int]:
        """The concept of every display name, notation, preferred and alternative name; what stands first goes first."""
        found: dict[str, int] = {}
        for number, name in enumerate(self._display_names):
            found.setdefault(name, number)
        for number, notation in enumerate(self.notations_):
            if notation:
                found.setdefault(notation, number)
        in_use = np.argsort(self.deprecated_, kind="stable").tolist()
        own = [names for code, names in zip(self.languages_, self.names_, strict=True) if code == self.language]
        rest = [names for code, names in zip(self.languages_, self.names_, strict=True) if code != self.language]
        for names in own + rest:
            for number in in_use:
                if names[number]:
                    found.setdefault(names[number], number)
        for name, number in zip(self.other_names_, self.other_name_concepts_.tolist(), strict=True):
            found.setdefault(name, number)
        return found

    def _place(self, identifier: str) -> int:
        try:
            return self._places[identifier]
        except KeyError:
            near = did_you_mean(str(identifier), self.identifiers_[:1000])
            raise DataError(f"The vocabulary has no concept {identifier!r}. {near}".strip()) from None

    def _linked(self, kind: str, number: int) -> tuple[str, ...]:
        return tuple(self.identifiers_[other] for other in self._links[kind].get(number, ()))

    def _other_names_of(self, number: int) -> dict[str, tuple[str, ...]]:
        names: dict[str, tuple[str, ...]] = {}
        for position in self._others.get(number, ()):
            code = self.languages_[self.other_name_languages_[position]]
            names[code] = (*names.get(code, ()), self.other_names_[position])
        return names

    def __getstate__(self) -> dict[str, Any]:
        """What a copy needs; the tables that are made of it are not copied."""
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}

    def __repr__(self) -> str:
        if not hasattr(self, "identifiers_"):
            return super().__repr__()
        return f"Vocabulary(language={self.language!r}: {len(self)} concepts, {len(self.broader_)} broader links)"


def _names_by_language(concepts: Sequence[Concept]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for concept in concepts:
        for code, name in concept.names.items():
            counts[code] = counts.get(code, 0) + bool(name)
        for code in concept.other_names:
            counts.setdefault(code, 0)
    return counts


def _display_language(counts: Mapping[str, int], asked: str | None) -> str:
    if asked is not None:
        if not counts.get(asked):
            known = ", ".join(repr(code) for code in sorted(counts) if counts[code]) or "none"
            raise DataError(f"The vocabulary has no names in the language {asked!r}; it has names in: {known}.")
        return asked
    if counts.get(USUAL_LANGUAGE):
        return USUAL_LANGUAGE
    return max(sorted(counts), key=lambda code: counts[code], default=NO_LANGUAGE)


def _pairs(links: set[tuple[int, int]]) -> NDArray[np.int32]:
    pairs = sorted(pair for pair in links if pair[0] != pair[1])
    return np.array(pairs, dtype=np.int32).reshape(-1, 2)


class NameMatcher:
    """Find names in texts as whole words, ignoring case.

    ``names`` are pairs of a name and the number of the thing it stands for. A thing may have several names, and a name
    may stand for several things.

    Examples
    --------
    >>> matcher = NameMatcher([("domestic cats", 0), ("Cats", 1), ("dogs", 2)])
    >>> matcher.find("On cats, wild and domestic. Domestic cats purr.")
    [0, 1]
    """

    def __init__(self, names: Iterable[tuple[str, int]]) -> None:
        self._things: dict[str, list[int]] = {}
        self._lengths: dict[str, set[int]] = {}  # of names, in words, by their first word
        for name, thing in names:
            words = _words(name)
            if len("".join(words)) >= SHORTEST_NAME and len(words) <= LONGEST_NAME:
                self._things.setdefault(" ".join(words), []).append(thing)
                self._lengths.setdefault(words[0], set()).add(len(words))

    def find(self, text: str) -> list[int]:
        """Return the numbers of all things that are named in ``text``, ascending."""
        words = _words(text)
        found: set[int] = set()
        for start, word in enumerate(words):
            for length in self._lengths.get(word, ()):
                found.update(self._things.get(" ".join(words[start : start + length]), ()))
        return sorted(found)

    def find_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return what :meth:`find` gives for each of ``texts``."""
        return [self.find(text) for text in texts]


def _words(text: str) -> list[str]:
    return WORD.findall(text.casefold())
