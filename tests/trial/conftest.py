"""A small collection of records, as a cataloguer has it."""

import json

import pytest

from pysldl.cli import run

SUBJECTS = {
    "chess": ("opening gambit with a sacrificed pawn", "endgame of rook and king"),
    "cooking": ("a soup of leek and potato", "bread baked with yeast"),
    "music": ("a sonata for the violin", "chords of an old organ"),
    "travel": ("by train across the mountains", "a harbor and its ships"),
}
PAIRS = (("chess", "music"), ("cooking", "travel"), ("music", "travel"), ("chess", "cooking"))


@pytest.fixture
def sldl(sldl):
    """Run ``sldl`` with these words; an error where its exit code is another, or where it fails with a traceback."""

    def run_words(*words, stdin=None, code=0):
        outcome = sldl(*words, stdin=stdin)
        assert outcome.code == code, outcome
        assert "Traceback" not in outcome.err
        return outcome

    return run_words


@pytest.fixture(scope="session")
def records():
    """Eighty records with id, title, text and one or two subjects."""
    found = []
    for number in range(80):
        labels = PAIRS[number % 4] if number % 3 == 0 else PAIRS[number % 4][:1]
        text = " and ".join(SUBJECTS[label][number // 4 % 2] for label in labels)
        found.append({"id": f"r{number}", "title": f"Record {number}", "text": text, "labels": list(labels)})
    return found


@pytest.fixture(scope="session")
def records_file(records, tmp_path_factory):
    path = tmp_path_factory.mktemp("records") / "records.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture(scope="session")
def records_model(records_file, tmp_path_factory):
    """A model of the records, with excerpts."""
    path = tmp_path_factory.mktemp("models") / "records"
    assert run(["fit", str(records_file), "--model", str(path), "--preset", "fast", "--keep-examples"]) == 0
    return path
