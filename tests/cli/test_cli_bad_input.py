"""Every bad input: one clear line, exit code 2, nothing half written."""

import json
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pysldl.persistence import current_version

QUICK = ["--preset", "paper", "--set", "embedding.n_steps=5", "--set", "embedding.n_components=4"]


@pytest.fixture
def refuses_to_fit(refused, tmp_path):
    """Fit on a file that cannot be used: the error, once it is known that nothing was written."""

    def fit(data, *words):
        before = sorted(tmp_path.iterdir())
        line = refused("fit", data, "--model", tmp_path / "model", *QUICK, *words)
        assert sorted(tmp_path.iterdir()) == before
        return line

    return fit


@pytest.fixture
def arrays(files):
    """The arrays of the npz file, to be broken."""
    with np.load(files["npz"], allow_pickle=False) as stored:
        return dict(stored)


@pytest.fixture
def broken(tmp_path, arrays):
    def write(**changed):
        np.savez(tmp_path / "broken.npz", **(arrays | changed))
        return tmp_path / "broken.npz"

    return write


def test_wrong_shapes(refuses_to_fit, broken, arrays):
    path = broken(Y_indptr=arrays["Y_indptr"][:-1], Y_shape=arrays["Y_shape"] - [1, 0], Y_indices=arrays["Y_indices"])
    assert "Y" in refuses_to_fit(path)
    shorter = arrays["Y_indptr"][:-1]
    path = broken(Y_indptr=shorter, Y_shape=arrays["Y_shape"] - [1, 0], Y_indices=arrays["Y_indices"][: shorter[-1]])
    assert "239" in refuses_to_fit(path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity(refuses_to_fit, broken, arrays, value):
    data = arrays["X_data"].copy()
    data[3] = value
    line = refuses_to_fit(broken(X_data=data))
    assert str(value) in line and "row" in line


def test_labels_that_are_not_zero_or_one(refuses_to_fit, tmp_path):
    path = tmp_path / "x.arff"
    path.write_text("@relation 'x: -C 1'\n@attribute a numeric\n@attribute b numeric\n@data\n1,0.5\n2,0.1\n0,1\n")
    assert "0 and 1" in refuses_to_fit(path)


def test_no_labels_at_all(refuses_to_fit, tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("3 2 2\n 0:1\n 1:1\n 0:2\n")
    assert "no label" in refuses_to_fit(path)


def test_single_row(refuses_to_fit, tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("1 2 2\n0,1 0:1\n")
    assert "at least 2" in refuses_to_fit(path)


def test_duplicate_label_names(refuses_to_fit, broken, world):
    names = np.array(world.label_names.tolist())
    names[1] = names[0]
    assert repr(str(names[0])) in refuses_to_fit(broken(label_names=names))


def test_empty_file(refuses_to_fit, refused, model, tmp_path):
    path = tmp_path / "empty.npz"
    path.touch()
    assert f"{path}: the file is empty" in refuses_to_fit(path)
    assert "empty" in refused("predict", model, path)
    assert "standard input: the file is empty" in refused("predict", model, stdin=b"")


def test_broken_number_names_file_and_line(refuses_to_fit, refused, model, tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("3 2 2\n0 0:1\n1 1:o.5\n0,1 0:2\n")
    assert f"{path}, line 3" in refuses_to_fit(path)
    assert "standard input, line 3" in refused("predict", model, stdin=path.read_bytes())


def test_wrong_magic_bytes(refuses_to_fit, tmp_path):
    path = tmp_path / "x.npz"
    path.write_bytes(b"not a zip file at all")
    assert "magic" in refuses_to_fit(path)


def test_directory_where_a_file_is_expected(refuses_to_fit, refused, model, tmp_path):
    (tmp_path / "folder").mkdir()
    assert "is a directory" in refuses_to_fit(tmp_path / "folder")
    assert "is a directory" in refused("predict", model, tmp_path / "folder")


def test_missing_file_and_unknown_name(refuses_to_fit, refused, model):
    assert "no such file" in refuses_to_fit("no-such-thing.npz")
    assert "no local copy" in refuses_to_fit("cal500")
    assert "did you mean 'delicious'" in refused("datasets", "delicius")
    assert "no such model folder" in refused("predict", "no-such-model", "x.npz")


def test_unknown_label_names(refused, text_model, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "sky", "labels": ["sky", "ufo"]}\n')
    assert "'ufo'" in refused("evaluate", text_model, rows)
    rows.write_text('{"text": "sky", "labels": ["ufo"]}\n')
    assert "knows none" in refused("evaluate", text_model, rows, "--unseen", "drop")
    assert "did you mean 'cloud'" in refused("inspect", text_model, "--label", "clouds")


def test_rows_of_another_kind(refused, model, text_model, files, tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("2 3 20\n0 0:1\n1 1:1\n")
    assert "has 3 features, but" in refused("predict", model, path)
    assert "fitted on texts" in refused("evaluate", text_model, files["npz"])
    assert "fitted on features" in refused("predict", model, files["jsonl"])


def test_features_in_another_order(refused, model, broken, world):
    names = np.array(world.feature_names.tolist())
    names[[0, 5]] = names[[5, 0]]
    assert "feature 0" in refused("predict", model, broken(feature_names=names))


def test_disk_full_while_saving(files, tmp_path, tmp_path_factory):
    """A real write that fails: files may not grow beyond a few thousand bytes."""

    def small_files_only():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    command = [sys.executable, "-m", "pysldl.cli", "fit", str(files["npz"]), "--model", "model", *QUICK]
    # Compiled loops are stored in files, too: those of this command must be there before.
    subprocess.run(command, cwd=tmp_path_factory.mktemp("before"), check=True, capture_output=True)
    done = subprocess.run(command, cwd=tmp_path, preexec_fn=small_files_only, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "cannot be written" in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_out_stays_as_it_was_when_writing_fails(refused, model, files, tmp_path, monkeypatch):
    out = tmp_path / "labels.csv"
    out.write_text("precious")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    assert "No space left" in refused("predict", model, files["npz"], "--out", out)
    assert out.read_text() == "precious" and list(tmp_path.iterdir()) == [out]
    assert "no such" in refused("predict", model, files["npz"], "--out", tmp_path / "missing" / "x").lower()
    assert "is a directory" in refused("predict", model, files["npz"], "--out", tmp_path)


def test_full_standard_output(model, files):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "pysldl.cli", "predict", str(model), str(files["npz"])]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and done.stderr == "error: No space left on device\n"


def test_a_place_that_cannot_take_a_model(refused, files, tmp_path, model):
    assert "--overwrite" in refused("fit", files["npz"], "--model", model)
    foreign = tmp_path / "folder"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("mine")
    assert "is not a pysldl model" in refused("fit", files["npz"], "--model", foreign, "--overwrite")
    assert "no such folder" in refused("fit", files["npz"], "--model", tmp_path / "a" / "b")


def test_damaged_and_newer_models(refused, model, files, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(current_version(model), copy)
    arrays = copy / "arrays.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-1])
    assert "damaged" in refused("predict", copy, files["npz"])
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps(manifest | {"format_version": 99}))
    assert "format 99" in refused("inspect", copy)
    (copy / "manifest.json").write_text("{")
    assert "not valid JSON" in refused("evaluate", copy, files["npz"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--set", "embedding.n_components"], "key=value"),
        (["--set", "embedding.n_components=many"], "expected a value like"),
        (["--set", "embedding.n_components=-3"], "n"),
        (["--set", "embedding.color=3"], "color"),
        (["--set", "embedding=Gauss"], "GaussianLabelEmbedding"),
        (["--set", "decoder.n_neighbors=0"], "n_neighbors"),
        (["--preset", "best"], "preset"),
        (["--memory-limit", "much"], "--memory-limit"),
        (["--memory-limit", "1 kB"], "limit"),
        (["--split", "night"], "night"),
        (["--features", "tfidf"], "idf"),
        (["--input-format", "xml"], "xml"),
        (["--read", "color=3"], "color"),
    ],
)
def test_bad_settings(refuses_to_fit, files, words, told):
    assert told in refuses_to_fit(files["npz"], *words)


@pytest.mark.parametrize(
    "words",
    [
        ["fot"],
        ["fit"],
        ["fit", "x.npz"],
        ["predict"],
        ["demo", "--seed", "x"],
        ["version", "--color"],
        ["predict", "m", "--color"],
    ],
)
def test_bad_usage(refused, words):
    refused(*words)


def test_bad_numbers_of_labels(refused, model, files):
    assert "--ks" in refused("evaluate", model, files["npz"], "--ks", "1,x")
    assert "--ks" in refused("evaluate", model, files["npz"], "--ks", "0")
    assert "k must" in refused("predict", model, files["npz"], "--k", 0)
    assert "A must" in refused("evaluate", model, files["npz"], "--propensity-a", "-1")


TABLE = "text\tlabels\nblue sky\tsky\ngray cloud\tcloud;sky\nrain cloud\tcloud\n"


def test_a_delimiter_by_its_name(sldl, refuses_to_fit, tmp_path):
    path = tmp_path / "posts.csv"
    path.write_text(TABLE)
    assert "one character or the word tab" in refuses_to_fit(path, "--read", "delimiter=tabs")
    assert "one character or the word tab" in refuses_to_fit(path, "--read", "delimiter=7.5")
    done = sldl("fit", path, "--model", tmp_path / "m", "--preset", "fast", "--read", "delimiter=tab", "--json")
    assert done.document["n_labels"] == 2
    assert sldl("predict", tmp_path / "m", path, "--read", "delimiter=tab").out.count("\n") == 3


def test_options_of_reading_are_not_ignored(refuses_to_fit, files, tmp_path):
    path = tmp_path / "posts.tsv"
    path.write_text(TABLE)
    assert "no column '0.9'" in refuses_to_fit(path, "--read", "split=0.9")
    assert "field '0.9'" in refuses_to_fit(files["jsonl"], "--read", "split=0.9")
    assert "split" in refuses_to_fit(files["npz"], "--read", "split=0.9")
    assert "--read split=0.9" in refuses_to_fit("stackex-chess", "--read", "split=0.9")


def test_labels_joined_by_another_separator(sldl, refuses_to_fit, tmp_path):
    path = tmp_path / "posts.csv"
    path.write_text('text,labels\na cat,"cat,animal"\na dog,"dog,animal"\nboth,animal\n')
    line = refuses_to_fit(path)
    assert "line 2" in line and "cat,animal" in line and "--read 'separator=,'" in line
    other = tmp_path / "bars.csv"
    other.write_text("text,labels\na cat,cat|animal\n")
    assert "--read 'separator=|'" in refuses_to_fit(other)
    words = ["fit", path, "--preset", "fast", "--json"]
    assert sldl(*words, "--model", tmp_path / "a", "--read", "separator=,").document["n_labels"] == 3
    assert sldl(*words, "--model", tmp_path / "b", "--read", "separator=;").document["n_labels"] == 3


def test_a_part_of_a_stage_by_its_class(sldl, refuses_to_fit, files, tmp_path):
    assert "choose one of ExactIndex, FaissIndex" in refuses_to_fit(files["npz"], "--set", "decoder.index=Faiss")
    assert "choose one of" in refuses_to_fit(files["npz"], "--set", "decoder.index=3")
    assert "FaissIndex" not in refuses_to_fit(files["npz"], "--set", "decoder=RandomLabelEmbedding")
    pytest.importorskip("faiss", reason="faiss is not installed")
    words = ["fit", files["npz"], "--model", tmp_path / "m", *QUICK, "--set", "decoder.index=FaissIndex"]
    assert sldl(*words).code == 0
