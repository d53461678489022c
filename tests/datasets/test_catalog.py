"""The catalog finds local copies, checks them, and says what is missing."""

import os
from pathlib import Path

import numpy as np
import pytest

from pysldl.datasets import (
    CATALOG,
    Dataset,
    dataset_info,
    find_dataset,
    list_datasets,
    load_dataset,
    write_npz,
    write_xc,
)
from pysldl.exceptions import DataError

LOCAL = [
    *(info.name for info in list_datasets("paper") if info.name not in ("CUB", "eurlex-dc", "eurlex-sm", "espgame")),
    "eurlex57k",
    "tibkat",
]


def of_shape(n_samples: int, n_features: int, n_labels: int) -> Dataset:
    Y = np.zeros((n_samples, n_labels))
    Y[:, 0] = 1
    return Dataset("d", np.ones((n_samples, n_features)), Y, np.arange(n_labels).astype(str))


@pytest.fixture
def coffee() -> Dataset:
    return of_shape(225, 1763, 123)


def test_the_papers_fifteen_and_the_repositorys_are_listed() -> None:
    assert len(list_datasets("paper")) == 15
    assert {info.name for info in list_datasets()} == set(CATALOG)
    assert dataset_info("amazon-670k").propensity == (0.6, 2.6)
    assert dataset_info("Wikipedia-500K").propensity == (0.5, 0.4)
    assert dataset_info("stackex-cs").propensity == (0.55, 1.5)


@pytest.mark.parametrize("place", ["stackex-coffee.npz", "Stackex-Coffee.NPZ", "stackex-coffee/stackex-coffee.npz"])
def test_copies_are_found(tmp_path: Path, coffee: Dataset, place: str) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    write_npz(coffee, tmp_path / place)
    ds = load_dataset("STACKEX-coffee", tmp_path)
    assert ds.name == "stackex-coffee" and ds.n_labels == 123


@pytest.mark.parametrize(
    "places",
    [
        ("train.txt", "test.txt"),
        ("stackex-coffee_train.txt", "stackex-coffee_test.txt"),
    ],
)
def test_pairs_of_files_in_a_folder(tmp_path: Path, coffee: Dataset, places: tuple[str, str]) -> None:
    folder = tmp_path / "stackex-coffee"
    folder.mkdir()
    write_xc(coffee.subset(range(200)), folder / places[0])
    write_xc(coffee.subset(range(200, 225)), folder / places[1])
    ds = load_dataset("stackex-coffee", tmp_path)
    assert len(ds.splits["train"]) == 200 and len(ds.splits["test"]) == 25


def test_files_are_found_by_alias(tmp_path: Path) -> None:
    folder = tmp_path / "Wiki10-31K"
    folder.mkdir()
    for part in ("train", "test"):
        (folder / f"wiki10_{part}.txt").write_text("1 1 1\n0 0:1\n")
    found = find_dataset("wiki10-31k", tmp_path)
    assert found is not None and [path.name for path in found] == ["wiki10_train.txt", "wiki10_test.txt"]


def test_environment_variable_with_several_folders(
    tmp_path: Path, coffee: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_npz(coffee, tmp_path / "stackex-coffee.npz")
    monkeypatch.setenv("PYSLDL_DATA", f"{tmp_path / 'nowhere'}{os.pathsep}{tmp_path}")
    assert load_dataset("stackex-coffee").n_samples == 225


def test_wrong_shape_tells_both(tmp_path: Path) -> None:
    write_npz(of_shape(225, 10, 123), tmp_path / "stackex-coffee.npz")
    with pytest.raises(DataError, match="n_features is 10, but data set 'stackex-coffee' has 1763"):
        load_dataset("stackex-coffee", tmp_path)


def test_missing_copies_say_where_was_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=rf"no local copy of data set 'CUB': looked in {tmp_path} for CUB\.npz"):
        load_dataset("CUB", tmp_path)
    with pytest.raises(DataError, match=r"no such folder: .*nowhere"):
        load_dataset("CUB", tmp_path / "nowhere")
    monkeypatch.delenv("PYSLDL_DATA", raising=False)
    with pytest.raises(DataError, match="set PYSLDL_DATA or data_dir"):
        load_dataset("CUB")
    assert find_dataset("CUB") is None


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(DataError, match="did you mean 'stackex-chess'"):
        load_dataset("stackexchess")
    with pytest.raises(DataError, match="list_datasets"):
        load_dataset("qqqq")


@pytest.mark.data
@pytest.mark.parametrize("name", LOCAL)
def test_real_data_sets_have_the_expected_statistics(data_dir: Path, name: str) -> None:
    ds, info = load_dataset(name, data_dir), dataset_info(name)
    assert ds.labels_per_sample == pytest.approx(info.labels_per_sample, abs=0.006)
    assert (ds.idf is not None) == (info.group == "large")
    if info.features == "binary":
        assert (ds.X.data == 1).all()
    if info.group == "large":
        lengths = np.sqrt((ds.tfidf().split("test").X ** 2).sum(axis=1))
        np.testing.assert_allclose(lengths[lengths > 0], 1, rtol=1e-5)


@pytest.mark.data
def test_real_texts(data_dir: Path) -> None:
    ds = load_dataset("eurlex-text", data_dir)
    assert len(ds.splits["train"]) == 10_000 and len(ds.splits["test"]) == 2_000
    assert "France" in ds.label_names and ds.texts is not None and "Regulation" in ds.texts[0]
