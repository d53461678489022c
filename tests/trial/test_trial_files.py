"""The trial of a cataloguer (docs/trial.md): files as they are, splits, predictions with ids, reasons in the shell."""

import csv
import json

import pytest

from pysldl.datasets import read_dataset


def test_a_split_is_made_by_a_command_and_found_by_the_next(sldl, records_file, tmp_path):
    out = tmp_path / "parts.jsonl"
    told = sldl("split", records_file, "--out", out, "--test", "0.25", "--validation", "0.1", "--json").document
    assert {name: facts["rows"] for name, facts in told.items()} == {"train": 52, "test": 20, "validation": 8}
    assert all(facts["labels"] == 4 for facts in told.values())
    parts = read_dataset(out)
    assert parts.ids[0] == "r0" and parts.titles[0] == "Record 0"
    assert {part: len(rows) for part, rows in parts.splits.items()} == {"train": 52, "test": 20, "validation": 8}
    sldl("fit", out, "--model", tmp_path / "model", "--preset", "fast")
    scored = sldl("evaluate", tmp_path / "model", out, "--json").document
    assert scored["split"] == "test" and scored["n_samples"] == 20 and not scored["training_rows"]


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "tsv"])
def test_a_split_can_be_one_file_a_part(sldl, records, records_file, tmp_path, suffix):
    out = tmp_path / f"part-{{split}}.{suffix}"
    sldl("split", records_file, "--out", out, "--random", "--seed", "3")
    train, test = (read_dataset(tmp_path / f"part-{part}.{suffix}") for part in ("train", "test"))
    assert (train.n_samples, test.n_samples) == (72, 8) and not set(train.ids) & set(test.ids)
    record = next(record for record in records if record["id"] == test.ids[0])
    assert test.texts[0] == record["text"]
    assert sorted(test.label_names[test.Y[[0]].indices]) == sorted(record["labels"])


@pytest.mark.parametrize("out", ["records.csv", "records-{split}.csv"])
def test_a_split_does_not_replace_the_file_that_is_read(sldl, records_file, tmp_path, out):
    lines = ["text,labels,shelf", *(f"text of record {row},sky,A{row}" for row in range(20))]
    path = tmp_path / out.replace("{split}", "train")
    path.write_text("\n".join(lines))
    told = sldl("split", path, "--out", tmp_path / out, code=2).err
    assert f"--out {path}: this is the file that is read; choose another name" in told
    assert path.read_text() == "\n".join(lines)  # with the shelves


def test_a_share_of_few_rows_that_is_no_row_is_named_as_it_was_given(sldl, tmp_path):
    (tmp_path / "three.csv").write_text("text,labels\nsea,a\nsky,b\nsun,c\n")
    told = sldl("split", tmp_path / "three.csv", "--out", tmp_path / "parts.csv", code=2).err
    assert "--test 0.1: of 3 rows one part would get none; choose another share." in told


def test_features_are_split_too(sldl, tmp_path):
    from pysldl.datasets import make_asymmetric_multilabel, write_npz

    write_npz(make_asymmetric_multilabel(100, 30, 8, random_state=0), tmp_path / "data.npz")
    sldl("split", tmp_path / "data.npz", "--out", tmp_path / "parts.npz")
    assert {part: len(rows) for part, rows in read_dataset(tmp_path / "parts.npz").splits.items()} == {
        "train": 90,
        "test": 10,
    }
    wrong = sldl("split", tmp_path / "data.npz", "--out", tmp_path / "parts.xlsx", code=2)
    assert "end the name in one of them" in wrong.err
    wrong = sldl("split", tmp_path / "data.npz", "--out", tmp_path / "parts.jsonl", code=2)
    assert "holds no texts: write it as npz" in wrong.err
    wrong = sldl("split", tmp_path / "data.npz", "--out", tmp_path / "parts.npz", "--test", "1.5", code=2)
    assert "leave rows to train on" in wrong.err


def test_predictions_carry_ids_and_titles_in_the_format_of_the_file_name(sldl, records_file, records_model, tmp_path):
    lines = sldl("predict", records_model, records_file, "--k", "1").lines
    assert lines[3]["id"] == "r3" and lines[3]["title"] == "Record 3" and len(lines[3]["labels"]) == 1
    sldl("predict", records_model, records_file, "--out", tmp_path / "predictions.jsonl")
    assert json.loads((tmp_path / "predictions.jsonl").read_text().splitlines()[0])["id"] == "r0"
    for suffix, delimiter in (("csv", ","), ("tsv", "\t")):
        out = tmp_path / f"predictions.{suffix}"
        assert sldl("predict", records_model, records_file, "--out", out, "--json").document["format"] == suffix
        with out.open(newline="") as file:
            table = list(csv.DictReader(file, delimiter=delimiter))
        assert list(table[0]) == ["row", "id", "title", "rank", "label", "score"]
        assert table[0]["id"] == "r0" and table[0]["label"] in ("chess", "music")
    assert "pass --format" in sldl("predict", records_model, records_file, "--out", tmp_path / "p.xlsx", code=2).err


def test_predictions_with_a_wanted_recall(sldl, records_file, records_model):
    few, many = (sldl("predict", records_model, records_file, "--recall", share).lines for share in ("0.5", "0.95"))
    assert sum(len(row["labels"]) for row in few) < sum(len(row["labels"]) for row in many)
    assert (
        "give one of them"
        in sldl("predict", records_model, records_file, "--recall", "0.5", "--precision", "0.5", code=2).err
    )
    assert "out of reach" in sldl("predict", records_model, records_file, "--precision", "0.9999", code=2).err


def test_predictions_as_parquet(sldl, records_file, records_model, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    sldl("predict", records_model, records_file, "--k", "2", "--out", tmp_path / "predictions.parquet")
    table = parquet.read_table(tmp_path / "predictions.parquet")
    assert table.column_names == ["row", "id", "title", "labels", "scores"] and table.num_rows == 80
    first = table.slice(0, 1).to_pylist()[0]
    assert first["id"] == "r0" and len(first["labels"]) == len(first["scores"]) == 2


def test_predictions_of_rows_without_ids_have_row_numbers(sldl, records_model):
    lines = sldl("predict", records_model, stdin=b"a soup of leek\nchords of the organ\n").lines
    assert [sorted(line) for line in lines] == [["labels", "row", "scores"]] * 2
    assert [line["labels"][0] for line in lines] == ["cooking", "music"]


def test_reasons_in_the_shell(sldl, records_file, records_model):
    told = sldl("explain", records_model, records_file, "--id", "r0", "--json").document
    assert told["id"] == "r0" and told["title"] == "Record 0"
    best = told["explanations"][0]
    assert best["label"] in ("chess", "music") and best["neighbors"] and best["terms"]
    assert "and" in best["neighbors"][0]["excerpt"] or "with" in best["neighbors"][0]["excerpt"]
    printed = sldl("explain", records_model, "--label", "cooking", stdin=b"a soup of leek and potato\n").out
    assert "cooking: score" in printed and "soup" in printed
    assert "no row with this id" in sldl("explain", records_model, records_file, "--id", "r99", code=2).err
    assert "has 80 rows" in sldl("explain", records_model, records_file, "--row", "80", code=2).err
    assert "did you mean" in sldl("explain", records_model, records_file, "--label", "ches", code=2).err.lower()


def test_one_label_is_inspected_in_a_model_without_gaussians(sldl, records_model):
    assert sldl("inspect", records_model, "--label", "chess", "--json").document["label"]["count"] > 0


def test_several_columns_of_text_are_joined(tmp_path):
    (tmp_path / "d.csv").write_text("nr,head,body,subjects\n7,On soup,leek,cooking\n8,On tea,leaves,tea;cooking\n")
    data = read_dataset(tmp_path / "d.csv", text="head, body", labels="subjects", id="nr")
    assert data.texts == ["On soup\nleek", "On tea\nleaves"] and data.ids == ["7", "8"] and data.titles is None


def test_a_table_without_header(sldl, records, tmp_path):
    path = tmp_path / "records.tsv"
    path.write_text("".join(f"{record['text']}\t{'|'.join(record['labels'])}\n" for record in records))
    wrong = sldl("fit", path, "--model", tmp_path / "m", code=2)
    assert "--read header=false" in wrong.err
    options = ("--read", "header=false", "--read", "separator=|")
    sldl("fit", path, "--model", tmp_path / "m", "--preset", "fast", *options)
    assert len(sldl("predict", tmp_path / "m", path, *options).lines) == 80
    found = read_dataset(path, header=False, separator="|", text=1, labels="2")
    assert found.label_names.tolist() == ["chess", "cooking", "music", "travel"]
    (tmp_path / "uneven.csv").write_text("a,b\nc\n")
    assert "line 2: expected 2 columns" in sldl("fit", tmp_path / "uneven.csv", *options, "--model", "x", code=2).err


def test_a_json_array(sldl, records, records_model, tmp_path):
    path = tmp_path / "records.json"
    path.write_text(json.dumps(records, indent=2))
    data = read_dataset(path)
    assert data.n_samples == 80 and data.ids[-1] == "r79"
    assert sldl("predict", records_model, path).lines[0]["id"] == "r0"
    (tmp_path / "array").write_text(json.dumps(records))  # no suffix: told by its first character
    assert read_dataset(tmp_path / "array").n_samples == 80
    path.write_text("[1, 2")
    assert "is not a JSON array" in sldl("fit", path, "--model", tmp_path / "m", code=2).err
    path.write_text('[{"text": "a", "labels": ["b"]}, 3]')
    assert "entry 1 of the array" in sldl("fit", path, "--model", tmp_path / "m", code=2).err


def test_encodings(sldl, tmp_path):
    content = "text,labels\nKäse und Brot,Küche\nBären im Wald,Tiere\n"
    for encoding in ("latin-1", "utf-16", "utf-8-sig"):
        (tmp_path / f"{encoding}.csv").write_bytes(content.encode(encoding))
    assert read_dataset(tmp_path / "latin-1.csv", encoding="latin-1").label_names.tolist() == ["Küche", "Tiere"]
    for marked in ("utf-16", "utf-8-sig"):
        assert read_dataset(tmp_path / f"{marked}.csv").texts[0] == "Käse und Brot"
    wrong = sldl("fit", tmp_path / "latin-1.csv", "--model", tmp_path / "m", code=2)
    assert "--read encoding=latin-1" in wrong.err
    wrong = sldl("fit", tmp_path / "latin-1.csv", "--model", tmp_path / "m", "--read", "encoding=klingon", code=2)
    assert "there is no encoding 'klingon'" in wrong.err


def test_labels_with_commas_are_not_one_label_in_silence(sldl, tmp_path):
    path = tmp_path / "d.csv"
    path.write_text('text,labels\na soup,"cooking,soup"\na tea,"cooking,tea"\n')
    assert "--read 'separator=,'" in sldl("fit", path, "--model", tmp_path / "m", code=2).err
    assert read_dataset(path, separator=",").label_names.tolist() == ["cooking", "soup", "tea"]


def test_an_unknown_option_of_a_format_names_those_it_has(sldl, records_file, tmp_path):
    wrong = sldl("fit", records_file, "--model", tmp_path / "m", "--read", "separater=,", code=2)
    assert "unknown option 'separater'; jsonl accepts text, labels" in wrong.err
    wrong = sldl("predict", tmp_path / "model", "--explain", code=2)
    assert "Unknown option" in wrong.err
