"""The version that is served, and the watch over newer ones."""

import shutil
from types import SimpleNamespace

import pytest
from quick_models import fitted

from pysldl.exceptions import ModelFormatError
from pysldl.persistence import current_version, save_model
from pysldl.serve import source as module
from pysldl.serve.source import FolderWatch, ModelSource, described


@pytest.fixture
def path(word_model, tmp_path):
    return shutil.copytree(word_model, tmp_path / "model")


def test_a_version_is_served_when_it_is_told_and_not_before(path, world):
    source = ModelSource(path)
    before = source.current
    save_model(fitted(world, range(200)), path, overwrite=True)
    source.load(1, current_version(path))
    assert source.current is before
    source.serve(1)
    source.keep(1)
    assert source.current.version != before.version and source.current.name == "model"


def test_the_watch_finds_new_versions_and_tries_failed_ones_again(path, world, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)
    watch = FolderWatch(path, 1.0)
    assert watch.find() is None
    save_model(fitted(world, range(200)), path, overwrite=True)
    assert watch.find() == current_version(path)
    assert watch.note_failure() and watch.is_failing
    waits = []
    for _ in range(8):
        start = clock.now
        while watch.find() is None:
            clock.now += 0.5
        waits.append(clock.now - start)
        assert not watch.note_failure()
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    save_model(fitted(world, range(240)), path, overwrite=True)
    assert watch.find() is not None
    watch.note_success()
    assert watch.find() is None and not watch.is_failing


def test_a_link_that_is_turned_is_a_new_version(path, world, tmp_path):
    other, link = tmp_path / "other", tmp_path / "link"
    save_model(fitted(world, range(200)), other)
    link.symlink_to(path)
    watch = FolderWatch(link, 1.0)
    assert watch.find() is None
    link.unlink()
    link.symlink_to(other)
    assert watch.find() == current_version(other)


def test_a_folder_that_is_gone_is_an_error(path):
    watch = FolderWatch(path, 1.0)
    shutil.rmtree(path)
    with pytest.raises(ModelFormatError):
        watch.find()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ModelFormatError("/secret/place: is damaged"), "damaged"),
        (MemoryError(), "not enough memory"),
        (OSError(2, "no such file", "/secret/place"), "FileNotFoundError"),
        (TimeoutError(), "too long"),
        (11, "signal 11"),
    ],
)
def test_problems_are_described_without_paths(error, words):
    assert words in described(error) and "/secret" not in described(error)
