"""The library's own data file: what is written is read; what is damaged is named."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pysldl.datasets import Dataset, make_asymmetric_multilabel, read_dataset, read_npz, write_npz
from pysldl.exceptions import DataError


def small() -> Dataset:
    return make_asymmetric_multilabel(30, 40, 8)


NAMES = small().label_names.astype(str)


def arrays_of(path: Path) -> dict[str, Any]:
    with np.load(path) as stored:
        return dict(stored)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_round_trip(tmp_path: Path, data: st.DataObject) -> None:
    n, q, c = (data.draw(st.integers(1, 6)) for _ in range(3))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    X = rng.normal(size=(n, q)) * (rng.random((n, q)) < 0.5)
    Y = rng.random((n, c)) < 0.4
    names = data.draw(st.lists(st.text(st.characters(exclude_characters="\0")), min_size=c, max_size=c, unique=True))
    original = Dataset("d", X, Y, names, splits={"train": np.arange(n)})
    write_npz(original, tmp_path / "d.npz")
    again = read_npz(tmp_path / "d.npz")
    np.testing.assert_array_equal(again.X.toarray(), original.X)
    np.testing.assert_array_equal(again.Y.toarray(), original.Y.toarray())
    assert again.label_names.tolist() == names
    np.testing.assert_array_equal(again.splits["train"], np.arange(n))


def test_names_idf_and_splits_come_back(tmp_path: Path) -> None:
    original = small()
    write_npz(original, tmp_path / "d.npz")
    again = read_dataset(tmp_path / "d.npz")
    assert original.feature_names is not None and again.feature_names is not None
    assert again.feature_names.tolist() == original.feature_names.tolist()
    np.testing.assert_array_equal(again.idf, original.idf)
    assert again.splits.keys() == {"train", "test"}


@pytest.mark.parametrize("content", [b"", b"not a zip at all", b"PK\x03\x04 cut off"])
def test_foreign_bytes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "d.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"d\.npz: .*(empty|magic bytes|damaged)"):
        read_npz(path)


def test_truncated_file(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    write_npz(small(), path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"d\.npz: the npz file is damaged"):
        read_npz(path)


def test_flipped_byte(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    write_npz(small(), path)
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:  # a byte of the content: those of the archive's own notes may not matter
        content[archive.getinfo("X_data.npy").header_offset + 80] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"d\.npz"):
        read_npz(path)


def test_foreign_zip(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(DataError, match="holds no array 'label_names'"):
        read_npz(path)


def test_pickles_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    write_npz(small(), path)
    arrays = arrays_of(path)
    arrays["label_names"] = arrays["label_names"].astype(object)
    np.savez(path, **arrays)
    with pytest.raises(DataError, match=r"d\.npz.*Python objects"):
        read_npz(path)


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("Y_indices", lambda a: a + 100, "arrays of Y do not make a CSR matrix"),
        ("X_indptr", lambda a: a[:-1], "arrays of X do not make a CSR matrix"),
        ("X_shape", lambda a: a[:1], "arrays of X do not make a CSR matrix"),
        ("label_names", lambda a: NAMES[:-1], "7 names, but Y has 8"),
        ("label_names", lambda a: np.where(NAMES[1] == NAMES, NAMES[0], NAMES), "'sky'"),
        ("label_names", lambda a: a[:-1], "not a JSON list"),
        ("feature_names", lambda a: np.frombuffer(b"[1, 2]", np.uint8), "not a JSON list of texts"),
        ("X_data", lambda a: np.where(np.arange(len(a)) == 5, np.nan, a), "X is nan at row"),
        ("train_idx", lambda a: a + 30, "'train' names row"),
    ],
)
def test_arrays_that_do_not_agree(tmp_path: Path, key: str, change: Any, message: str) -> None:
    path = tmp_path / "d.npz"
    write_npz(small(), path)
    arrays = arrays_of(path)
    arrays[key] = change(arrays[key])
    np.savez(path, **arrays)
    with pytest.raises(DataError, match=message):
        read_npz(path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "d.npz"
    write_npz(small(), path)
    before = path.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(DataError, match=r"d\.npz: cannot be written \(No space left on device\)"):
        write_npz(small(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a directory"):
        write_npz(small(), tmp_path)
    with pytest.raises(DataError, match="cannot be written"):
        write_npz(small(), tmp_path / "missing" / "d.npz")
    with pytest.raises(DataError, match=r"vectorize\(\) it before"):
        write_npz(Dataset("d", None, [[1]], ["a"], texts=["b"]), tmp_path / "d.npz")
