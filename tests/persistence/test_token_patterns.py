"""Patterns that are taken are searched in linear time; those that take longer are refused."""

import re
import time

import pytest

from pysldl.persistence.token_patterns import is_linear_pattern

LINEAR = [
    r"(?u)\b\w\w+\b",
    r"(?u)\b\w+\b",
    r"\S+",
    r"[^,]+",
    r"\b[a-z]{2,}\b",
    r"\b[\w-]+\b",
    r"\w[\w'-]*\w",
    r"(?u)\b\w[\w'-]*\w\b",
    r"\w+s?",
    r"\b\w{3,40}\b",
    r"[A-Za-z]+",
    r"\w[\w-]*\b",
    r"a{0,5}b{0,5}\w+",
]
SLOW = [
    "a*b",
    r"\w*x",
    r"[\w-]+\b",
    r"\w+\s",
    "a?" * 30,
    "a{0,9}" * 4,
    r"[a-z]+\b",
    r"(a+)+$",
    r"\w+\w",
    r"\b\w[\w-]*x",
    r"(ab)+",
    r"\b[^a]+\b",
    r"\b[a-z,]+\b",
]
# Each is the worst that we know of for some pattern; a word of only one kind comes without an end for most.
PIECES = ("a", "-", "a-", "ab1", "a1-", "_", "'", " a", "a ", "é")


@pytest.mark.parametrize("pattern", LINEAR)
def test_a_pattern_that_is_taken_takes_time_in_proportion_to_the_text(pattern: str) -> None:
    assert is_linear_pattern(pattern)
    search = re.compile(pattern).findall
    for piece in PIECES:
        for end in ("", "!", "1", "-"):
            text = piece * (200_000 // len(piece)) + end
            started = time.process_time()
            search(text)
            # With the square of its length it would take minutes.
            assert time.process_time() - started < 5, (pattern, piece, end)


@pytest.mark.parametrize("pattern", SLOW)
def test_a_pattern_that_can_take_longer_is_refused(pattern: str) -> None:
    assert not is_linear_pattern(pattern)
