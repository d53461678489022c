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
    from records import read_rows

    preset = "paper(embedding=RandomLabelEmbedding(4), calibrate=False)"
    arguments = ("--preset", preset, "--rows", 300)
    arguments += ("--test-rows", 20, "--features", 400, "--labels", 30, 60, "--out", tmp_path)
    command_line(*arguments, "--json", "--record", tmp_path / "record.csv")
    monkeypatch.setattr(scaling, "measured_apart", lambda script, options, threads: scaling.measure(options))
    scaling.main()
    runs = json.loads(capsys.readouterr().out)[preset]
    assert [run["n_labels"] for run in runs] == [30, 60]
    assert {"fit/embedding", "fit/mapping", "fit/decoder", "predict/decoder"} <= set(runs[0]["stages"])
    assert runs[0]["n_assignments"] == runs[1]["n_assignments"] == 1500

    rows = read_rows(tmp_path / "record.csv")
    assert [(row["n_labels"], row["preset"]) for row in rows] == [(30, preset), (60, preset)]
    assert rows[0]["fit_mapping_s"] > 0 and rows[0]["fit_ranker_s"] is None and rows[0]["decoding_s"] > 0

    monkeypatch.setattr(scaling, "measured_apart", None)
    command_line(*arguments)
    scaling.main()
    table = capsys.readouterr().out
    assert "60 against 30, times" in table and "Decoding from 30 to 60 labels" in table and "limit of 12 GB" in table
    assert {path.suffix for path in tmp_path.glob("*/*")} == {".json", ".md", ".tex", ".csv", ".svg", ".png"}


def test_limits_are_judged():
    from scaling import verdicts

    def run(n_labels, peak_mb, seconds):
        stages = {
            f"{verb}/{stage}": {"seconds": seconds} for verb in ("fit", "predict") for stage in ("mapping", "ranker")
        }
        return {"n_labels": n_labels, "peak_mb": peak_mb, "stages": stages}

    good = verdicts([run(1000, 1, 9.0), run(10_000, 1, 1.0), run(10**6, 11_000, 1.25)])
    assert len(good) == 3 and all("within" in line for line in good)
    bad = verdicts([run(10_000, 1, 1.0), run(10**6, 12_000, 1.35)])
    assert len(bad) == 3 and all("over" in line for line in bad)
    assert "2.00 s to 2.70 s, 1.35 times" in bad[1]


@pytest.mark.filterwarnings("ignore:.*labels have no training examples")
def test_the_latent_way_takes_the_sparse_graph(monkeypatch):
    import scaling

    assert scaling.read_pipeline("latent").embedding.graph == "sparse"
    short = scaling.PIPELINES["latent"].replace("128", "4, n_steps=3")
    monkeypatch.setitem(scaling.PIPELINES, "latent", short)
    options = {"preset": "latent", "rows": 120, "test_rows": 20, "features": 400, "labels": 500, "exponent": 1.0}
    found = scaling.measure(options)
    assert {"fit/embedding", "fit/mapping", "predict/decoder"} <= set(found["stages"])


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
