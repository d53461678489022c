"""Records survive a kill whole, or are dropped."""

import pytest

from pysldl.exceptions import DataError
from pysldl.experiments.run.run_folder import Journal, Record, read_journal

METRICS = {"keep": {"P@1": 0.5}, "drop": {"P@1": 0.25}}


def record(fold: int, k: int) -> Record:
    return Record("söt", "sldl", fold, {"k": k}, METRICS, None, 1.0, 0.1, 100.0, None, 0, {"pysldl": "0"}, "abc")


def test_records_survive_the_file_and_the_first_of_two_is_kept(tmp_path):
    path = tmp_path / "new" / "fold-00.jsonl"
    Journal(path).append([record(0, 3), record(0, 7)])
    Journal(path).append([record(1, 3)])
    assert read_journal(path) == ([record(0, 3), record(0, 7)], [])
    assert read_journal(tmp_path / "nowhere.jsonl") == ([], [])


@pytest.mark.parametrize("length", [1, 30, -2, -1])
def test_a_line_that_is_cut_short_is_dropped_before_more_is_appended(tmp_path, length):
    path = tmp_path / "fold-00.jsonl"
    lines = [record(0, k).to_line() for k in (3, 7)]
    path.write_text(lines[0] + lines[1][:length], encoding="utf-8")
    journal = Journal(path)
    assert (journal.records, journal.damaged) == ([record(0, 3)], [2])
    journal.append([record(0, 7)])
    assert path.read_text(encoding="utf-8") == "".join(lines)


def test_what_is_no_number_is_not_recorded(tmp_path):
    broken = Record("a", "b", 0, {}, {"keep": {"P@1": float("nan")}}, None, 1.0, 0.1, 1.0, None, 0, {})
    journal = Journal(tmp_path / "fold-00.jsonl")
    with pytest.raises(ValueError, match="not JSON compliant"):
        journal.append([record(0, 3), broken])
    assert read_journal(journal.path) == ([], [])


def test_a_journal_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot (read|write)"):
        Journal(tmp_path / "file" / "fold-00.jsonl")
