"""`sldl update`: further rows, new labels, rows that go, and a version that replaces another in one step."""

import json

import numpy as np
import pytest

from pysldl.cli import run
from pysldl.cli._input import parse_ranges
from pysldl.exceptions import DataError
from pysldl.persistence import load_model, read_manifest

QUICK = [
    "--preset",
    "paper",
    "--set",
    "embedding.n_steps=30",
    "--set",
    "embedding.n_components=16",
    "--set",
    "online=true",
]


@pytest.fixture
def online(files, tmp_path):
    """An online model of the texts' train rows."""
    path = tmp_path / "online"
    assert run(["fit", str(files["jsonl"]), "--model", str(path), *QUICK]) == 0
    return path


@pytest.fixture
def further(tmp_path):
    """Rows with a label that the model has never heard of."""
    path = tmp_path / "further.jsonl"
    rows = [{"text": "sky bright_sky cloud", "labels": ["sky", "ufo"]}, {"text": "lake water", "labels": ["lake"]}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows * 10))
    return path


def test_rows_and_a_new_label_are_added(sldl, online, further):
    before = load_model(online, mmap=False)
    told = sldl("update", online, further, "--json")
    assert told.code == 0, told.err
    assert told.document["n_added"] == 20 and told.document["n_removed"] == 0
    assert told.document["n_samples"] == before.n_samples_ + 20
    assert "ufo" in told.document["new_labels"] and told.document["version"] == 2
    after = load_model(online)
    assert after.label_names_.tolist()[: len(before.label_names_)] == before.label_names_.tolist()
    texts = [row["text"] for row in map(json.loads, further.read_text().splitlines())]
    labels = [row["labels"] for row in map(json.loads, further.read_text().splitlines())]
    expected = before.partial_fit(texts, labels)
    np.testing.assert_array_equal(expected.predict_topk(texts)[0], after.predict_topk(texts)[0])
    assert "ufo" in sldl("predict", online, stdin=b"sky bright_sky cloud\n").out
    about = read_manifest(online).extra
    assert about["n_samples"] == after.n_samples_ and about["updates"][0]["n_added"] == 20
    assert sldl("update", online, further, "--json").document["version"] == 3


def test_kept_examples_follow_the_rows(sldl, files, further, tmp_path):
    model = tmp_path / "model"
    assert run(["fit", str(files["jsonl"]), "--model", str(model), *QUICK, "--keep-examples"]) == 0
    first = load_model(model).training_excerpts_.tolist()
    rows = [json.loads(line) for line in files["jsonl"].read_text().splitlines()]
    assert first == [row["text"] for row in rows if row["split"] == "train"]
    assert sldl("update", model, further, "--remove", "1-2").code == 0
    after = load_model(model)
    assert after.training_excerpts_.tolist() == [first[0], *first[3:], *["sky bright_sky cloud", "lake water"] * 10]
    assert len(after.training_excerpts_) == after.n_samples_


def test_rows_are_forgotten_and_the_old_version_kept(sldl, online, tmp_path):
    n_samples = load_model(online).n_samples_
    first = read_manifest(online)
    told = sldl("update", online, "--remove", "0,10-19", "--keep", tmp_path / "before", "--json").document
    assert told["n_removed"] == 11 and told["n_added"] == 0 and told["data"] is None
    assert load_model(online).n_samples_ == n_samples - 11
    assert read_manifest(tmp_path / "before") == first
    assert load_model(tmp_path / "before").n_samples_ == n_samples
    assert sorted(path.name for path in tmp_path.iterdir()) == ["before", "online"]


def test_features_are_matched_and_split(sldl, files, tmp_path):
    model = tmp_path / "npz"
    assert sldl("fit", files["npz"], "--model", model, *QUICK).code == 0
    shown = sldl("update", model, files["npz"], "--split", "test")
    assert shown.code == 0 and "n_added" in shown.out
    assert load_model(model).n_samples_ == 240
    # The XC text has the same columns but no names: labels go by position.
    assert sldl("update", model, files["xc"], "--json").document["new_labels"] == []
    assert load_model(model).n_samples_ == 480


def test_bad_input(refused, online, model, further, files, tmp_path):
    assert "online=true" in refused("update", model, files["npz"])
    assert "nothing to do" in refused("update", online)
    assert "no such file" in refused("update", online, tmp_path / "none.jsonl")
    assert "no such model folder" in refused("update", tmp_path / "none", further)
    assert "holds features" in refused("update", online, files["npz"])
    assert "no training row 999999999999" in refused("update", online, "--remove", "0-999999999999")
    assert "such as 3,5-7" in refused("update", online, "--remove", "5-3")
    assert "exists already" in refused("update", online, further, "--keep", online)
    assert "no split 'future'" in refused("update", online, files["jsonl"], "--split", "future")
    unlabeled = tmp_path / "unlabeled.jsonl"
    unlabeled.write_text('{"text": "sky", "labels": []}\n')
    assert "label" in refused("update", online, unlabeled)


def test_features_of_another_width_are_refused(sldl, refused, files, tmp_path):
    path = tmp_path / "npz"
    assert sldl("fit", files["npz"], "--model", path, *QUICK).code == 0
    narrow = tmp_path / "narrow.txt"
    narrow.write_text("1 3 20\n0,1 0:1 2:1\n")
    before = read_manifest(path)
    assert "has 3 features, but" in refused("update", path, narrow)
    assert read_manifest(path) == before


def test_another_update_in_between_is_not_overwritten(refused, sldl, online, further, monkeypatch):
    from pysldl.estimator.online import OnlineLearning

    learn = OnlineLearning._learn

    def learn_and_be_overtaken(self, *arguments, **options):
        monkeypatch.setattr(OnlineLearning, "_learn", learn)
        overtaking = load_model(online)
        overtaking.remove_rows(0)
        overtaking.save(online, overwrite=True)
        learn(self, *arguments, **options)

    monkeypatch.setattr(OnlineLearning, "_learn", learn_and_be_overtaken)
    n_samples = load_model(online).n_samples_
    assert "replaced by another process" in refused("update", online, further)
    assert load_model(online).n_samples_ == n_samples - 1


@pytest.mark.parametrize("text", ["", "a", "1,,2", "3-1", "-1", "1-", "1.5"])
def test_row_numbers_that_are_none(text):
    with pytest.raises(DataError, match="--remove"):
        parse_ranges(text, "--remove", 100, "training row")
