"""Labels grow, rows and nonzeros do not; what was measured is not measured again."""

import json

import numpy as np
import pytest


@pytest.mark.parametrize("n_labels", [50, 5000])
def test_rows_are_of_fixed_size_and_zipf(n_labels):
    from scaling import LABELS_PER_ROW, TERMS_PER_ROW, zipf_rows

    X, Y = zipf_rows(400, 800, n_labels, 1.0, seed=0)
    assert X.shape == (400, 800) and Y.shape == (400, n_labels)
    assert X.nnz == 400 * TERMS_PER_ROW and Y.nnz == 400 * LABELS_PER_ROW
    assert X.has_canonical_format and Y.has_canonical_format
    counts = np.bincount(Y.indices, minlength=n_labels)
    assert counts[0] > 1.3 * counts[1] > 0 and counts[:5].sum() > counts[5:15].sum()


def test_stages_are_measured_once(tmp_path, command_line, monkeypatch, capsys):
    import scaling

    arguments = ("--preset", "paper(embedding=RandomLabelEmbedding(4), calibrate=False)", "--rows", 300)
    arguments += ("--test-rows", 20, "--features", 400, "--labels", 30, 60, "--out", tmp_path)
    command_line(*arguments, "--json")
    monkeypatch.setattr(scaling, "measured_apart", lambda script, options, threads: scaling.measure(options))
    scaling.main()
    runs = json.loads(capsys.readouterr().out)
    assert [run["n_labels"] for run in runs] == [30, 60]
    assert {"fit/embedding", "fit/mapping", "fit/decoder", "predict/decoder"} <= set(runs[0]["stages"])
    assert runs[0]["n_assignments"] == runs[1]["n_assignments"] == 1500

    monkeypatch.setattr(scaling, "measured_apart", None)
    command_line(*arguments)
    scaling.main()
    assert "60 against 30, times" in capsys.readouterr().out
    assert {path.suffix for path in tmp_path.glob("*/*")} == {".json", ".md", ".tex", ".csv", ".svg", ".png"}


def test_a_failure_is_shown(tmp_path, command_line, monkeypatch, capsys):
    import scaling
    from measuring import WorkerError

    def fail(*args, **kwargs):
        raise WorkerError("no memory left (exit code 1)")

    monkeypatch.setattr(scaling, "measured_apart", fail)
    command_line("--preset", "paper", "--labels", 30, "--out", tmp_path)
    with pytest.raises(SystemExit):
        scaling.main()
    assert "30 labels: no memory left" in capsys.readouterr().out


@pytest.mark.parametrize("preset", ["nothing", "paper(nonsense=1)", "paper(embedding=Foo(3))", "paper)", "3 + 4"])
def test_a_preset_that_is_none_is_refused(preset, command_line, capsys):
    import scaling

    command_line("--preset", preset)
    with pytest.raises(SystemExit) as stop:
        scaling.main()
    assert stop.value.code == 2 and preset in capsys.readouterr().err
