"""Wording that new users did not understand (docs/trial.md), and that has a plainer form now."""

from pathlib import Path

import pytest

import pysldl

HARD = (
    "An error is one line and exit code 2",
    "may never have heard of",
    "what it stands on",
    "Train on embedded data",
    "metrics beside controls",
    "where copies of them lie",
    "Names with commas between",
    "At most so many labels",
    "Also so many directed",
    "Only labels with so many",
    "labels in the file are not looked at",
    "it appears whole or not at all",
    "goes by the name and the first line",
    "The model remembers it",
    "what its rows said",
    "takes any that is free",
    "told to come back",
    "Draws the world",
    "memory beside the data",
    "and more for the words of the texts",
    "occur in no training row",
    "labels unseen in training: keep",
    "was not fitted to learn on",
    "a graphics card",
    "comparing methods",
    "say format= one of",
    "list_datasets() shows all",
    "there is no option",
    "is the run's to choose",
    "knows no words: send vectors",
    "likely enough to be assigned",
    "Training rows that voted for it",
    "Its place among the labels",
    "linear score of the ranker",
    "read-out's part of the score",
    "known terms",
    "The text is empty: send",
    "The body may have at most",
    "Y must be an indicator matrix, but its rows differ",
    "shall be",
    "Go on",
    "Learning on",
    "Quality on held-out rows",
    "Escape to let go",
    "No label near enough",
    "how one-sided a relation is",
    "This service wants a token",
    "left-out rows",
    "per cent",
    "in vain",
    "no difference between the methods is shown",
)
SUFFIXES = (".py", ".html", ".js", ".jinja", ".css")


@pytest.fixture(scope="module")
def sources():
    files = [path for path in Path(pysldl.__file__).parent.rglob("*") if path.suffix in SUFFIXES]
    return {path.name: path.read_text(encoding="utf-8") for path in files}


@pytest.mark.parametrize("words", HARD)
def test_hard_words_do_not_come_back(sources, words):
    assert [name for name, text in sources.items() if words in text] == []
