"""Corpora as Annif has them: folders of texts with subjects beside them, tables, JSON."""

import gzip
import json

import pytest

from pysldl.datasets import read_annif, read_dataset
from pysldl.datasets.annif_corpus import is_annif_corpus, read_annif_texts
from pysldl.datasets.readers import detect_format
from pysldl.exceptions import DataError, SLDLWarning

EX = "http://example.org/"
TSV = f"a cat\t<{EX}cat>\na cat and a dog\t<{EX}cat> <{EX}dog>\n\n"
JSONL = (
    json.dumps({"text": "a cat", "subjects": [{"uri": EX + "cat", "label": "cats"}], "document_id": 7})
    + "\n"
    + json.dumps({"text": "a cat and a dog", "subjects": [{"uri": EX + "cat"}, {"label": "dogs"}]})
    + "\n"
)
CSV = f"document_id,text,subject_uris\n7,a cat,<{EX}cat>\n8,a cat and a dog,<{EX}cat> {EX}dog\n"


def rows(dataset):
    return [dataset.label_names[dataset.Y[[row]].indices].tolist() for row in range(dataset.n_samples)]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "records").mkdir()
    for name, content in {
        "1.txt": "a cat",
        "1.tsv": f"<{EX}cat>\tcats\n",
        "2.txt": "a cat\nand a dog",
        "2.key": "cats\ndogs\n",
        "3.json": json.dumps({"text": "a dog", "subjects": [{"uri": EX + "dog"}]}),
    }.items():
        (tmp_path / "records" / name).write_text(content, encoding="utf-8")
    return tmp_path / "records"


def test_a_folder_of_texts_and_subjects(folder):
    dataset = read_dataset(folder)
    assert dataset.name == "records"
    assert dataset.texts == ["a cat", "a cat\nand a dog", "a dog"]
    assert dataset.ids == ["1", "2", "3"]
    assert rows(dataset) == [[EX + "cat"], ["cats", "dogs"], [EX + "dog"]]


def test_texts_without_subjects_are_left_out_and_counted(folder):
    (folder / "4.txt").write_text("nobody knows")
    (folder / "5.txt").write_text("nobody knows")
    (folder / "5.key").touch()
    with pytest.warns(SLDLWarning, match="2 of 5 documents have no subjects"):
        assert read_annif(folder).n_samples == 3
    assert read_annif_texts(folder).ids == ["1", "2", "4", "5", "3"]


@pytest.mark.parametrize(
    ("name", "content", "ids", "second"),
    [
        ("corpus.tsv", TSV, None, [EX + "cat", EX + "dog"]),
        ("corpus.csv", CSV, ["7", "8"], [EX + "cat", EX + "dog"]),
        ("corpus.jsonl", JSONL, ["7", ""], ["dogs", EX + "cat"]),
    ],
)
def test_a_file_of_documents(tmp_path, name, content, ids, second):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    packed = tmp_path / f"packed-{name}.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    for file in (path, packed):
        assert detect_format(file) == "annif"
        dataset = read_dataset(file)
        assert dataset.texts == ["a cat", "a cat and a dog"]
        assert dataset.ids == ids
        assert rows(dataset) == [[EX + "cat"], second]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "text\tlabels\na cat\tcats\n"),
        ("a.csv", "text,labels\na cat,cats\n"),
        ("a.jsonl", '{"text": "a", "labels": ["b"]}\n'),
        ("a.jsonl", "not json\n"),
    ],
)
def test_other_files_stay_what_they_are(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    assert not is_annif_corpus(path)
    assert detect_format(path) != "annif"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", f"a\tb\t<{EX}c>\n", "line 1: expected a text, one tab"),
        ("a.tsv", "a\n", "no document with subjects"),
        ("a.csv", "subject_uris\nx\n", "line 1: has no column 'text'"),
        ("a.csv", "text,subject_uris\na,b,c\n", "line 2: expected 2 columns as in the header, but there are 3"),
        ("a.csv", 'text,subject_uris\na,"b\n', "is not CSV"),
        ("a.jsonl", '{"text": "a", "subjects": "x"}\n', "line 1: 'subjects' must be a list"),
        ("a.jsonl", '{"text": "a", "subjects": [{}]}\n', "line 1: 'subjects' must be a list"),
        ("a.jsonl", '{"text": 3, "subjects": []}\n', "line 1: expected a JSON object"),
        ("a.jsonl", "{\n", "line 1: is not JSON"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_annif(path)


def test_a_folder_without_texts_is_no_corpus(tmp_path):
    assert not is_annif_corpus(tmp_path)
    with pytest.raises(DataError, match="is a directory"):
        read_dataset(tmp_path)
    with pytest.raises(DataError, match="no such file or folder"):
        read_annif(tmp_path / "nothing")
