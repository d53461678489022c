"""From a file to a model, to predictions, to metrics, in every format."""

import csv
import json

import numpy as np
import pytest

from pysldl import make_sldl
from pysldl.datasets import Dataset, write_npz
from pysldl.metrics import evaluate, inverse_propensity
from pysldl.persistence import load_model, read_manifest

QUICK = ["--preset", "paper", "--set", "embedding.n_steps=30", "--set", "embedding__n_components=16"]


@pytest.mark.parametrize("format", ["npz", "xc", "jsonl", "arff"])
def test_fit_predict_evaluate_inspect(sldl, files, world, tmp_path, format):
    model = tmp_path / "model"
    fitted = sldl("fit", files[format], "--model", model, *QUICK, "--json")
    assert fitted.code == 0, fitted.err
    has_splits = format in ("npz", "jsonl")
    assert fitted.document["split"] == ("train" if has_splits else "all")
    assert fitted.document["n_samples"] == (192 if has_splits else 240)
    assert set(fitted.document["memory_bytes"]) == {"embedding", "mapping", "decoder"}
    assert "estimated memory, excluding the data" in fitted.err

    predicted = sldl("predict", model, files[format], "--k", 3)
    rows = [json.loads(line) for line in predicted.out.splitlines()]
    assert len(rows) == 240 and all(len(row["labels"]) == 3 for row in rows)
    known = set(map(str, range(20))) if format == "xc" else set(world.label_names)
    assert {label for row in rows for label in row["labels"]} <= known
    assert all(row["scores"] == sorted(row["scores"], reverse=True) for row in rows)

    scored = sldl("evaluate", model, files[format], "--json")
    assert scored.code == 0, scored.err
    assert scored.document["split"] == ("test" if has_splits else "all")
    assert scored.document["training_rows"] is not has_splits
    assert 0.5 < scored.document["metrics"]["P@1"] <= 1
    assert len(scored.document["metrics"]) == 15

    inspected = sldl("inspect", model, "--labels", "--relations", 5, "--json")
    assert inspected.document["n_labels"] == 20
    assert inspected.document["parameters"]["embedding"]["n_components"] == 16
    assert sum(inspected.document["labels"].values()) == int(load_model(model).label_counts_.sum())
    assert len(inspected.document["relations"]) == 5
    assert all(0.5 <= r["confidence"] <= 1 and r["kl"] is not None for r in inspected.document["relations"])


def test_fit_is_the_library_s_fit(model, world):
    train, test = world.split("train"), world.split("test")
    expected = make_sldl("paper", embedding__n_steps=30, embedding__n_components=16).fit(train.X, train.Y)
    labels, _ = load_model(model).predict_topk(test.X, 5)
    np.testing.assert_array_equal(labels, expected.predict_topk(test.X, 5)[0])
    assert load_model(model).feature_names_.tolist() == world.feature_names.tolist()


def test_evaluate_uses_the_training_counts(sldl, model, files, world):
    train, test = world.split("train"), world.split("test")
    scored = sldl(
        "evaluate", model, files["npz"], "--ks", "2,4", "--propensity-a", 0.5, "--propensity-b", 0.4, "--json"
    )
    labels, _ = load_model(model).predict_topk(test.X, 4)
    expected = evaluate(test.Y, labels, inverse_propensity(train.Y, 0.5, 0.4), ks=(2, 4))
    assert scored.document["metrics"] == pytest.approx(expected)
    assert scored.document["propensity"] == {"A": 0.5, "B": 0.4}


def test_people_get_tables(sldl, model, files):
    assert "nDCG" in sldl("evaluate", model, files["npz"]).out
    shown = sldl("inspect", model, "--labels", "--relations", 3, "--label", "sky").out
    assert "embedding.n_components" in shown and "implies" in shown and "training rows" in shown
    assert "fitted on" in shown


@pytest.mark.parametrize("preset", ["fast", "accurate"])
def test_models_without_gaussians_have_relations_too(sldl, files, tmp_path, preset):
    model = tmp_path / "model"
    assert sldl("fit", files["npz"], "--model", model, "--preset", preset).code == 0
    found = sldl("inspect", model, "--relations", 3, "--label", "sky", "--json").document
    assert found["relations"] and all(relation["kl"] is None for relation in found["relations"])
    assert any(r["verb"] == "implies" and r["target"] == "sky" for r in found["label_relations"])
    shown = sldl("inspect", model, "--relations", 3).out
    assert "implies" in shown and "sure" in shown and "KL" not in shown


def test_evaluate_says_when_it_scores_training_rows(sldl, model, files):
    assert "fitted on" in sldl("evaluate", model, files["npz"], "--split", "train").err
    assert "fitted on" not in sldl("evaluate", model, files["npz"], "--split", "test").err


def test_formats_of_predictions_agree(sldl, model, files, tmp_path):
    lines = [json.loads(line) for line in sldl("predict", model, files["npz"], "--split", "test").out.splitlines()]
    table = list(
        csv.DictReader(sldl("predict", model, files["npz"], "--split", "test", "--format", "csv").out.splitlines())
    )
    assert [row["label"] for row in table if row["row"] == "7"] == lines[7]["labels"]
    assert [float(row["score"]) for row in table if row["row"] == "7"] == lines[7]["scores"]

    out = tmp_path / "scores.txt"
    told = sldl("predict", model, files["npz"], "--split", "test", "--format", "xc", "--out", out, "--json")
    assert told.document["rows"] == len(lines) and list(tmp_path.iterdir()) == [out]
    header, *rows = out.read_text().splitlines()
    assert header == "48 20"
    names = load_model(model).label_names_
    pairs = [pair.split(":") for pair in rows[7].split()]
    assert [str(names[int(column)]) for column, _ in pairs] == lines[7]["labels"]
    assert [float(score) for _, score in pairs] == lines[7]["scores"]

    whole = sldl("predict", model, files["npz"], "--split", "test", "--json").document
    assert whole["predictions"] == lines


def test_threshold_and_probabilities(sldl, model, files):
    every = sldl("predict", model, files["npz"], "--proba", "--json").document["predictions"]
    assert all(0 <= p <= 1 for row in every for p in row["probabilities"])
    some = sldl("predict", model, files["npz"], "--proba", "--threshold", 0.5, "--k", 5, "--json").document[
        "predictions"
    ]
    assert [row["labels"] for row in some] == [
        [label for label, p in zip(row["labels"], row["probabilities"], strict=True) if p >= 0.5] for row in every
    ]
    learned = sldl("predict", model, files["npz"], "--threshold", "learned", "--json").document["predictions"]
    threshold = load_model(model).calibration_.threshold_
    assert all(score >= threshold * (1 - 1e-5) for row in learned for score in row["scores"])
    chosen = load_model(model).predict(_features(files))
    assert [len(row["labels"]) for row in learned] == np.diff(chosen.indptr).tolist()


def test_texts_without_labels(sldl, text_model, tmp_path):
    wanted = sldl("predict", text_model, stdin=b"sky bright_sky cloud\n\nwater lake\n").out.splitlines()
    assert len(wanted) == 3
    lines = tmp_path / "new.jsonl"
    lines.write_text('{"body": "sky bright_sky cloud"}\n{"body": ""}\n{"body": "water lake"}\n')
    assert sldl("predict", text_model, lines, "--text", "body").out.splitlines() == wanted
    table = tmp_path / "new.csv"
    table.write_text('text\nsky bright_sky cloud\n""\nwater lake\n')
    assert sldl("predict", text_model, table).out.splitlines() == wanted


def test_features_from_standard_input(sldl, model, files):
    piped = sldl("predict", model, "-", stdin=files["xc"].read_bytes())
    assert piped.out == sldl("predict", model, files["xc"]).out


def test_unknown_labels_can_be_kept_or_dropped(sldl, text_model, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "sky cloud", "labels": ["sky", "ufo"]}\n{"text": "people crowd", "labels": ["people"]}\n')
    kept = sldl("evaluate", text_model, rows, "--ks", 20, "--unseen", "keep", "--json").document
    dropped = sldl("evaluate", text_model, rows, "--ks", 20, "--unseen", "drop", "--json").document
    assert kept["n_true_labels_unseen_in_training"] == 1
    assert kept["metrics"]["P@20"] == dropped["metrics"]["P@20"]  # the same hits
    assert kept["metrics"]["R@20"] == pytest.approx(dropped["metrics"]["R@20"] - 0.25)  # of three labels, of two


def test_counts_are_weighted_and_the_model_remembers(sldl, world, tmp_path):
    idf = np.linspace(1, 3, world.n_features)
    weighted = Dataset("counts", world.X, world.Y, world.label_names, world.feature_names, world.splits, idf)
    write_npz(weighted, tmp_path / "counts.npz")
    assert sldl("fit", tmp_path / "counts.npz", "--model", tmp_path / "m", *QUICK).code == 0
    assert read_manifest(tmp_path / "m").extra["features"] == "tfidf"
    told = sldl("predict", tmp_path / "m", tmp_path / "counts.npz", "--json").document["predictions"]
    labels, _ = load_model(tmp_path / "m").predict_topk(weighted.tfidf().X, 5, names=True)
    assert [row["labels"] for row in told] == labels.tolist()
    raw = sldl("predict", tmp_path / "m", tmp_path / "counts.npz", "--features", "raw", "--json").document[
        "predictions"
    ]
    assert raw != told


def test_presets_stages_and_seeds(sldl, files, tmp_path):
    words = ["--set", "embedding=RandomLabelEmbedding", "--set", "embedding.n_components=8", "--preset", "blend"]
    for seed, name in ((3, "a"), (3, "b"), (4, "c")):
        assert sldl("fit", files["npz"], "--model", tmp_path / name, *words, "--seed", seed).code == 0
    a, b, c = (load_model(tmp_path / name).embedding_.components_ for name in "abc")
    assert a.shape == (20, 8)
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def test_overwrite(sldl, files, tmp_path):
    model = tmp_path / "model"
    assert sldl("fit", files["npz"], "--model", model, *QUICK).code == 0
    assert sldl("fit", files["npz"], "--model", model, *QUICK, "--seed", 1, "--overwrite").code == 0
    assert read_manifest(model).parameters["random_state"] == 1
    assert list(tmp_path.iterdir()) == [model]


def _features(files):
    from pysldl.datasets import read_npz

    return read_npz(files["npz"]).X
