"""Parquet and Arrow files: files, folders, patterns; texts and sparse features; one clear error for each defect."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from pysldl.datasets import Dataset, read_dataset, write_parquet
from pysldl.datasets.parquet import Columns, list_parts, read_part
from pysldl.exceptions import DataError

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")

TEXTS = ["a wide sky", "clouds in the sky", "the sea", ""]
LABELS = [["sky"], ["sky", "cloud"], ["sea"], []]


def texts_and_labels(n_copies=1):
    names = ["cloud", "sea", "sky"]
    Y = np.array([[name in row for name in names] for row in LABELS * n_copies])
    return Dataset("tiny", None, Y, names, texts=TEXTS * n_copies, splits={"train": range(3 * n_copies)})


def features():
    X = sparse.random_array((7, 5), density=0.4, random_state=np.random.default_rng(0), format="csr", dtype=np.float32)
    return Dataset("numbers", X, np.eye(7, 3, dtype=int), ["a", "b", "c"])


def write_table(path, **columns):
    parquet.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("parts", [None, 3])
def test_texts_come_back_with_labels_and_splits(tmp_path, parts):
    data = texts_and_labels(2)
    target = tmp_path / ("all.parquet" if parts is None else "all")
    write_parquet(data, target, rows_per_part=parts)
    back = read_dataset(target)
    assert back.texts == data.texts
    assert back.label_names.tolist() == data.label_names.tolist()
    assert (back.Y != data.Y).nnz == 0
    assert back.splits["train"].tolist() == data.splits["train"].tolist()


def test_features_come_back_with_their_width(tmp_path):
    data = features()
    write_parquet(data, tmp_path / "parts", rows_per_part=2)
    back = read_dataset(tmp_path / "parts" / "*.parquet")
    assert back.X.shape == data.X.shape
    assert np.array_equal(back.X.data, data.X.data) and np.array_equal(back.X.indices, data.X.indices)


@pytest.mark.parametrize("suffix", [".feather", ".arrow"])
def test_arrow_files_are_read(tmp_path, suffix):
    path = tmp_path / f"rows{suffix}"
    feather.write_feather(pa.table({"text": TEXTS, "labels": LABELS}), str(path))
    assert read_dataset(path).texts == TEXTS


def test_a_file_is_read_by_row_groups(tmp_path):
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"text": TEXTS, "labels": LABELS}), path, row_group_size=3)
    assert [part.n_rows for part in list_parts(path)] == [3, 1]
    assert read_part(list_parts(path)[1]).texts == TEXTS[3:]


def test_predictions_need_no_labels(tmp_path):
    path = write_table(tmp_path / "new.parquet", body=TEXTS)
    assert read_part(list_parts(path)[0], Columns(text="body"), labels=False).labels is None


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"text": [1, 2], "labels": [["a"], []]}, "'text' must hold texts, but its type is int64"),
        ({"text": ["x", None], "labels": [["a"], []]}, "row 1: column 'text' is empty"),
        ({"text": ["x", "y"], "labels": ["a", "b"]}, "'labels' must hold lists of strings, but its type is string"),
        ({"text": ["x", "y"], "labels": [[1], [2]]}, "'labels' must hold lists of strings"),
        ({"text": ["x", "y"], "labels": [["a"], None]}, "row 1: column 'labels' is empty; write an empty list"),
        ({"text": ["x", "y"], "labels": [["a"], [None]]}, "row 1: a label in column 'labels' is empty"),
        ({"text": ["x", "y"], "labels": [["a"], [""]]}, "a label in column 'labels' is an empty text; leave it out"),
        ({"text": ["x", "y"]}, "has no column 'labels'; it has 'text'"),
        ({"body": ["x"], "labels": [["a"]]}, "has no column 'text'; it has 'body', 'labels'"),
        ({"indices": [[0, 1]], "values": [[1.0]], "labels": [["a"]]}, "row 0: has 2 'indices', but 1 'values'"),
        ({"indices": [[-1]], "values": [[1.0]], "labels": [["a"]]}, "column 'indices' holds -1"),
        ({"indices": [[0.5]], "values": [[1.0]], "labels": [["a"]]}, "'indices' must hold lists of integers"),
        ({"indices": [[0]], "values": [[float("inf")]], "labels": [["a"]]}, "missing or infinite"),
        ({"text": ["x"], "labels": [[]]}, "no row has a label"),
    ],
)
def test_a_defect_is_one_sentence_with_part_and_column(tmp_path, columns, said):
    path = write_table(tmp_path / "bad.parquet", **columns)
    with pytest.raises(DataError) as error:
        read_dataset(path)
    assert said in str(error.value)
    assert str(path) in str(error.value)


def test_damaged_empty_and_missing_files_are_named(tmp_path):
    good = write_table(tmp_path / "a.parquet", text=TEXTS, labels=LABELS)
    for name, content in {
        "b.parquet": good.read_bytes()[:-20],
        "c.arrow": b"no arrow at all",
        "d.parquet": b"",
    }.items():
        bad = tmp_path / name
        bad.write_bytes(content)
        with pytest.raises(DataError, match=name):
            read_dataset(tmp_path)
        bad.unlink()
    with pytest.raises(DataError, match="no file matches"):
        read_dataset(tmp_path / "x*.parquet", "parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no file"):
        read_dataset(tmp_path / "empty", "parquet")


def arrow_bytes(**columns):
    stream = pa.BufferOutputStream()
    table = pa.table(columns)
    with pa.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue().to_pybytes()


PLAIN = {"text": ["abc", "def"], "labels": [["x"], ["y"]]}
ROW = {"indices": [[0]], "values": [[1.0]], "labels": [["x"]]}


# Found by fuzzing: before offsets and texts were checked, the first ended the process, and others were tracebacks.
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("offsets.arrow", lambda: arrow_bytes(**PLAIN).replace(b"\3\0\0\0\6\0\0\0", b"\3\0\0\x70\6\0\0\0"), "damaged"),
        ("negative.arrow", lambda: arrow_bytes(**PLAIN).replace(b"\3\0\0\0\6\0\0\0", b"\3\0\0\xf0\6\0\0\0"), "damaged"),
        ("letters.arrow", lambda: arrow_bytes(**PLAIN).replace(b"abcdef", b"ab\xff\xfeef"), "damaged"),
        ("cut.arrow", lambda: arrow_bytes(**PLAIN)[:-40], "whole Arrow file"),
        ("names.arrow", lambda: arrow_bytes(**PLAIN).replace(b"text", b"te\xff\xfe"), "whole Arrow file|has no column"),
        ("splits.arrow", lambda: arrow_bytes(**PLAIN, split=[["a"], ["b"]]), "'split' must hold texts"),
    ],
)
def test_damage_is_one_error(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content())
    with pytest.raises(DataError, match=rf"{name}.*({message})"):
        read_dataset(tmp_path / name)


def test_columns_that_come_twice(tmp_path):
    table = pa.table(PLAIN)
    parquet.write_table(table.append_column("text", table["text"]), tmp_path / "twice.parquet")
    with pytest.raises(DataError, match=r"twice\.parquet: has 2 columns 'text'"):
        read_dataset(tmp_path / "twice.parquet")


@pytest.mark.parametrize("said", [b"many", b"-1", b"9" * 30])
def test_a_number_of_features_that_is_none(tmp_path, said):
    table = pa.table(ROW).replace_schema_metadata({b"pysldl.n_features": said})
    parquet.write_table(table, tmp_path / "wide.parquet")
    with pytest.raises(DataError, match=r"wide\.parquet: says that it has .* features"):
        read_dataset(tmp_path / "wide.parquet")


@pytest.mark.parametrize("path", sorted(Path(__file__).with_name("found").iterdir()), ids=lambda path: path.name)
def test_files_that_fuzzing_found(path):
    with pytest.raises(DataError, match=rf"{path.name}.*is damaged"):
        read_dataset(path)
