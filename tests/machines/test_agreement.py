"""The agreement table: from the command to its record, and on from where it stopped."""

import csv
import sys

import pytest

from pysldl.datasets import make_asymmetric_multilabel, write_npz


@pytest.fixture
def table(scripts, tmp_path, monkeypatch, capsys):
    """Run the command on a small set; what it printed to each stream."""
    write_npz(make_asymmetric_multilabel(300, 80, 30, random_state=0), tmp_path / "small.npz")
    monkeypatch.setattr(scripts.agreement, "KEPT", tmp_path / "kept")

    def run(*words):
        options = ["--datasets", str(tmp_path / "small.npz"), "--settings", "default", "one-thread", *words]
        monkeypatch.setattr(sys, "argv", ["agreement.py", *options])
        scripts.agreement.main()
        return capsys.readouterr()

    return run


def test_table_record_and_progress(table, tmp_path):
    record = tmp_path / "agreement.csv"
    printed = table("--presets", "fast", "--record", str(record))
    assert "default / one-thread" in printed.out and "bits" in printed.out
    assert printed.err.count("small.npz: fast") == 2
    with record.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["preset"], row["setting"], row["other_setting"]) == ("fast", "default", "one-thread")
    assert (row["same_bits"], float(row["same_five"]), row["n_test_rows"]) == ("True", 1.0, "60")
    assert row["same_printed_metrics"] == "True" and row["processor"]
    assert table("--presets", "fast").err == "", "what is finished is not fitted again"


def test_a_fit_that_fails_is_named(table):
    with pytest.raises(SystemExit, match=r"one-thread, nowhere.npz: .*nowhere"):
        table("--presets", "fast", "--datasets", "nowhere.npz")


def test_one_setting_has_nothing_to_be_compared_with(table, capsys):
    with pytest.raises(SystemExit):
        table("--settings", "default")
    assert "--settings needs at least two" in capsys.readouterr().err


def test_marks_of_the_table(scripts):
    row = {"preset": "paper", "dataset": "chess", "setting": "a", "other_setting": "b", "same_bits": False}
    row |= {"same_five": 0.9991, "same_relations": False, "same_printed_metrics": False}
    assert scripts.agreement.as_table([row]).splitlines()[1].split() == ["paper", "chess", "99.91%", "r", "m"]
