"""The two benchmarks of what the embedding learns run and print what they say."""

import json


def test_planted_shows_both_schedules(command_line, capsys):
    import planted

    command_line("--worlds", 1, "--starts", 1, "--c-hat", 4, "--json")
    planted.main()
    rows = json.loads(capsys.readouterr().out)
    assert [(row["schedule"], row["cooccurrence"]) for row in rows] == [
        (schedule, weighting) for schedule in planted.SCHEDULES for weighting in ("binary", "count")
    ]
    text = planted.as_table(rows, 4).to_markdown()
    assert "default world: trained, count" in text and "fifty steps" in text


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
