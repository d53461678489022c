"""Check that a regular expression takes linear time on every text."""

import re
from typing import Any, NamedTuple

LONGEST_PATTERN = 200
LONGEST_MATCH = 64  # of what is repeated with a bound; a repetition of more counts as endless
MOST_WAYS = 64  # in which bounded repetitions can divide a text among each other


class _Item(NamedTuple):
    """A part of a pattern: a place such as a word boundary, a set of characters, or the repetition of something."""

    kind: str  # "place", "set", "bounded" or "endless"
    what: str  # the place or the set, written as the parser of the standard library does
    least: int = 1
    ways: int = 1


def is_linear_pattern(pattern: str) -> bool:
    r"""Return whether searching all matches of a pattern takes linear time on every text, as far as we know.

    Python's engine goes back and tries again if a part of a pattern fails. What was repeated without end is then read
    again, at worst from every letter of the text: ``a*b`` takes a time that grows with the square of a text of many a.
    So only one repetition may be endless, it repeats one character or set of characters, and what follows it must not
    be able to fail where that costs: nothing, what is optional, a word boundary, or once more the set that the match
    began with. Bounded repetitions may divide a text in a few ways only.

    Examples
    --------
    >>> [is_linear_pattern(one) for one in (r"(?u)\b\w\w+\b", r"\S+", r"\w[\w'-]*\w", r"\w*x", r"(\w+\s?)+", "a?" * 30)]
    [True, True, True, False, False, False]
    """
    if len(pattern) > LONGEST_PATTERN:
        return False
    from re import _parser  # type: ignore[attr-defined]

    try:
        items = _flat(_parser.parse(pattern))
    except (re.error, RecursionError, OverflowError, ValueError):
        return False
    ways = 1
    for item in items:
        ways *= item.ways
    endless = [at for at, item in enumerate(items) if item.kind == "endless"]
    if len(endless) > 1 or ways > MOST_WAYS or any(item.least > LONGEST_MATCH for item in items):
        return False
    return not endless or _ends_well(items, endless[0])


def _flat(parsed: Any, *, inside: bool = False) -> list[_Item]:
    """Return the parts of a pattern in a row; ValueError for what is not allowed at all."""
    from re import _constants as codes  # type: ignore[attr-defined]

    items: list[_Item] = []
    for kind, content in parsed:
        if kind in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            least, most, body = content
            repeated = _flat(body, inside=True)
            if inside:
                raise ValueError("a repetition inside of another one")
            if most <= LONGEST_MATCH:
                items.append(_Item("bounded", str(body), int(least), int(most) - int(least) + 1))
            elif len(repeated) == 1 and repeated[0].kind == "set":
                items.append(_Item("endless", repeated[0].what, int(least)))
            else:
                raise ValueError("an endless repetition of more than one character")
        elif kind is codes.SUBPATTERN:
            items += _flat(content[3], inside=inside)
        elif kind is codes.AT:
            items.append(_Item("place", str(content)))
        elif kind in (codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN):
            items.append(_Item("set", str((kind, content))))
        else:
            raise ValueError("alternatives, back references and looking around")
    return items


def _ends_well(items: list[_Item], at: int) -> bool:
    """Whether what follows the endless repetition cannot make Python read it again and again."""
    repeated, rest = items[at].what, items[at + 1 :]
    if all(item.kind == "bounded" and not item.least for item in rest):
        return True  # nothing in it can fail
    before = [item for item in items[: at + 1] if item.kind != "place"]
    first, word, boundary = before[0], _item_of(r"\w").what, _item_of(r"\b")
    if rest == [boundary]:
        if items[0] == boundary:  # then a match begins at the two ends of a word only
            return _holds_words(repeated) or _is_within_words(repeated)
        return repeated == word or (first == _Item("set", word) and _holds_words(repeated))
    if first.kind == "set" and rest[0] == first:  # where it is missing, no further match can begin either
        return len(rest) == 1 or (rest[1:] == [boundary] and first.what == word and _holds_words(repeated))
    return False


def _item_of(pattern: str) -> _Item:
    return _flat(re._parser.parse(pattern))[0]  # type: ignore[attr-defined]


def _holds_words(what: str) -> bool:
    """Whether a set, as it was written, holds all letters, digits and the underscore."""
    if "NEGATE" in what or what.startswith("(NOT_LITERAL"):
        return False
    return "CATEGORY_WORD)" in what or "CATEGORY_NOT_SPACE)" in what


def _is_within_words(what: str) -> bool:
    """Whether a set, as it was written, holds only letters, digits and the underscore of ASCII, or all of them."""
    if "NEGATE" in what or not what.startswith("(IN"):
        return False
    pairs = re.findall(r"RANGE, \((\d+), (\d+)\)", what)
    singles = re.findall(r"LITERAL, (\d+)", what)
    others = set(re.findall(r"CATEGORY_\w+", what)) - {"CATEGORY_WORD", "CATEGORY_DIGIT"}
    spans = [range(int(low), int(high) + 1) for low, high in pairs] + [range(int(one), int(one) + 1) for one in singles]
    return (
        not others
        and all(code < 128 and re.match(r"\w", chr(code)) is not None for span in spans for code in (span[0], span[-1]))
        and all(len(span) <= 26 for span in spans)
    )
