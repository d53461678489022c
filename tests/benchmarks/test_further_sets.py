"""The further sets are written with their split, and read as any other data set; packages are not fetched here."""

import numpy as np
import pytest

from pysldl.datasets import read_dataset

LABELS = [["b"], ["a", "b"], ["a"], ["c"], ["a"]] * 4


@pytest.fixture
def sets(command_line):
    import further_sets

    return further_sets


def test_texts_are_written_with_their_split(sets, tmp_path):
    size = sets.write_texts("some", tmp_path, [(f"text {row}", labels) for row, labels in enumerate(LABELS)])
    assert size == {"rows": 20, "labels": 3, "labels_per_row": 1.2}
    found = read_dataset(tmp_path / "some.jsonl.gz")
    assert {name: len(rows) for name, rows in found.splits.items()} == {"train": 16, "test": 4}
    assert [found.label_names[found.Y[[1]].indices].tolist(), found.texts[1]] == [["a", "b"], "text 1"]


def test_the_same_rows_are_test_rows_of_features(sets, tmp_path):
    sets.write_texts("some", tmp_path, [(f"text {row}", labels) for row, labels in enumerate(LABELS)])
    sets.write_matrices("some", tmp_path, np.eye(20, dtype=np.float32), LABELS)
    texts, features = (read_dataset(tmp_path / f"some.{ending}") for ending in ("jsonl.gz", "npz"))
    np.testing.assert_array_equal(texts.splits["test"], features.splits["test"])
    assert features.label_names.tolist() == ["a", "b", "c"] and features.Y[[1]].indices.tolist() == [0, 1]
