"""The command itself: help, exit codes, pipes, the smaller commands and the demonstration."""

import json
import subprocess
import sys
from functools import partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import pysldl.cli
from pysldl.cli import COMMANDS, run
from pysldl.datasets import make_asymmetric_multilabel

SLDL = [sys.executable, "-m", "pysldl.cli"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(sldl, command):
    shown = sldl(command, "--help")
    assert shown.code == 0
    assert f"sldl {command}" in shown.out.split("Example", 1)[1]
    assert "--json" in shown.out


def test_help_lists_the_commands(sldl):
    shown = sldl("--help")
    assert shown.code == 0 and all(command in shown.out for command in COMMANDS)


def test_version(sldl):
    assert sldl("version", "--json").document["pysldl"] == pysldl.__version__
    assert pysldl.__version__ in sldl("version").out


def test_catalog(sldl, tmp_path):
    entries = {entry["name"]: entry for entry in sldl("datasets", "--json").document}
    assert entries["delicious"]["n_labels"] == 983 and entries["delicious"]["found"] is None
    assert "PYSLDL_DATA" in sldl("datasets").out
    (tmp_path / "delicious.npz").write_bytes(b"x")
    shown = sldl("datasets", "--data-dir", tmp_path)
    assert "delicious.npz" in shown.out and str(tmp_path) in shown.out
    assert sldl("datasets", "delicious", "--json").document["license"]
    assert sldl("datasets", "delicious", "--data-dir", tmp_path).code == 2


def test_catalog_entry_is_verified(sldl, data_dir):
    entry = sldl("datasets", "stackex-coffee", "--data-dir", data_dir, "--json").document
    assert entry["verified"]["n_labels"] == entry["n_labels"] == 123


def test_catalog_name_as_data(sldl, data_dir, tmp_path):
    words = ["--data-dir", data_dir, "--json"]
    quick = ["--preset", "paper", "--set", "embedding=RandomLabelEmbedding"]
    assert sldl("fit", "stackex-coffee", "--model", tmp_path / "m", *quick, *words).document["n_samples"] == 225
    assert sldl("evaluate", tmp_path / "m", "stackex-coffee", *words).document["data"] == "stackex-coffee"


def test_debug_shows_the_traceback(monkeypatch, tmp_path):
    with pytest.raises(pysldl.exceptions.ModelFormatError):
        run(["inspect", str(tmp_path), "--debug"])
    monkeypatch.setenv("SLDL_DEBUG", "1")
    with pytest.raises(pysldl.exceptions.ModelFormatError):
        run(["inspect", str(tmp_path)])


def test_a_defect_is_not_hidden(monkeypatch):
    def broken(*_, **__):
        raise AssertionError("a defect")

    monkeypatch.setattr(pysldl.cli, "app", broken)
    with pytest.raises(AssertionError):
        run(["version"])


def test_interrupt(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(pysldl.cli, "app", interrupted)
    assert run(["version"]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


def test_interrupt_of_compiled_code(monkeypatch, capsys):
    """numba reports Ctrl-C as a SystemError whose cause is the interrupt."""

    def interrupted(*_, **__):
        raise SystemError("CPUDispatcher returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr(pysldl.cli, "app", interrupted)
    assert run(["version"]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"
    assert run(["version", "--debug"]) == 130
    assert "Traceback" in capsys.readouterr().err


def test_versions_of_what_is_not_installed(sldl, monkeypatch):
    assert sldl("--version").out.strip() == pysldl.__version__

    def nothing_is_installed(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr("pysldl.cli.version.version_of", nothing_is_installed)
    assert "not installed" in sldl("version").out
    assert sldl("version", "--json").document["numba"] is None


def test_the_usual_preset_is_accurate(sldl, files, tmp_path):
    assert sldl("fit", files["npz"], "--model", tmp_path / "m", "--json").document["preset"] == "accurate"


def test_warnings_are_one_line(sldl, world, files, tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("3 2 3\n0 0:1\n1 1:1\n0 0:2\n")
    words = ["--preset", "paper", "--set", "embedding.n_steps=3"]
    done = sldl("fit", path, "--model", tmp_path / "m", *words, "--json")
    assert done.code == 0 and done.document["n_labels_seen"] == 2
    warned = [line for line in done.err.splitlines() if line.startswith("warning: ")]
    assert len(warned) == 2 and "never be predicted" in warned[0] and "n_neighbors" in warned[1]


def test_the_installed_command(files, model):
    """Real processes: the entry point, pure JSON on standard output, and a reader that stops reading."""
    entry = Path(sys.executable).with_name("sldl")
    command = [entry] if entry.exists() else SLDL
    done = subprocess.run([*command, "evaluate", model, files["npz"], "--json"], capture_output=True, check=True)
    assert set(json.loads(done.stdout)) >= {"metrics", "model"}
    assert subprocess.run([*command, "fot"], capture_output=True).returncode == 2


def test_a_reader_that_stops_reading(files, model):
    process = subprocess.Popen([*SLDL, "predict", model, files["npz"]], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.wait() == 141
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.fixture(scope="module")
def demonstration():
    done = subprocess.run([*SLDL, "demo", "--json"], capture_output=True, check=True)
    return json.loads(done.stdout)


def test_demo_beats_the_controls_that_learn_nothing(demonstration):
    metrics = demonstration["metrics"]
    assert list(metrics)[:4] == ["label prior", "raw-feature neighbors", "random codes", "identity codes"]
    for name in ('make_sldl("paper")', 'make_sldl("blend")', 'make_sldl("accurate")'):
        assert metrics[name]["P@1"] > metrics["label prior"]["P@1"] + 0.3
        assert metrics[name]["PSP@5"] > metrics["raw-feature neighbors"]["PSP@5"]
    assert metrics['make_sldl("accurate")']["P@5"] > metrics['make_sldl("blend")']["P@5"]


def test_demo_recovers_what_was_planted(demonstration):
    short, _, binary, counted, rows = demonstration["directions"]
    assert short["recovered"] < 0.65 and short["near"] < 0.2
    assert binary["recovered"] >= 0.95 and counted["recovered"] >= 0.95 and counted["near"] >= 0.8
    assert rows["recovered"] == 1.0 and rows["near"] >= 0.95
    relations = demonstration["relations"]
    assert len(relations) == 12 and all(relation["planted"] == "yes" for relation in relations)
    assert all(relation["verb"] == "implies" and relation["confidence"] >= 0.95 for relation in relations)


def test_demo_gives_reasons(demonstration):
    assert len(demonstration["rows"]) == 3
    for row in demonstration["rows"]:
        assert row["reasons"]["label"] == row["predicted"][0]["label"]
        assert row["reasons"]["neighbors"] and row["reasons"]["terms"]
        assert [guess["correct"] for guess in row["predicted"]] == [
            guess["label"] in row["labels"] for guess in row["predicted"]
        ]


def test_demo_for_people(sldl, monkeypatch):
    smaller = partial(make_asymmetric_multilabel, 300, 100, 30)
    monkeypatch.setattr("pysldl.datasets.make_asymmetric_multilabel", smaller)
    shown = sldl("demo")
    assert shown.code == 0
    for words in ("label prior", "planted", "implies", "similar training examples", "test row"):
        assert words in shown.out
