"""Versions of a model folder: copies, locks and folders that are replaced while they are read."""

import os
from pathlib import Path
from typing import Any

import pytest

from pysldl.baselines import LabelPrior
from pysldl.exceptions import DataError, ModelFormatError
from pysldl.persistence import current_version, load_model, lock_model, read_current, save_model
from pysldl.persistence.tensors import frozen_arrays
from pysldl.persistence.versions import copy_version


def prior() -> Any:
    return LabelPrior().fit([[1], [2]], [[1, 0], [1, 1]])


def test_a_version_is_copied_whole_under_its_own_name(tmp_path: Path) -> None:
    save_model(prior(), tmp_path / "model")
    version = current_version(tmp_path / "model")
    copy_version(version, tmp_path / "copy")
    assert current_version(tmp_path / "copy").name == version.name
    assert load_model(tmp_path / "copy").prior_.tolist() == [1.0, 0.5]
    with pytest.raises(DataError, match="there is a model already"):
        copy_version(version, tmp_path / "copy")


def test_a_copy_needs_a_folder_to_lie_in(tmp_path: Path) -> None:
    save_model(prior(), tmp_path / "model")
    with pytest.raises(DataError, match="no such folder to write the model copy into"):
        copy_version(current_version(tmp_path / "model"), tmp_path / "nowhere" / "copy")


def test_a_damaged_pointer_is_not_replaced(tmp_path: Path) -> None:
    save_model(prior(), tmp_path / "model")
    (tmp_path / "model" / "current.json").write_text("{}")
    with pytest.raises(DataError, match="is not a pysldl model, so it is not replaced"):
        save_model(prior(), tmp_path / "model", overwrite=True)


def test_a_reader_gives_up_on_a_model_that_is_replaced_again_and_again(tmp_path: Path) -> None:
    save_model(prior(), tmp_path / "model")
    attempts = []

    def read(version: Path) -> None:
        attempts.append(version)
        save_model(prior(), tmp_path / "model", overwrite=True)
        raise ModelFormatError("gone")

    with pytest.raises(ModelFormatError, match="replaced again and again"):
        read_current(tmp_path / "model", read)
    assert len(set(attempts)) == len(attempts) == 10


def test_a_folder_that_cannot_be_locked_is_named(tmp_path: Path) -> None:
    (tmp_path / "model" / "lock").mkdir(parents=True)  # a folder in the place of the lock file
    with pytest.raises(DataError, match="cannot be locked for writing"), lock_model(tmp_path / "model"):
        pass


def test_systems_without_sealed_memory_get_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(prior(), tmp_path / "model")
    version = current_version(tmp_path / "model")

    def forbidden(*_: Any) -> int:
        raise OSError("not permitted")

    monkeypatch.setattr(os, "memfd_create", forbidden, raising=False)
    assert frozen_arrays(version) is None
    monkeypatch.delattr(os, "memfd_create")
    assert frozen_arrays(version) is None
