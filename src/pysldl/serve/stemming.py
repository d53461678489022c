"""English words to their stems, by the Snowball rules that several published data sets were prepared with.

The steps and their names are those of https://snowballstem.org/algorithms/english/stemmer.html.
"""

import re
from functools import lru_cache

__all__ = ["stem"]

VOWELS = "aeiouy"
DOUBLES = ("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")

# Words that the rules would spoil.
EXCEPTIONS = {
    "skis": "ski",
    "skies": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "idly": "idl",
    "gently": "gentl",
    "ugly": "ugli",
    "early": "earli",
    "only": "onli",
    "singly": "singl",
} | dict.fromkeys(("sky", "news", "howe", "atlas", "cosmos", "bias", "andes"))
FINISHED_AFTER_1A = {"inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"}

STEP_2 = (
    ("ization", "ize"),
    ("ational", "ate"),
    ("ousness", "ous"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("tional", "tion"),
    ("lessli", "less"),
    ("biliti", "ble"),
    ("entli", "ent"),
    ("ation", "ate"),
    ("alism", "al"),
    ("aliti", "al"),
    ("fulli", "ful"),
    ("ousli", "ous"),
    ("iviti", "ive"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("abli", "able"),
    ("izer", "ize"),
    ("ator", "ate"),
    ("alli", "al"),
    ("bli", "ble"),
)
STEP_3 = (
    ("ational", "ate"),
    ("tional", "tion"),
    ("alize", "al"),
    ("icate", "ic"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ness", ""),
    ("ful", ""),
)
STEP_4 = ("ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize")
STEP_4_SHORT = ("al", "er", "ic")

_AFTER_VOWEL_CONSONANT = re.compile(r"[aeiouy][^aeiouy](.*)")
_SHORT_END = re.compile(r"(^[aeiouy][^aeiouy]|[^aeiouy][aeiouy][^aeiouywxY])$")


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """The stem of a word in lower case.

    Examples
    --------
    >>> [stem(word) for word in ("analysis", "playing", "advantages", "general", "happily")]
    ['analysi', 'play', 'advantag', 'general', 'happili']
    """
    if len(word) <= 2:
        return word
    if word in EXCEPTIONS:
        return EXCEPTIONS[word] or word
    # A y that sounds as a consonant is written Y until the end.
    word = re.sub(r"^y|(?<=[aeiouy])y", "Y", word.lstrip("'"))
    word = _step_1a(re.sub(r"'s?'?$", "", word))
    if word.lower() in FINISHED_AFTER_1A:
        return word.lower()
    r1, r2 = _regions(word)
    word = _step_1c(_step_1b(word, r1))
    word = _step_3(_step_2(word, r1), r1, r2)
    return _step_5(_step_4(word, r2), r1, r2).lower()


def _regions(word: str) -> tuple[int, int]:
    """Where R1 and R2 begin: after the first consonant that follows a vowel, and again after that."""
    prefix = re.match(r"gener|commun|arsen", word)
    r1 = prefix.end() if prefix else _next_region(word, 0)
    return r1, _next_region(word, r1)


def _next_region(word: str, start: int) -> int:
    found = _AFTER_VOWEL_CONSONANT.search(word, start)
    return found.start(1) if found else len(word)


def _has_vowel(text: str) -> bool:
    return any(letter in VOWELS for letter in text)


def _step_1a(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")) and _has_vowel(word[:-2]):
        return word[:-1]
    return word


def _step_1b(word: str, r1: int) -> str:
    for ending in ("eedly", "eed"):
        if word.endswith(ending):
            return word[: -len(ending)] + "ee" if len(word) - len(ending) >= r1 else word
    for ending in ("ingly", "edly", "ing", "ed"):
        if word.endswith(ending):
            rest = word[: -len(ending)]
            if not _has_vowel(rest):
                return word
            if rest.endswith(("at", "bl", "iz")):
                return rest + "e"
            if rest.endswith(DOUBLES):
                return rest[:-1]
            return rest + "e" if r1 >= len(rest) and _SHORT_END.search(rest) else rest
    return word


def _step_1c(word: str) -> str:
    if len(word) > 2 and word[-1] in "yY" and word[-2] not in VOWELS:
        return word[:-1] + "i"
    return word


def _step_2(word: str, r1: int) -> str:
    for ending, instead in STEP_2:
        if word.endswith(ending):
            return word[: -len(ending)] + instead if len(word) - len(ending) >= r1 else word
    if word.endswith("ogi"):
        return word[:-1] if len(word) - 3 >= r1 and word[-4:-3] == "l" else word
    if word.endswith("li") and len(word) - 2 >= r1 and word[-3:-2] in tuple("cdeghkmnrt"):
        return word[:-2]
    return word


def _step_3(word: str, r1: int, r2: int) -> str:
    for ending, instead in STEP_3:
        if word.endswith(ending):
            return word[: -len(ending)] + instead if len(word) - len(ending) >= r1 else word
    return word[:-5] if word.endswith("ative") and len(word) - 5 >= r2 else word


def _step_4(word: str, r2: int) -> str:
    for ending in (*STEP_4, "ion", *STEP_4_SHORT):
        if word.endswith(ending):
            rest = word[: -len(ending)]
            applies = len(rest) >= r2 and (ending != "ion" or rest.endswith(("s", "t")))
            return rest if applies else word
    return word


def _step_5(word: str, r1: int, r2: int) -> str:
    at = len(word) - 1
    if word.endswith("e"):
        is_idle = at >= r2 or (at >= r1 and not _SHORT_END.search(word[:-1]))
        return word[:-1] if is_idle else word
    return word[:-1] if word.endswith("ll") and at >= r2 else word
