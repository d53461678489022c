"""Accuracy against steps is measured on validation rows and resumed; a device is compared with the CPU."""

import json

import pytest

from pysldl.embedding import GaussianLabelEmbedding


@pytest.mark.skipif(not hasattr(GaussianLabelEmbedding, "fit_path"), reason="this version has no fit_path")
def test_steps_are_recorded_once(small_file, command_line, capsys, tmp_path, monkeypatch):
    import steps
    from records import read_rows

    record = tmp_path / "steps.csv"
    arguments = ("--datasets", small_file, "--c-hats", 4, "--steps", 0, 5, 20, "--folds", 2, "--record", record)
    command_line(*arguments)
    steps.main()
    rows = read_rows(record)
    assert [(row["fold"], row["n_steps"]) for row in rows] == [(f, n) for f in (0, 1) for n in (0, 5, 20)]
    assert all(0 < row["P@1"] <= 100 for row in rows)
    assert rows[2]["loss"] < rows[1]["loss"] and rows[0]["loss"] is None
    capsys.readouterr()
    monkeypatch.setattr(steps, "measure", None)
    steps.main()
    assert not capsys.readouterr().out


def test_a_device_is_compared_with_the_cpu(small_file, command_line, capsys, tmp_path):
    import gpu_agreement
    from records import read_rows

    record = tmp_path / "gpu_agreement.csv"
    command_line(small_file, "--presets", "fast", "--device", "cpu", "--record", record)
    gpu_agreement.main()
    found = json.loads(capsys.readouterr().out)
    assert (found["same_five"], found["same_first"], found["largest_metric_difference"]) == (1, 1, 0)
    (row,) = read_rows(record)
    assert row["device_name"] == "cpu" and row["n_rows"] == found["n_rows"] > 0
