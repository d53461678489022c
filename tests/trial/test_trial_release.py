"""Ctrl-C on a terminal, lines of a verbose fit, and a model for a hub or MLflow (docs/trial.md)."""

import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

pty = pytest.importorskip("pty", reason="there are no terminals of this kind on this system")


def test_ctrl_c_during_a_fit_is_one_line_and_leaves_no_model(records_file, tmp_path):
    model = tmp_path / "model"
    endless = ("--preset", "paper", "--set", "embedding.n_steps=1000000", "--set", "embedding.tol=none")
    # A parent that ignores the signal, as a shell without a terminal does, would hand that on.
    start = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from pysldl.cli import main; main()"
    )
    command = [sys.executable, "-c", start, "fit", str(records_file), "--model", str(model), *endless]
    screen, terminal = pty.openpty()
    try:
        with subprocess.Popen(
            command, stderr=terminal, stdout=subprocess.PIPE, env=os.environ | {"TERM": "xterm"}
        ) as process:
            os.close(terminal)
            shown = b""
            while b"loss" not in shown:  # the bar is drawn: the fit has begun
                shown += os.read(screen, 1024)
            process.send_signal(signal.SIGINT)
            while b"error: interrupted" not in shown:
                shown += os.read(screen, 1024)
            assert process.wait(60) == 130
    finally:
        os.close(screen)
    assert b"embedding" in shown and b"/1000000" in shown and b"Traceback" not in shown
    assert list(tmp_path.iterdir()) == []


def test_what_is_verbose(sldl, records_file, tmp_path):
    told = sldl(
        "fit", records_file, "--model", tmp_path / "model", "--preset", "fast", "--set", "verbose=true", "--json"
    )
    assert told.document["n_samples"] == 80
    lines = [line for line in told.err.splitlines() if line.startswith("[pysldl] ")]
    names = [line.removeprefix("[pysldl] ").split(":")[0] for line in lines]
    assert names[:3] == ["features", "decoder", "calibration"]
    assert "labels" in names and any("held-out examples: P@1" in line for line in lines)


def test_a_folder_for_a_model_hub(sldl, records_model, records, tmp_path, monkeypatch):
    folder = tmp_path / "hub"
    told = sldl("export", records_model, folder, "--license", "cc-by-4.0", "--language", "en", "--json").document
    assert "README.md" in told["files"] and "model/current.json" in told["files"]
    text = (folder / "README.md").read_text()
    _, header, body = text.split("---\n", 2)
    fields = {key: json.loads(value) for key, value in (line.split(": ", 1) for line in header.splitlines())}
    assert fields["library_name"] == "pysldl" and fields["license"] == "cc-by-4.0" and fields["language"] == "en"
    assert fields["pipeline_tag"] == "text-classification"
    metrics = {one["name"]: one["value"] for one in fields["model-index"][0]["results"][0]["metrics"]}
    assert 0.5 < metrics["P@1"] <= 1
    assert "## Known limits" in body and "The folder holds excerpts of the training texts." in body
    code = body.split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(folder)
    found = {}
    exec(code.replace("a text to label", records[0]["text"]), found)
    assert found["labels"][0, 0] in records[0]["labels"]
    assert "exists already" in sldl("export", records_model, folder, code=2).err
    assert "no such" in sldl("export", tmp_path / "nothing", tmp_path / "other", code=2).err.lower()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["hub"]


def test_names_in_a_hub_card_are_no_markup():
    from pysldl.inspection.card.hub import _plain

    assert _plain("a|b\n<script>*x*") == "a&#124;b &#60;script&#62;&#42;x&#42;"


def test_a_model_in_mlflow(records_model, records, tmp_path):
    pyfunc = pytest.importorskip("mlflow.pyfunc", reason="mlflow is not installed (pip install mlflow-skinny)")
    pandas = pytest.importorskip("pandas")
    recipe = Path(__file__).parents[2] / "examples" / "mlflow_model.py"
    if not recipe.is_file():
        pytest.skip("the examples are not part of an installed package")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of mlflow
        pyfunc.save_model(
            tmp_path / "stored",
            python_model=str(recipe),
            artifacts={"model": str(records_model)},
            pip_requirements=["pysldl"],
        )
        found = pyfunc.load_model(str(tmp_path / "stored")).predict(pandas.DataFrame({"text": [records[0]["text"]]}))
    assert found["label"].iloc[0] in records[0]["labels"]
    assert not [path for path in (tmp_path / "stored").rglob("*") if path.suffix in (".pkl", ".pickle")]
