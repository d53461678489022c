"""Killed at random moments, a reproduction ends with the same tables."""

import subprocess
import sys

from pysldl.datasets import make_asymmetric_multilabel, write_npz


def test_two_kills(tmp_path):
    import crash_recovery

    write_npz(make_asymmetric_multilabel(90, 60, 30, random_state=0), tmp_path / "small.npz")
    grid = ("--folds", "2", "--c-hats", "4,8", "--n-steps", "20", "--ks", "3,7")
    grid += ("--validation-rows", "1", "--metrics", "P@5")
    outcome = crash_recovery.measure(tmp_path, str(tmp_path / "small.npz"), n_kills=2, jobs=1, seed=0, grid=grid)
    assert outcome.configurations == 20 and outcome.files > 5
    assert len(outcome.kills) == 2 and outcome.differences[-1] == []
    assert outcome.holds
    rows = crash_recovery.as_rows(outcome)
    kills = [row for row in rows if row["event"] == "killed"]
    assert [row["finished"] for row in kills] == [kill.finished for kill in outcome.kills]
    assert all(row["different"] == 0 and row["files"] == outcome.files for row in rows[2:]) and len(rows) > 2


def test_a_table_that_differs_is_named(tmp_path, monkeypatch):
    import crash_recovery

    def other_tables(out):
        return {"results-p-5.md": str(out).encode(), "results.csv": b"the same"}

    monkeypatch.setattr(crash_recovery, "_tables", other_tables)
    monkeypatch.setattr(crash_recovery, "_start", lambda *_: subprocess.Popen([sys.executable, "-c", ""]))
    outcome = crash_recovery.measure(tmp_path, "none", n_kills=0, jobs=1, seed=0)
    assert outcome.differences == [["results-p-5.md"]] and not outcome.holds
