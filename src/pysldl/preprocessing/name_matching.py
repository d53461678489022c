"""Names of labels that occur in a text."""

import re
from collections.abc import Iterable, Sequence

WORD = re.compile(r"\w+")
LONGEST_NAME = 6  # words; longer names are hardly ever found as they are
SHORTEST_NAME = 3  # letters; shorter ones are mostly something else


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
