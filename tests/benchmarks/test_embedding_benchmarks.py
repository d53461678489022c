"""The two benchmarks of what the embedding learns run and print what they say."""

import json

import numpy as np
import pytest


def test_planted_compares_ways_to_be_sure(command_line, capsys, tmp_path, monkeypatch):
    import planted
    from records import read_rows

    monkeypatch.setattr(planted, "SCHEDULES", {"trained": {"n_steps": 20}, "short": {"n_steps": 2}})
    record = tmp_path / "planted.csv"
    sizes = ("--worlds", 1, "--starts", 2, "--n-init", 2, "--resamples", 2, "--c-hat", 4, "--settings", "default")
    command_line(*sizes, "--record", record, "--json")
    planted.main()
    rows = json.loads(capsys.readouterr().out)
    ways = {(row["method"], row.get("cooccurrence")) for row in rows if row["table"] == "sure"}
    assert ways == {(planted.COUNTS, None)} | {
        (way, weighting)
        for way in ("one start", "one start that agrees with counts", "2 starts", "2 resamples")
        for weighting in planted.WEIGHTINGS
    }
    counts = next(row for row in rows if row["table"] == "sure" and row["method"] == planted.COUNTS)
    assert counts["direction"] == counts["sure"] == counts["right_of_sure"] == 1.0
    recorded = read_rows(record)
    assert [row["direction"] for row in recorded if row["table"] == "known"] == pytest.approx(
        [row["direction"] for row in rows if row["table"] == "known"]
    )
    text = "".join(table.to_markdown() for table in planted.as_tables(rows, 4))
    assert "default worlds: short, count" in text and "right of those called sure" in text


def test_sure_by_starts_and_by_resamples():
    import planted

    gaps = np.array([[1.0, -1.0, 1.0, np.nan], [1.1, -1.1, -1.0, np.nan], [0.9, -0.9, 0.1, np.nan]])
    sure = planted._by_resamples(gaps)
    assert sure[0] > 0.95 and sure[1] < 0.05 and 0.4 < sure[2] < 0.6 and sure[3] == 0.5
    assert planted._judged(sure) == {"direction": 0.5, "sure": 0.5, "right_of_sure": 0.5}
    starts = planted._by_starts(gaps[:, :3])
    assert starts[0] > sure[0] and starts[1] < sure[1]  # the error of a mean is smaller than a deviation


def test_trained_vs_random_compares_fold_by_fold(small_file, command_line, capsys, tmp_path):
    import trained_vs_random
    from records import read_rows

    record = tmp_path / "record.csv"
    command_line("--datasets", small_file, "--folds", 2, "--c-hat", 4, "--k", 10, "--record", record)
    trained_vs_random.main()
    text = capsys.readouterr().out
    assert "2 of ten folds" in text
    rows = [(row["embedding"], row["fold"]) for row in read_rows(record)]
    assert sorted(rows) == [("random", 0), ("random", 1), ("trained", 0), ("trained", 1)]
    assert all(f"| {metric} |" in text for metric in trained_vs_random.METRICS)
