"""Every system gets the same matrices and is scored alike; results survive an interruption."""

import json

import pytest

OURS = "paper(embedding=RandomLabelEmbedding(8), calibrate=False)"


@pytest.fixture
def compare(small_file, tmp_path, command_line, capsys):
    """Run the comparison and return what it says as JSON."""
    import compare

    def run(*systems, repeat=1):
        command_line("--datasets", small_file, "--out", tmp_path, "--repeat", repeat, "--json", "--only", *systems)
        compare.main()
        return json.loads(capsys.readouterr().out)["small"]

    return run


def test_a_preset_is_measured_once(compare, tmp_path, monkeypatch):
    (found,) = compare(OURS)
    assert found["system"] == OURS and found["metrics"]["P@1"] > 0.3
    assert min(found[cost] for cost in ("train_s", "predict_s", "peak_mb", "model_mb")) > 0
    assert {"train/mapping", "predict/decoder", "warm-up"} <= set(found["stages"])
    assert (tmp_path / "peers.png").stat().st_size > 0
    assert OURS.replace("_", "\\_") in (tmp_path / "small" / "peers.md").read_text()

    monkeypatch.setattr("compare.measured_apart", None)
    assert compare(OURS) == [found]


def test_repeats_are_merged_and_failures_shown(compare, tmp_path, monkeypatch):
    import numpy as np
    from compare import as_rows

    from measuring import WorkerError

    times = iter([3.0, 9.0, 4.0])

    def pretend(script, options, **kwargs):
        if options["specification"] == "blend":
            raise WorkerError("out of memory (exit code 1)")
        if options.get("only_warm_up"):
            return {}
        np.save(options["labels"], np.tile(np.arange(5), (60, 1)))
        costs = dict.fromkeys(("predict_s", "peak_mb", "model_mb", "warm_up_s"), 1.0)
        return {"train_s": next(times), "stages": {}, **costs}

    monkeypatch.setattr("compare.measured_apart", pretend)
    failed, found = compare("paper", "blend", repeat=3)
    assert found["train_s"] == 4.0 and found["runs"] == 3
    assert failed["error"].startswith("out of memory")
    rows = as_rows(tmp_path / "small")
    assert [row["train_s"] for row in rows if row["system"] == "paper"] == [3.0, 9.0, 4.0]
    assert {row["error"] for row in rows if row["system"] == "blend"} == {failed["error"]}
    text = (tmp_path / "small" / "peers.md").read_text()
    assert "| blend | failed |" in text and "blend failed: out of memory" in text


@pytest.mark.parametrize("peer", ["omikuji", "napkinxc", "pecos"])
def test_a_peer_that_is_installed_runs(peer, compare):
    from environments import FOLDER

    if not (FOLDER / peer / "ready").exists():
        pytest.skip(f"{peer} is not installed: run benchmarks/peers/make_environments.py")
    (found,) = compare(peer)
    assert "error" not in found, found
    assert found["metrics"]["P@1"] > 0.3 and found["model_mb"] > 0


def test_every_peer_has_an_adapter(scripts):
    import compare
    from environments import PEERS

    assert set(compare.ADAPTERS) == set(PEERS)
    assert all((scripts / "peers" / "systems" / f"{name}.py").exists() for name in (*compare.ADAPTERS.values(), "ours"))
